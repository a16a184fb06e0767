"""The command line: one module for each command, with a function of its name."""

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module

import typer

COMMANDS = ("fit", "predict", "check", "report", "compare", "export", "serve", "watch")

app = typer.Typer(name="bacoun", rich_markup_mode="markdown", pretty_exceptions_enable=False)
for name in COMMANDS:
    app.command()(vars(import_module(f"bacoun.cli.{name}"))[name])

# A command makes a million objects by imports, and keeps them. To look for garbage among them every
# 700 objects, and once more at the end, takes a third of the time of `bacoun predict`.
gc.set_threshold(100_000)
atexit.register(gc.freeze)

# The click module that typer uses has changed its name; this is its UsageError under any name.
_UsageError: type[Exception] = typer.BadParameter.__mro__[2]


@app.callback(invoke_without_command=True)
def _contents(context: typer.Context) -> None:
    """Classifiers that know what they have not seen."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None, app: typer.Typer = app) -> None:
    """Run a command line; an error is one line on stderr and exit code 2.

    The `arguments` follow the program's name; None: those of the process. `app` has the commands.
    """
    try:
        code = app(arguments, standalone_mode=False)
    except _UsageError as error:
        _fail(error.format_message())  # type: ignore[attr-defined]
    except (typer.Abort, KeyboardInterrupt):
        print("stopped.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # the reader has closed the pipe; flushing would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, TypeError, OSError, ImportError) as error:
        _fail(str(error))
    else:
        if code == 130:  # typer's exit code for Ctrl-C
            print("stopped.", file=sys.stderr)
        if code:
            sys.exit(code)


def _fail(message: str) -> None:
    print(f"bacoun: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)

"""The command line: one small file for each verb, over the rooms of the library."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import typer

from bacoun.cli.export import export
from bacoun.cli.fit import fit
from bacoun.cli.predict import predict
from bacoun.cli.report import report

app = typer.Typer(name="bacoun", rich_markup_mode="markdown", pretty_exceptions_enable=False)
for verb in (fit, predict, report, export):
    app.command()(verb)

# Typer brings click along under changing names; what the two call a mistake of the user is this.
_UsageError: type[Exception] = typer.BadParameter.__mro__[2]


@app.callback(invoke_without_command=True)
def _contents(context: typer.Context) -> None:
    """Classifiers that know what they have not seen."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main(arguments: Sequence[str] | None = None, app: typer.Typer = app) -> None:
    """Run a command line; a mistake is one line on stderr and exit code 2.

    Parameters
    ----------
    arguments : sequence of str, optional
        The words after the name of the command; None: those the process was started with.
    app : typer.Typer
        The commands; by default those of `bacoun`.
    """
    try:
        code = app(arguments, standalone_mode=False)
    except _UsageError as error:
        _refuse(error.format_message())  # type: ignore[attr-defined]
    except (typer.Abort, KeyboardInterrupt):
        print("stopped.", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:  # who reads our answer has enough; nothing is left to flush
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except (ValueError, TypeError, OSError, ImportError) as error:
        _refuse(str(error))
    else:
        if code == 130:  # typer's answer to Ctrl-C
            print("stopped.", file=sys.stderr)
        if code:
            sys.exit(code)


def _refuse(message: str) -> None:
    print(f"bacoun: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)

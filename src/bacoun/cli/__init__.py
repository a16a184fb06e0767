"""The command line: one small file for each verb, over the rooms of the library."""

from __future__ import annotations

import sys

import typer

from bacoun.cli.reproduce import reproduce

app = typer.Typer(name="bacoun", rich_markup_mode="markdown", pretty_exceptions_enable=False)
app.command()(reproduce)

# Typer brings click along under changing names; what the two call a mistake of the user is this.
_UsageError: type[Exception] = typer.BadParameter.__mro__[2]


@app.callback(invoke_without_command=True)
def _contents(context: typer.Context) -> None:
    """Classifiers that know what they have not seen."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def main() -> None:
    """Run the command line; a mistake is one line on stderr and exit code 2."""
    try:
        app(standalone_mode=False)
    except _UsageError as error:
        _refuse(error.format_message())  # type: ignore[attr-defined]
    except (typer.Abort, KeyboardInterrupt):
        print("stopped.", file=sys.stderr)
        sys.exit(130)
    except (ValueError, TypeError, OSError, ImportError) as error:
        _refuse(str(error))


def _refuse(message: str) -> None:
    print(f"bacoun: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(2)

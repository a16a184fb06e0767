"""`bacoun serve`: score over HTTP, and a playground to see the method at work."""

import os
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from bacoun.cli.output import say

_TOKEN = "BACOUN_TOKEN"


def serve(
    models: Annotated[
        list[Path] | None, Argument(help="Models, or a folder of them; none: playground.")
    ] = None,
    host: Annotated[
        str, Option(help="Address to listen on; others than loopback need a token.")
    ] = "127.0.0.1",
    port: Annotated[int, Option(help="Port to listen on; 0 takes a free one.")] = 8000,
    workers: Annotated[int, Option(min=1, help="Processes that score.")] = 1,
    max_body: Annotated[int, Option(min=1000, help="Bytes in a body, at most.")] = 16_000_000,
    max_rows: Annotated[int, Option(min=1, help="Rows in a body, at most.")] = 100_000,
    timeout: Annotated[float, Option(min=0.1, help="Seconds for an answer, at most.")] = 30.0,
    client_timeout: Annotated[
        float, Option(min=0.1, help="Seconds for a client to send headers, or a body.")
    ] = 20.0,
    watch: Annotated[
        bool, Option("--watch", help="Count scored rows beside each model; test for drift.")
    ] = False,
    watch_inputs: Annotated[
        bool, Option("--watch-inputs", help="With --watch: also store the rows.")
    ] = False,
    playground: Annotated[bool, Option(help="Serve the playground, which trains models.")] = True,
) -> None:
    """Score rows over HTTP, and open a playground at the same address.

    Rows come as JSON, CSV or Arrow, or by the Open Inference Protocol v2 or MLflow's /invocations;
    /docs has the interface. A model that is replaced on disk is taken up without a restart. The
    variable BACOUN_TOKEN holds a bearer token that requests must carry.

    Example: `bacoun serve models/`
    """
    try:
        from bacoun.server.app import create_app
        from bacoun.server.app import serve as run
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("bacoun"):
            raise
        raise ImportError(
            f"bacoun serve needs {error.name}, which is not installed. Run pip install "
            "'bacoun[serve]'."
        ) from None
    from bacoun.server.settings import Limits, Settings
    from bacoun.server.workers.catalog import Catalog

    if watch_inputs and not watch:
        raise ValueError("--watch-inputs stores rows in the log of --watch; pass both.")
    settings = Settings(
        host=host,
        port=port,
        token=os.environ.get(_TOKEN) or None,
        n_workers=workers,
        watch=watch,
        watch_inputs=watch_inputs,
        playground=playground,
        limits=Limits(max_body, max_rows, seconds=timeout, slow_seconds=client_timeout),
    )
    catalog = Catalog.of(models or [])

    def say_where(address: str) -> None:
        say(f"models: {', '.join(catalog.names()) or 'none'}")
        say(f"listening on {address}")

    run(create_app(catalog, settings), settings, say_where)

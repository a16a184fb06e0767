"""Progress bars on stderr, for `verbose=True` and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bacoun.training import OnEpoch

BarFor = Callable[[str], OnEpoch | None]


@contextmanager
def progress_bars(show: bool) -> Iterator[BarFor]:
    """Yield a function that opens a bar by name and returns its `on_epoch` callback."""
    if not show:
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description:<10}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
    )
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True)) as progress:

        def bar_for(name: str) -> OnEpoch:
            task = progress.add_task(name, total=None)
            return lambda done, planned: progress.update(task, completed=done, total=planned)

        yield bar_for

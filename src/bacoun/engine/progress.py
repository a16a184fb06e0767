"""Progress of a fit: bars on stderr, for `verbose=True` and the command line, or a listener."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial

from bacoun.engine.training import OnEpoch

BarFor = Callable[[str], OnEpoch | None]
Listener = Callable[[str, int, int], None]
"""Called with the name of a step, the number of epochs done and of those planned."""

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)


@contextmanager
def progress_to(listener: Listener) -> Iterator[None]:
    """Tell `listener` about the progress of fits in this block; what it raises ends them."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def progress_bars(show: bool) -> Iterator[BarFor]:
    """Yield a function that opens a bar by name and returns its `on_epoch` callback."""
    listener = _listener.get()
    if listener is not None or not show:
        yield lambda name: partial(listener, name) if listener is not None else None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    name, count = TextColumn("{task.description:<10}"), TextColumn("{task.completed}/{task.total}")
    columns = name, BarColumn(), count, TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True)) as progress:

        def bar_for(name: str) -> OnEpoch:
            task = progress.add_task(name, total=None)
            return lambda done, planned: progress.update(task, completed=done, total=planned)

        yield bar_for

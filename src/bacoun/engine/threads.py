"""How many torch threads a block of code runs on."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any

import torch

# Below this many multiply-adds per step, synchronizing a second thread costs more than it saves.
_WORTH_A_SECOND_THREAD = 20_000_000

# Set within blocks of `threads_for`, which may be nested; a worker thread starts without it.
_most_threads: ContextVar[int | None] = ContextVar("most_threads", default=None)


def is_worth_threads(work: float) -> bool:
    """Whether a step of so many multiply-adds is faster on more than one thread."""
    return work >= _WORTH_A_SECOND_THREAD


@contextmanager
def threads_for(work: float, *, most: int | None = None) -> Iterator[None]:
    """Run the block on as many torch threads as `work` (multiply-adds per step) is worth.

    Small models are fastest on one thread. `most`, or else the setting outside of all such blocks,
    is an upper limit; that setting is restored.
    """
    before, limit = torch.get_num_threads(), most or _thread_limit()
    token = _most_threads.set(limit)
    torch.set_num_threads(limit if is_worth_threads(work) else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _most_threads.reset(token)


def one_thread() -> AbstractContextManager[None]:
    """Run the block on one torch thread, and so all of `threads_for` and `independent_workers`.

    For a process that is one of many on a machine: others have the other cores.
    """
    return threads_for(0, most=1)


@contextmanager
def independent_workers() -> Iterator[Callable[..., list[Any]]]:
    """A `map` over Python threads, as many as torch may have, each with torch on one thread.

    torch's own threads wait for each other after each operation by spinning. On a busy machine that
    costs many times the work itself; these wait once, asleep.
    """
    n_workers = _thread_limit()
    with threads_for(0), ThreadPoolExecutor(n_workers) as pool:
        yield lambda function, *columns: list(pool.map(function, *columns))


def _thread_limit() -> int:
    """Threads that torch had outside of all blocks of `threads_for`."""
    return _most_threads.get() or torch.get_num_threads()

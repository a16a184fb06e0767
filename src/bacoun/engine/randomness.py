"""Randomness and threads: `random_state` outside, an explicit `torch.Generator` inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

RandomState = int | np.random.RandomState | np.random.Generator | None

# Below this many multiply-adds per step, synchronizing a second thread costs more than it saves.
_WORTH_A_SECOND_THREAD = 20_000_000

# Set within blocks of `threads_for`, which may be nested; a worker thread starts without it.
_most_threads: ContextVar[int | None] = ContextVar("most_threads", default=None)


def as_generator(random_state: RandomState | torch.Generator) -> torch.Generator:
    """Turn scikit-learn's `random_state` into a generator; None takes fresh entropy.

    Global random state is never touched: None does not draw from `numpy.random`.
    """
    if isinstance(random_state, torch.Generator):
        return random_state
    if random_state is None:
        seed = int(np.random.SeedSequence().generate_state(1, np.uint64)[0] >> 1)
    elif isinstance(random_state, np.random.Generator):
        seed = int(random_state.integers(2**62))
    else:
        seed = int(check_random_state(random_state).randint(2**31 - 1))
    return torch.Generator().manual_seed(seed)


def draw_seed(generator: torch.Generator) -> int:
    """One integer from `generator`, to seed another generator."""
    return int(torch.randint(2**62, (1,), generator=generator))


def mix_bits(bits: np.ndarray) -> np.ndarray:
    """The finalizer of SplitMix64 (Steele et al. 2014): nearby uint64 (N,) become unrelated."""
    with np.errstate(over="ignore"):  # modulo 2**64
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@contextmanager
def seeded(generator: torch.Generator) -> Iterator[None]:
    """Seed torch's global generator from `generator` inside the block; restore it afterwards.

    Layer constructors and dropout draw from the global generator only.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw_seed(generator))
        yield


def is_worth_threads(work: float) -> bool:
    """Whether a step of so many multiply-adds is faster on more than one thread."""
    return work >= _WORTH_A_SECOND_THREAD


@contextmanager
def threads_for(work: float) -> Iterator[None]:
    """Run the block on as many torch threads as `work` (multiply-adds per step) is worth.

    Small models are fastest on one thread. The setting outside of all such blocks is an upper
    limit, and restored.
    """
    before = torch.get_num_threads()
    token = _most_threads.set(_thread_limit())
    torch.set_num_threads(_thread_limit() if is_worth_threads(work) else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _most_threads.reset(token)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run the block on one torch thread, and so all of `threads_for` and `independent_workers`.

    For a process that is one of many on a machine: others have the other cores.
    """
    before = torch.get_num_threads()
    token = _most_threads.set(1)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
        _most_threads.reset(token)


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

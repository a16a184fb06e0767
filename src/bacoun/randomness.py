"""Randomness and threads: `random_state` outside, an explicit `torch.Generator` inside."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from sklearn.utils import check_random_state

RandomState = int | np.random.RandomState | np.random.Generator | None

# Below this many multiply-adds per step, synchronizing a second thread costs more than it saves.
_WORTH_A_SECOND_THREAD = 20_000_000


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


@contextmanager
def seeded(generator: torch.Generator) -> Iterator[None]:
    """Seed torch's global generator from `generator` inside the block; restore it afterwards.

    Layer constructors and dropout draw from the global generator only.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw_seed(generator))
        yield


@contextmanager
def threads_for(work: float) -> Iterator[None]:
    """Run the block on as many torch threads as `work` (multiply-adds per step) is worth.

    Small models are fastest on one thread. The caller's setting is an upper limit, and restored.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(before if work >= _WORTH_A_SECOND_THREAD else 1)
    try:
        yield
    finally:
        torch.set_num_threads(before)

"""Randomness: `random_state` outside, an explicit `torch.Generator` inside."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from sklearn.utils import check_random_state

RandomState = int | np.random.RandomState | np.random.Generator | None


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


def hash_rows(points: torch.Tensor) -> np.ndarray:
    """A hash (N,), uint64, of each point (N, D), independent of the other points."""
    rows = np.ascontiguousarray(points.cpu().numpy(), dtype=np.float32) + np.float32(0)  # no -0.0
    multipliers = np.random.default_rng(0).integers(2**63, size=rows.shape[1], dtype=np.uint64)
    with np.errstate(over="ignore"):  # modulo 2**64, in any order
        bits: np.ndarray = rows.view(np.uint32).astype(np.uint64) @ (2 * multipliers + 1)
        return mix_bits(bits)


@contextmanager
def seeded(generator: torch.Generator) -> Iterator[None]:
    """Seed torch's global generator from `generator` inside the block; restore it afterwards.

    Layer constructors and dropout draw from the global generator only.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(draw_seed(generator))
        yield

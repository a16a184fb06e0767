"""Chance comes from `random_state` alone; the global streams are left as they were."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bacoun.engine.randomness import as_generator, draw_seed, seeded

seeds = st.integers(0, 2**32 - 1)


def uniforms(generator: torch.Generator) -> list[float]:
    return torch.rand(4, generator=generator).tolist()


@given(seed=seeds)
@settings(deadline=None)
def test_same_seed_gives_same_stream(seed):
    assert uniforms(as_generator(seed)) == uniforms(as_generator(seed))


@pytest.mark.parametrize("make", [int, np.random.RandomState, np.random.default_rng])
def test_every_kind_of_random_state_is_reproducible(make):
    assert uniforms(as_generator(make(7))) == uniforms(as_generator(make(7)))
    assert uniforms(as_generator(make(7))) != uniforms(as_generator(make(8)))


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_a_shared_random_state_moves_on(make):
    shared = make(0)
    assert uniforms(as_generator(shared)) != uniforms(as_generator(shared))


def test_a_generator_is_passed_through():
    generator = torch.Generator()
    assert as_generator(generator) is generator


def test_none_takes_fresh_entropy_and_no_global_stream():
    before_numpy = np.random.get_state()[1].copy()  # noqa: NPY002
    before_torch = torch.get_rng_state()
    assert uniforms(as_generator(None)) != uniforms(as_generator(None))
    np.testing.assert_array_equal(np.random.get_state()[1], before_numpy)  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), before_torch)


def test_an_unknown_random_state_is_refused():
    with pytest.raises(ValueError, match="'soon'"):
        as_generator("soon")


def test_draw_seed_takes_a_new_seed_each_time():
    generator = as_generator(0)
    assert len({draw_seed(generator) for _ in range(100)}) == 100


@given(seed=seeds)
@settings(deadline=None)
def test_seeded_block_repeats_and_restores_the_global_stream(seed):
    before = torch.get_rng_state()
    drawn = []
    for _ in range(2):
        with seeded(as_generator(seed)):
            drawn.append(torch.rand(4).tolist())
    assert drawn[0] == drawn[1]
    assert torch.equal(torch.get_rng_state(), before)


def test_seeded_restores_the_global_stream_after_an_error():
    before = torch.get_rng_state()
    with pytest.raises(ValueError, match="invalid"), seeded(as_generator(0)):
        int(f"{torch.rand(1).item()} is no integer")
    assert torch.equal(torch.get_rng_state(), before)

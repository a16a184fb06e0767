"""Total = aleatoric + epistemic, each in its bounds."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from bacoun.uncertainty.decomposition import decompose


@st.composite
def probabilities(draw, dtypes=(torch.float32, torch.float64)):
    """Predictions (draws, points, classes), from nearly one-hot to nearly flat."""
    shape = draw(st.tuples(st.integers(1, 6), st.integers(1, 5), st.integers(1, 6)))
    sharpness = 10.0 ** draw(st.integers(-3, 3))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    logits = sharpness * torch.randn(shape, generator=generator, dtype=torch.float64)
    return logits.softmax(dim=2).to(draw(st.sampled_from(dtypes)))


@given(probabilities())
@settings(deadline=None)
def test_parts_add_up_and_stay_in_bounds(p):
    parts = decompose(p)
    assert parts.total.dtype == torch.float64
    assert parts.total.shape == parts.aleatoric.shape == parts.epistemic.shape == p.shape[1:2]
    torch.testing.assert_close(parts.total, parts.aleatoric + parts.epistemic, atol=1e-15, rtol=0)
    assert (parts.epistemic >= 0).all()
    assert (parts.aleatoric >= 0).all()
    assert (parts.total <= math.log(p.shape[2])).all()


@given(probabilities(dtypes=(torch.float64,)))
@settings(deadline=None)
def test_epistemic_is_the_mean_divergence_from_the_mean_prediction(p):
    mean = p.mean(dim=0).clamp(min=torch.finfo(p.dtype).tiny)  # of the smallest numbers, it is 0
    divergence = torch.special.xlogy(p, p) - torch.special.xlogy(p, mean)
    expected = divergence.sum(dim=2).mean(dim=0)
    torch.testing.assert_close(decompose(p).epistemic, expected, atol=1e-12, rtol=0)


@given(probabilities(), st.integers(2, 9))
@settings(deadline=None)
def test_identical_draws_leave_nothing_epistemic(p, n_draws):
    parts = decompose(p[:1].repeat(n_draws, 1, 1))
    tolerance = 1e-6 if p.dtype == torch.float32 else 1e-14
    assert (parts.epistemic <= tolerance).all()


@given(probabilities(), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_the_order_of_points_draws_and_classes_does_not_matter(p, random):
    draws, points, classes = (random.sample(range(n), n) for n in p.shape)
    parts, shuffled = decompose(p), decompose(p[draws][:, points][:, :, classes])
    for name in ("total", "aleatoric", "epistemic"):
        expected = getattr(parts, name)[points]
        torch.testing.assert_close(getattr(shuffled, name), expected, atol=1e-6, rtol=0)


def test_known_answers():
    """Sure and at odds; unsure and agreed; sure and agreed; half at odds."""
    one = [[1.0, 0.0], [0.5, 0.5], [1.0, 0.0], [1.0, 0.0]]
    other = [[0.0, 1.0], [0.5, 0.5], [1.0, 0.0], [0.5, 0.5]]
    parts = decompose(torch.tensor([one, other], dtype=torch.float64))
    log2, mixed = math.log(2), -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    torch.testing.assert_close(parts.total.tolist(), [log2, log2, 0.0, mixed])
    torch.testing.assert_close(parts.aleatoric.tolist(), [0.0, log2, 0.0, log2 / 2])
    torch.testing.assert_close(parts.epistemic.tolist(), [log2, 0.0, 0.0, mixed - log2 / 2])


def test_frame_has_a_column_for_each_part():
    parts = decompose(torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[0.0, 1.0], [0.5, 0.5]]]))
    frame = parts.to_frame(index=["a", "b"])
    assert list(frame.columns) == ["total", "aleatoric", "epistemic"]
    assert list(frame.index) == ["a", "b"]
    np.testing.assert_allclose(frame["epistemic"], [math.log(2), 0.0], atol=1e-12)
    assert list(parts.to_frame().index) == [0, 1]


def test_a_wrong_shape_is_refused():
    with pytest.raises(ValueError, match=r"must be \(n_draws, n_points, n_classes\); got .*\(4, 3"):
        decompose(torch.full((4, 3), 1 / 3))

"""Bodies of the network, and the dropout inside them."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from bacoun.engine.randomness import as_generator, seeded
from bacoun.features.networks import (
    Dropout,
    MixedInputs,
    convolutional,
    make_body,
    perceptron,
)


def dropped(x: torch.Tensor, rate: float, seed: int = 0) -> torch.Tensor:
    with seeded(as_generator(seed)):
        return Dropout(rate).train()(x)


@given(rate=st.floats(0, 1, exclude_max=True), seed=st.integers(0, 2**31))
@settings(deadline=None, max_examples=40)
def test_dropout_drops_its_share_and_keeps_the_mean(rate, seed):
    n = 200_000
    y = dropped(torch.ones(n, dtype=torch.float64), rate, seed)
    spread = max(math.sqrt(rate * (1 - rate) / n), 1 / n)
    assert float((y == 0).double().mean()) == pytest.approx(rate, abs=6 * spread + 2**-16)
    kept = y[y != 0]
    assert len(kept.unique()) <= 1
    if rate < 0.99:
        assert float(y.mean()) == pytest.approx(1.0, abs=6 * spread / (1 - rate) + 1e-9)
        torch.testing.assert_close(kept * (1 - rate), torch.ones_like(kept), atol=2e-3, rtol=0)


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_neighboring_elements_are_dropped_independently(rate):
    y = dropped(torch.ones(400_000), rate).reshape(-1, 4) == 0  # four masks come from one word
    together = torch.corrcoef(y.double().T) - torch.eye(4, dtype=torch.float64)
    assert together.abs().max() < 0.02


def test_dropout_in_eval_mode_or_at_rate_zero_is_the_identity():
    x = torch.randn(5, 7)
    assert torch.equal(Dropout(0.7).eval()(x), x)
    assert torch.equal(Dropout(0.0).train()(x), x)


@pytest.mark.parametrize("shape", [(0, 3), (1,), (3, 1), (2, 3, 5)])
def test_dropout_keeps_any_shape(shape):
    assert dropped(torch.ones(shape), 0.5).shape == shape


def test_dropout_passes_gradients_only_where_it_kept():
    x = torch.randn(1000, requires_grad=True)
    y = dropped(x, 0.4)
    y.sum().backward()
    torch.testing.assert_close(x.grad * x.detach(), y.detach())
    assert 0 < int((x.grad == 0).sum()) < 1000


@pytest.mark.parametrize("rate", [-0.1, 1.0, math.nan])
def test_a_dropout_rate_out_of_bounds_is_named(rate):
    with pytest.raises(ValueError, match=rf"dropout must satisfy 0 <= dropout < 1; got {rate}"):
        Dropout(rate)


@given(
    n_inputs=st.integers(1, 9),
    hidden=st.lists(st.integers(1, 9), max_size=4),
    dropout=st.sampled_from([0.0, 0.5]),
)
@settings(deadline=None, max_examples=30)
def test_perceptron_has_the_widths_asked_for(n_inputs, hidden, dropout):
    body = perceptron(n_inputs, hidden, dropout)
    assert body(torch.zeros(3, n_inputs)).shape == (3, (hidden or [n_inputs])[-1])
    widths = [layer.out_features for layer in body if isinstance(layer, nn.Linear)]
    assert widths == hidden


def test_perceptron_is_affine_then_leaky():
    body = perceptron(2, [3], 0.0)
    x = torch.randn(4, 2)
    linear = x @ body[0].weight.T + body[0].bias
    torch.testing.assert_close(body(x), torch.where(linear > 0, linear, 0.01 * linear))


@pytest.mark.parametrize("side", [16, 17, 28, 32])
def test_convolutional_takes_square_images_as_rows(side):
    body = make_body("convolutional", (side * side,), [32, 5], 0.0)
    assert body(torch.zeros(2, side * side)).shape == (2, 5)


@pytest.mark.parametrize("shape", [(1, 4, 4), (1, 8, 8), (3, 15, 40), (3, 16, 16), (1, 28, 28)])
def test_convolutional_takes_images_of_any_shape(shape):
    assert convolutional(shape, [32, 5], 0.0)(torch.zeros(2, *shape)).shape == (2, 5)


def test_the_body_follows_the_points_unless_told():
    images, rows = (1, 8, 8), (64,)
    assert isinstance(make_body("auto", images, None, 0.0)[0], torch.nn.Conv2d)
    assert isinstance(make_body("auto", rows, None, 0.0)[0], torch.nn.Linear)
    assert make_body("perceptron", images, (7,), 0.0)(torch.zeros(2, *images)).shape == (2, 7)


def test_tiny_images_are_refused():
    with pytest.raises(ValueError, match="at least 4 x 4 pixels; got 3 x 9"):
        convolutional((1, 3, 9), [8], 0.0)


@pytest.mark.parametrize("n_inputs", [783, 226, 2])
def test_rows_that_are_no_square_image_are_named(n_inputs):
    with pytest.raises(ValueError, match=rf"square ones as rows of pixels; got {n_inputs} "):
        make_body("convolutional", (n_inputs,), [8], 0.0)


# --- numbers and categories -----------------------------------------------------------------------

SIZES = [0, 3, 0, 5]  # number, category, number, category


def mixed_inputs(width: int = 4, dropout: float = 0.0) -> MixedInputs:
    with seeded(as_generator(0)):
        return MixedInputs(SIZES, width, dropout)


def mixed_points(n_points: int) -> torch.Tensor:
    with seeded(as_generator(1)):
        numbers = torch.randn(n_points, 2)
        codes = torch.stack([torch.randint(size, (n_points,)) for size in (3, 5)], dim=1)
    return torch.stack([numbers[:, 0], codes[:, 0], numbers[:, 1], codes[:, 1]], dim=1)


@pytest.mark.parametrize("width", [1, 4])
def test_an_embedding_is_one_hot_times_a_matrix(width):
    inputs, points = mixed_inputs(width), mixed_points(40)
    matrices = inputs.embedding.weight[:-1].split([3, 5])  # the last row is for what is unseen
    columns = [
        nn.functional.one_hot(points[:, column].long(), size).float() @ matrix
        for column, size, matrix in zip((1, 3), (3, 5), matrices, strict=True)
    ]
    out = inputs(points)
    assert out.shape == (40, inputs.n_outputs) == (40, 2 + 2 * width)
    torch.testing.assert_close(out, torch.cat([points[:, [0, 2]], *columns], dim=1))


@pytest.mark.parametrize("code", [-1, 3, 4, 1e5, 1e30, 0.5, -0.5, math.nan])
def test_the_embedding_of_what_is_unseen_is_zero_and_stays_so(code):
    inputs, points = mixed_inputs(), mixed_points(3)
    points[1, 1] = code
    out = inputs(points)
    assert (out[1, 2:6] == 0).all()
    assert (out[[0, 2], 2:6] != 0).all()
    assert (out[:, 6:] != 0).all()  # the other category is what it was
    out.square().sum().backward()
    assert (inputs.embedding.weight.grad[-1] == 0).all()
    assert (inputs.embedding.weight.grad[:3] != 0).any()


def test_categories_are_hidden_in_training_only():
    inputs, points = mixed_inputs(dropout=0.4), mixed_points(30)
    plain = mixed_inputs()(points)
    assert torch.equal(inputs.eval()(points), plain)
    with seeded(as_generator(2)):
        shown = inputs.train()(points)
    assert torch.equal(shown[:, :2], plain[:, :2])  # numbers are never hidden
    assert not torch.equal(shown, plain)


def test_a_hidden_category_is_hidden_as_a_whole_and_the_mean_stays():
    rate, n = 0.3, 40_000
    inputs = mixed_inputs(dropout=rate).train()
    points = mixed_points(1).expand(n, -1)
    with seeded(as_generator(3)):
        embedded = inputs(points)[:, 2:].detach().unflatten(1, (2, 4))
    hidden = embedded == 0
    assert torch.equal(hidden.any(dim=2), hidden.all(dim=2))
    shares = hidden[:, :, 0].double().mean(dim=0)
    torch.testing.assert_close(shares, torch.full((2,), rate).double(), atol=0.015, rtol=0)
    both = hidden[:, :, 0].all(dim=1).double().mean()
    assert float(both) == pytest.approx(rate**2, abs=0.01)  # one does not depend on the other
    expected = mixed_inputs()(points[:1])[0, 2:].unflatten(0, (2, 4))
    torch.testing.assert_close(embedded.mean(dim=0), expected, atol=0, rtol=0.03)


def test_columns_are_taken_from_where_they_are():
    inputs = mixed_inputs().eval()
    points = mixed_points(20)
    moved = MixedInputs([5, 0, 0, 3], 4, 0.0)
    with torch.no_grad():
        matrices = inputs.embedding.weight[:-1].split([3, 5])
        moved.embedding.weight[:-1] = torch.cat(matrices[::-1])
    out, again = inputs(points), moved(points[:, [3, 0, 2, 1]])
    torch.testing.assert_close(again, out[:, [0, 1, 6, 7, 8, 9, 2, 3, 4, 5]])

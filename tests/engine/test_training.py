"""The minibatch loop: what L2 means, when it stops, and what it leaves alone."""

from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from torch import Generator, nn

from bacoun.engine.randomness import seeded
from bacoun.engine.training import _split, train


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def linear(n_inputs: int, n_outputs: int = 1) -> nn.Linear:
    module = nn.Linear(n_inputs, n_outputs).double()
    nn.init.zeros_(module.weight)
    nn.init.zeros_(module.bias)
    return module


def half_squared_error(module: nn.Module):
    return lambda x, y: 0.5 * (module(x)[:, 0] - y).square().mean()


def line(n_points: int = 40, seed: int = 0) -> list[torch.Tensor]:
    """Points on a noisy plane, with an intercept far from zero."""
    x = torch.randn(n_points, 3, generator=generator(seed), dtype=torch.float64)
    noise = torch.randn(n_points, generator=generator(seed + 1), dtype=torch.float64)
    return [x, x @ torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64) + 4 + 0.5 * noise]


@pytest.mark.parametrize("l2", [0.0, 1.0, 30.0])
def test_l2_is_the_ridge_penalty_on_the_summed_loss_without_biases(l2):
    x, y = line()
    module = linear(3)
    train(
        module,
        half_squared_error(module),
        [x, y],
        epochs=800,
        batch_size=len(x),
        learning_rate=0.05,
        l2=l2,
        generator=generator(),
    )
    with_bias = torch.cat([x, torch.ones(len(x), 1, dtype=torch.float64)], dim=1)
    penalty = l2 * torch.diag(torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64))
    ridge = torch.linalg.solve(with_bias.T @ with_bias + penalty, with_bias.T @ y)
    found = torch.cat([module.weight[0], module.bias]).detach()
    torch.testing.assert_close(found, ridge, atol=1e-4, rtol=0)


def test_l2_over_a_batch_is_stronger_by_the_number_of_batches():
    data = line()

    def weights(**penalty):
        module = linear(3)
        settings = {"epochs": 5, "batch_size": 10, "learning_rate": 0.05}
        loss = half_squared_error(module)
        train(module, loss, data, **settings, **penalty, generator=generator())
        return module.weight.detach()

    over_batch = weights(l2=1.0, l2_over="batch")
    torch.testing.assert_close(over_batch, weights(l2=4.0))  # 40 rows in batches of 10
    assert not torch.allclose(over_batch, weights(l2=1.0))
    with pytest.raises(ValueError, match="l2_over must be 'rows' or 'batch'; got 'epoch'"):
        weights(l2_over="epoch")


def test_l2_is_the_penalty_of_logistic_regression_too():
    x, _ = line(60)
    labels = (x[:, 0] + 0.5 * x[:, 1] > 0.3).long()
    module = linear(3, 2)
    train(
        module,
        lambda batch, targets: nn.functional.cross_entropy(module(batch), targets),
        [x, labels],
        epochs=600,
        batch_size=len(x),
        learning_rate=0.05,
        l2=2.0,
        generator=generator(),
    )

    def summed_loss(theta: np.ndarray) -> float:
        weight, bias = theta[:6].reshape(2, 3), theta[6:]
        logits = x.numpy() @ weight.T + bias
        chosen = logits[np.arange(len(x)), labels.numpy()]
        return float(np.sum(np.logaddexp.reduce(logits, axis=1) - chosen) + np.sum(weight**2))

    optimum = minimize(summed_loss, np.zeros(8), tol=1e-10).x
    np.testing.assert_allclose(module.weight.detach().numpy(), optimum[:6].reshape(2, 3), atol=1e-4)


def test_early_stopping_puts_the_best_weights_back():
    x = torch.randn(40, 30, generator=generator(), dtype=torch.float64)
    y = torch.randn(40, generator=generator(1), dtype=torch.float64)  # noise: only overfitting
    with seeded(generator()):
        module = nn.Sequential(nn.Linear(30, 64), nn.Tanh(), nn.Linear(64, 1)).double()
    held_out = []

    def loss(batch, targets):
        if not torch.is_grad_enabled():
            held_out[:] = [batch, targets]
        return half_squared_error(module)(batch, targets)

    history = train(
        module,
        loss,
        [x, y],
        epochs=500,
        batch_size=10,
        learning_rate=0.01,
        patience=7,
        generator=generator(),
    )
    best = int(np.argmin(history.held_out))
    assert len(history.held_out) == len(history.train) == best + 1 + 7 < 500
    assert len(held_out[0]) == 4
    assert half_squared_error(module)(*held_out).item() == min(history.held_out)
    assert history.held_out[-1] > min(history.held_out)


def test_held_out_rows_may_be_judged_by_another_loss_which_is_not_trained_on():
    module = linear(3)

    def judged(batch, targets):
        assert not torch.is_grad_enabled()
        return batch.new_tensor(float(len(batch)))

    history = train(
        module,
        half_squared_error(module),
        line(),
        epochs=9,
        batch_size=10,
        learning_rate=0.1,
        patience=2,
        held_out_loss=judged,
        generator=generator(),
    )
    assert history.held_out == [4.0, 4.0, 4.0]  # never better than the first time
    assert len(history.held_out_rows) == 4
    assert history.train[-1] < history.train[0]


def test_held_out_rows_are_never_trained_on():
    rows = torch.arange(50, dtype=torch.float64)[:, None]
    module = linear(1)
    seen = {True: set(), False: set()}

    def loss(batch):
        seen[torch.is_grad_enabled()].update(batch[:, 0].tolist())
        return module(batch / 50).square().mean()

    history = train(
        module,
        loss,
        [rows],
        epochs=3,
        batch_size=8,
        learning_rate=0.01,
        patience=5,
        held_out_fraction=0.2,
        generator=generator(),
    )
    assert len(seen[False]) == 10
    assert seen[False] == set(history.held_out_rows.tolist())
    assert seen[True] | seen[False] == set(range(50))
    assert not seen[True] & seen[False]


@given(n_points=st.integers(2, 300), batch_size=st.integers(2, 64))
@settings(deadline=None, max_examples=60)
def test_batches_cover_every_row_once_in_equal_sizes(n_points, batch_size):
    rows = torch.arange(n_points, dtype=torch.float64)[:, None]
    module = linear(1)
    batches = []

    def loss(batch):
        batches.append(batch[:, 0].tolist())
        return module(batch).mean()

    train(
        module,
        loss,
        [rows],
        epochs=1,
        batch_size=batch_size,
        learning_rate=0.0,
        generator=generator(),
    )
    sizes = [len(batch) for batch in batches]
    assert sorted(chain.from_iterable(batches)) == list(range(n_points))
    assert max(sizes) <= batch_size
    assert max(sizes) - min(sizes) <= 1


def test_columns_are_drawn_together():
    x = torch.arange(20, dtype=torch.float64)[:, None]
    module = linear(1)

    def loss(batch, twice):
        assert torch.equal(2 * batch[:, 0], twice)
        return module(batch).mean()

    train(
        module,
        loss,
        [x, 2 * x[:, 0]],
        epochs=2,
        batch_size=6,
        learning_rate=0.01,
        generator=generator(),
    )


def test_on_epoch_hears_of_every_epoch():
    module = linear(3)
    heard = []
    history = train(
        module,
        half_squared_error(module),
        line(),
        epochs=4,
        batch_size=10,
        learning_rate=0.1,
        generator=generator(),
        on_epoch=lambda done, planned: heard.append((done, planned)),
    )
    assert heard == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert len(history.train) == 4
    assert history.held_out == []
    assert history.train[-1] < history.train[0]


def test_one_seed_gives_one_answer_whatever_the_global_stream_which_stays_untouched():
    answers = []
    for global_seed in (1, 2):
        module = nn.Sequential(nn.Dropout(0.5), linear(3))
        with seeded(generator(global_seed)):
            before = torch.get_rng_state()
            train(
                module,
                half_squared_error(module),
                line(),
                epochs=3,
                batch_size=10,
                learning_rate=0.1,
                generator=generator(3),
            )
            assert torch.equal(torch.get_rng_state(), before)
        assert not module.training
        answers.append(module[1].weight)
    assert torch.equal(*answers)


def test_copies_of_a_row_are_held_out_together():
    points = torch.randn(40, 3, generator=Generator().manual_seed(0)).repeat_interleave(5, dim=0)
    held_out, others = _split(points, 20, Generator().manual_seed(1))
    assert len(held_out) == 20
    assert sorted([*held_out.tolist(), *others.tolist()]) == list(range(200))
    assert not {*(held_out // 5).tolist()} & {*(others // 5).tolist()}


def test_without_copies_the_split_is_the_first_of_a_random_order():
    points = torch.arange(30.0)[:, None]
    held_out, others = _split(points, 3, Generator().manual_seed(1))
    order = torch.randperm(30, generator=Generator().manual_seed(1))
    assert torch.equal(torch.cat([held_out, others]), order)
    assert len(held_out) == 3


def test_a_single_repeated_row_is_left_to_learn_from():
    held_out, others = _split(torch.ones(10, 2), 1, Generator().manual_seed(1))
    assert (len(held_out), len(others)) == (1, 9)

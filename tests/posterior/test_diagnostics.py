import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from bacoun.posterior.diagnostics import Health, chain_statistics


def autoregressive(n_chains, n_draws, n_quantities, persistence, rng):
    noise = rng.standard_normal((n_chains, n_draws, n_quantities))
    chains = np.empty_like(noise)
    chains[:, 0] = noise[:, 0]
    for t in range(1, n_draws):
        chains[:, t] = persistence * chains[:, t - 1] + np.sqrt(1 - persistence**2) * noise[:, t]
    return chains


@pytest.mark.parametrize("shape", [(4, 500, 3), (64, 32, 3), (6, 40, 2)])
def test_independent_draws_are_all_effective(shape):
    found = chain_statistics(np.random.default_rng(0).standard_normal(shape))
    assert found["rhat"] < 1.1
    assert found["ess"] > 0.6 * shape[0] * shape[1]
    assert found["ess_squares"] > 0.6 * shape[0] * shape[1]


def test_effective_sample_size_of_an_autoregression_is_known():
    chains = autoregressive(8, 4000, 1, 0.6, np.random.default_rng(1))
    found = chain_statistics(chains)
    expected = 8 * 4000 * (1 - 0.6) / (1 + 0.6)
    assert found["ess"] == pytest.approx(expected, rel=0.15)
    # Squares of a Gaussian autoregression have persistence 0.36; the ranks of bulk ESS blur it.
    assert found["ess_squares"] == pytest.approx(8 * 4000 * (1 - 0.36) / (1 + 0.36), rel=0.3)


@pytest.mark.parametrize("shape", [(4, 200, 2), (64, 20, 2)])
def test_chains_in_different_places_are_noticed(shape):
    chains = np.random.default_rng(2).standard_normal(shape)
    chains += 3 * (np.arange(shape[0]) // (shape[0] // 2))[:, None, None]
    assert chain_statistics(chains)["rhat"] > 1.2


def test_one_chain_is_compared_with_itself():
    chain = np.random.default_rng(5).standard_normal((1, 400, 2))
    assert chain_statistics(chain)["rhat"] < 1.05
    assert chain_statistics(chain + np.linspace(0, 5, 400)[:, None])["rhat"] > 1.2


def test_chains_that_differ_only_in_spread_are_noticed():
    chains = np.random.default_rng(3).standard_normal((64, 30, 1))
    chains[:32] *= 5
    assert chain_statistics(chains)["rhat"] > 1.1


def test_constant_quantities_are_ignored():
    chains = np.random.default_rng(4).standard_normal((4, 100, 2))
    chains[:, :, 0] = 1.0
    assert np.isfinite(chain_statistics(chains)["rhat"])
    assert chain_statistics(np.ones((4, 100, 2)))["ess"] == 400


def health(**changes):
    good = {"n_chains": 64, "n_iterations": 32, "rhat": 1.005, "rhat_iid": 1.005}
    good |= {"ess": 1500.0, "ess_squares": 1200.0, "divergences": 0}
    return Health("HMC", 500, 100, **(good | changes))


def test_a_healthy_run_is_silent():
    health().warn_if_not_converged()


@pytest.mark.parametrize(
    ("changes", "remedy"),
    [
        ({"rhat": 1.2}, "raise n_warmup"),
        ({"rhat": float("nan")}, "raise n_warmup"),
        ({"ess_squares": 90.0}, "raise n_iterations"),
        ({"divergences": 30}, "raise target_accept"),
    ],
)
def test_a_run_that_has_not_converged_warns_with_the_remedy(changes, remedy):
    with pytest.warns(ConvergenceWarning, match=remedy):
        health(**changes).warn_if_not_converged()


def test_health_prints_as_a_table_of_what_applies():
    lines = str(health()).splitlines()
    assert any(line.split() == ["ess", "1500"] for line in lines)
    assert not any(line.startswith("seconds") for line in lines)

"""30.6: a bound that is chosen by the points it is calibrated on keeps its confidence."""

import functools

import numpy as np

from bacoun.deferral.risk import Acceptance, largest_acceptance

BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2)
# Up to each uncertainty, the error rate. It is just above 5 % in the smallest region that is
# tested, and above 10 and 20 % just beyond larger ones: three chances to be wrong.
EDGES = np.array([0.0, 0.1, 0.5, 0.52, 0.9, 0.92, 1.0])
RISKS = np.array([0.0501, 0.0990, 0.1015, 0.1985, 0.2015, 0.24])  # up to each edge
RATES = np.diff(np.append(0, RISKS * EDGES[1:])) / np.diff(EDGES)
N_POINTS, N_SETS = 2000, 600


def risk(threshold):
    """The true error rate among points with at most this uncertainty."""
    lengths = np.clip(threshold - EDGES[:-1], 0, np.diff(EDGES))
    return (lengths * RATES).sum() / lengths.sum()


def chosen(total, correct, share_risk):
    n_bounds = len(BOUNDS) if share_risk else 1
    found = (largest_acceptance(total, correct, bound, n_bounds=n_bounds) for bound in BOUNDS)
    return next((each for each in found if each.threshold is not None), None)


@functools.cache
def broken(share_risk):
    """In how many of 600 sets of points the chosen bound does not hold."""
    rng, n_broken = np.random.default_rng(0), 0
    for _ in range(N_SETS):
        total = rng.random(N_POINTS)
        wrong = rng.random(N_POINTS) < RATES[np.searchsorted(EDGES, total) - 1]
        best = chosen(total, ~wrong, share_risk)
        n_broken += best is not None and risk(min(best.threshold, 1.0)) > best.max_error
    return n_broken


def test_the_tightest_of_several_bounds_holds_with_its_confidence():
    allowed = 0.05 * N_SETS
    assert broken(share_risk=True) <= allowed + 2 * np.sqrt(0.95 * allowed)


def test_a_share_of_the_risk_each_makes_it_safer():
    assert broken(share_risk=True) < broken(share_risk=False)


def test_a_chosen_bound_needs_more_evidence_and_says_so():
    alone = largest_acceptance(range(300), [True] * 300, 0.01)
    assert alone.threshold is not None
    among_five = largest_acceptance(range(300), [True] * 300, 0.01, n_bounds=5)
    assert among_five.threshold is None
    assert "with 95 % confidence: this needs 459 accepted" in among_five.statement
    assert Acceptance.from_dict(among_five.to_dict()) == among_five

"""Step 4: probabilities (S, N, K) -> total = aleatoric + epistemic, each (N,), in nats."""

from bacoun.uncertainty.decomposition import Uncertainty, decompose, from_moments
from bacoun.uncertainty.doubt import Doubt, Survival, Tail, doubted, doubted_draws
from bacoun.uncertainty.metrics import (
    augrc,
    aupr,
    aurc,
    auroc,
    change_from,
    coverage_at_risk,
    expected_calibration_error,
    fpr_at_tpr,
    negative_log_likelihood,
    rank_correlation,
    risk_at_coverage,
    risk_coverage,
)

__all__ = [
    "Doubt",
    "Survival",
    "Tail",
    "Uncertainty",
    "augrc",
    "aupr",
    "aurc",
    "auroc",
    "change_from",
    "coverage_at_risk",
    "decompose",
    "doubted",
    "doubted_draws",
    "expected_calibration_error",
    "fpr_at_tpr",
    "from_moments",
    "negative_log_likelihood",
    "rank_correlation",
    "risk_at_coverage",
    "risk_coverage",
]

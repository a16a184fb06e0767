"""Did the chains settle? R-hat, effective sample size, divergences."""

from __future__ import annotations

import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from arviz_stats.base import array_stats
from sklearn.exceptions import ConvergenceWarning

N_SUPERCHAINS = 8
"""Chains start in this many groups, each from one point: what nested R-hat compares."""

ENOUGH = 400
"""Effective draws from which an answer can be trusted."""
_FEW = 0.005  # a trajectory in two hundred may hit a wall and be rejected


@dataclass(frozen=True)
class Health:
    """How far the draws can be trusted, at stated quantities.

    The quantities are the centred predictive logits at `n_quantities / K` points and, because
    epistemic uncertainty is a second moment, their squares. `*_iid` is what independent draws of
    the same shape would have shown. Fields that do not apply to an inference are None.

    Of the `dropped_directions`, which keep their prior, the data would have raised the precision by
    `largest_dropped_information` at most, in units of the prior's, and moved the mean of all
    together by `dropped_shift` prior standard deviations. `condition` is the condition number of
    the features: large if a feature has an offset far above its spread.
    """

    inference: str
    n_draws: int
    dimensions: int
    prior_scale: float | None = None
    dropped_directions: int = 0
    largest_dropped_information: float = 0.0
    dropped_shift: float = 0.0
    condition: float | None = None
    n_chains: int | None = None
    n_iterations: int | None = None
    n_quantities: int | None = None
    rhat: float | None = None
    rhat_iid: float | None = None
    ess: float | None = None
    ess_squares: float | None = None
    acceptance: float | None = None
    divergences: int | None = None
    step_size: float | None = None
    seconds: float | None = None

    def __str__(self) -> str:
        rows = {name: value for name, value in asdict(self).items() if value is not None}
        width = max(map(len, rows))
        return "\n".join(f"{name:<{width}}  {_short(value)}" for name, value in rows.items())

    def warn_if_unsettled(self) -> None:
        """Issue a ConvergenceWarning with the remedy, if one is due."""
        complaints = []
        n_all = (self.n_chains or 1) * (self.n_iterations or 1)
        if self.divergences and self.divergences > _FEW * n_all:
            complaints.append(f"{self.divergences} divergent trajectories (raise target_accept)")
        if self.rhat is not None and self.rhat_iid is not None:
            ess = min(self.ess or 0.0, self.ess_squares or 0.0)
            enough = min(ENOUGH, 0.5 * n_all)
            if not ess >= enough:
                complaints.append(
                    f"effective sample size {ess:.0f} below {enough:.0f} (raise n_iterations)"
                )
            # Twice what independent draws show by chance, were there as many as are effective.
            limit = max(1.01, 1 + 2 * (self.rhat_iid - 1) * max(1.0, n_all / max(ess, enough)))
            if not self.rhat <= limit:
                complaints.append(f"R-hat {self.rhat:.3f} above {limit:.3f} (raise n_warmup)")
        if complaints:
            message = f"{self.inference} has not settled: {'; '.join(complaints)}."
            warnings.warn(message, ConvergenceWarning, stacklevel=3)


def chain_statistics(quantities: np.ndarray) -> dict[str, float]:
    """Worst R-hat and bulk effective sample sizes over quantities (C chains, T draws, M).

    Quantities that do not vary at all carry no information and are passed over.
    """
    centered = quantities - quantities.mean(axis=(0, 1))
    moving = centered.std(axis=(0, 1)) > 1e-9 * (1 + np.abs(quantities).max(axis=(0, 1)))
    if not moving.any():
        return {
            "rhat": 1.0,
            "ess": float(centered[..., 0].size),
            "ess_squares": float(centered[..., 0].size),
        }
    centered = np.moveaxis(centered[:, :, moving], 2, 0)
    squares = centered**2
    n_chains = quantities.shape[0]
    both = np.concatenate([centered, squares])
    if n_chains >= 4 * N_SUPERCHAINS and n_chains % N_SUPERCHAINS == 0:
        groups = np.arange(n_chains) * N_SUPERCHAINS // n_chains
        rhat = array_stats.rhat_nested(both, superchain_ids=groups)
    else:
        if n_chains == 1:  # halves of one chain stand in for two
            half = both.shape[2] // 2
            both = np.concatenate([both[:, :, :half], both[:, :, -half:]], axis=1)
        rhat = array_stats.rhat(both)
    return {
        "rhat": float(np.max(rhat)),
        "ess": float(np.min(array_stats.ess(centered))),
        "ess_squares": float(np.min(array_stats.ess(squares))),
    }


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)

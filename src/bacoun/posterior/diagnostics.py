"""Have the chains converged? R-hat, effective sample size and divergences."""

import warnings
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from bacoun.posterior.logistic import contrasts

N_SUPERCHAINS = 8  # groups of chains that nested R-hat compares; a group starts from one point
MIN_ESS = 400  # smallest effective sample size that is reported without a warning
_MAX_DIVERGENT_SHARE = 0.005
_N_PROBES = 16


@dataclass(frozen=True)
class Health:
    """Convergence diagnostics of the posterior draws; fields that do not apply are None.

    Attributes
    ----------
    inference : str
        Name of the inference algorithm.
    n_draws : int
        Draws used for prediction.
    dimensions : int
        Number of inferred weights.
    prior_scale : float
        Prior standard deviation of each weight.
    dropped_directions : int
        Directions of weight space that keep their prior because the data says little about them.
    largest_dropped_information, dropped_shift : float
        What the data would change there: the precision of one direction at most, in units of the
        prior precision, and the joint mean, in prior standard deviations.
    condition : float
        Condition number of the features: large if an offset is far above a standard deviation.
    n_chains, n_iterations : int
        Size of the run after warm-up.
    n_quantities : int
        Number of centered logits, at a few points, over which the worst diagnostics are taken.
    rhat, rhat_iid : float
        Worst R-hat, and that of independent draws of the same shape.
    ess, ess_squares : float
        Smallest effective sample size, and that of the squares, for epistemic uncertainty.
    acceptance : float
        Mean acceptance rate.
    divergences : int
        Divergent trajectories.
    step_size : float
        Of the integrator, after warm-up.
    seconds : float
        Duration of the inference.
    coreset_rows : int
        Rows that were sampled from, if not all training rows.
    coreset_difference : float
        Standard deviation over draws of the difference between their log density and that of all
        rows, in nats: far below 1, if the coreset stands for all rows.
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
    coreset_rows: int | None = None
    coreset_difference: float | None = None

    def __str__(self) -> str:
        rows = {name: value for name, value in asdict(self).items() if value is not None}
        width = max(map(len, rows))
        shown = {key: f"{row:.4g}" if isinstance(row, float) else row for key, row in rows.items()}
        return "\n".join(f"{name:<{width}}  {value}" for name, value in shown.items())

    def warn_if_not_converged(self) -> None:
        """Issue a ConvergenceWarning that says what to change, if the chains have not converged."""
        problems = []
        n_total = (self.n_chains or 1) * (self.n_iterations or 1)
        if self.divergences and self.divergences > _MAX_DIVERGENT_SHARE * n_total:
            problems.append(f"{self.divergences} divergent trajectories (raise target_accept)")
        if self.rhat is not None and self.rhat_iid is not None:
            ess = min(self.ess or 0.0, self.ess_squares or 0.0)
            required = min(MIN_ESS, 0.5 * n_total)
            if not ess >= required:
                problems.append(
                    f"effective sample size {ess:.0f} below {required:.0f} (raise n_iterations)"
                )
            # Allow twice the excess R-hat of as many independent draws as there are effective ones.
            limit = max(1.01, 1 + 2 * (self.rhat_iid - 1) * max(1.0, n_total / max(ess, required)))
            if not self.rhat <= limit:
                problems.append(f"R-hat {self.rhat:.3f} above {limit:.3f} (raise n_warmup)")
        if self.coreset_difference is not None and not self.coreset_difference < 1:
            problems.append(
                f"the coreset differs by {self.coreset_difference:.1f} nats from all rows (fit to "
                "a sample instead)"
            )
        if problems:
            message = f"{self.inference} has not converged: {'; '.join(problems)}."
            warnings.warn(message, ConvergenceWarning, stacklevel=3)


def chain_statistics(quantities: np.ndarray) -> dict[str, float]:
    """Worst R-hat and bulk effective sample sizes over quantities (C chains, T draws, M).

    Constant quantities are ignored.
    """
    return {"rhat": worst_rhat(quantities), **effective_sample_sizes(quantities)}


def worst_rhat(quantities: np.ndarray) -> float:
    """Largest R-hat of quantities (C chains, T draws, M) and of their squares."""
    centered = _varying(quantities)
    worst = np.max(_rhat(np.concatenate([centered, centered**2]))) if len(centered) else 1.0
    return float(worst)


def effective_sample_sizes(quantities: np.ndarray) -> dict[str, float]:
    """Smallest bulk sizes over quantities (C chains, T draws, M), and over their squares."""
    centered = _varying(quantities)
    if len(centered) == 0:
        return dict.fromkeys(("ess", "ess_squares"), float(quantities[..., 0].size))
    parts = {"ess": centered, "ess_squares": centered**2}
    return {name: float(np.min(_array_stats().ess(part))) for name, part in parts.items()}


def _array_stats() -> Any:
    """The module of ArviZ: slow to import, and scoring does without."""
    from arviz_stats.base import array_stats

    return array_stats


def _varying(quantities: np.ndarray) -> np.ndarray:
    """Quantities (M, C, T) that are not constant, each less its mean."""
    centered = quantities - quantities.mean(axis=(0, 1))
    varies = centered.std(axis=(0, 1)) > 1e-9 * (1 + np.abs(quantities).max(axis=(0, 1)))
    return np.moveaxis(centered[:, :, varies], 2, 0)


def _rhat(quantities: np.ndarray) -> Any:
    """R-hat (M,) of quantities (M, C, T): nested if there are chains enough for superchains."""
    n_chains = quantities.shape[1]
    if n_chains >= 4 * N_SUPERCHAINS and n_chains % N_SUPERCHAINS == 0:
        groups = np.arange(n_chains) * N_SUPERCHAINS // n_chains
        return _array_stats().rhat_nested(quantities, superchain_ids=groups)
    if n_chains == 1:  # compare the two halves of a single chain
        half = quantities.shape[2] // 2
        quantities = np.concatenate([quantities[:, :, :half], quantities[:, :, -half:]], axis=1)
    return _array_stats().rhat(quantities)


def probe_logits(chains: Tensor, q: Tensor, n_classes: int) -> np.ndarray:
    """Centered logits (C, T, M) of chains (C, T, K-1, r) at up to 16 evenly spaced rows of q."""
    rows = torch.linspace(0, len(q) - 1, min(_N_PROBES, len(q))).round().long()
    along = chains @ q[rows].to(chains).T  # (C, T, K-1, P)
    logits = torch.einsum("ctjp,kj->ctkp", along, contrasts(n_classes).to(chains)).flatten(2)
    return logits.cpu().numpy().astype(np.float64)


def convergence(chains: Tensor, q: Tensor, n_classes: int) -> dict[str, Any]:
    """Fields of `Health` for chains (C, T, K-1, r), probed at rows of coordinates q (N, r)."""
    logits = probe_logits(chains, q, n_classes)
    sizes = zip(("n_chains", "n_iterations", "n_quantities"), logits.shape, strict=True)
    independent = _independent_rhat(*logits.shape)
    return {**dict(sizes), "rhat_iid": independent, **chain_statistics(logits)}


@lru_cache(maxsize=32)
def _independent_rhat(*shape: int) -> float:
    return worst_rhat(np.random.default_rng(0).standard_normal(shape))

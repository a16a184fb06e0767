"""Epistemic uncertainty = model + OOD: where the data outweighs the prior, and where it does not.

Let w be the reduced coordinates with eigenvalue * sigma^2 / 2 >= cut and v all other weights. The
chain rule I(y; W) = I(y; w) + I(y; v | w) splits epistemic uncertainty without remainder:

    model = H[E_s E_m p_sm] - E_s H[E_m p_sm],    ood = E_s { H[E_m p_sm] - E_m H[p_sm] },

with M inner draws of v for each posterior draw w_s. Given w_s, the weaker reduced coordinates
follow the Gaussian conditional of the Laplace approximation at the mode; what lies outside the
basis keeps its prior. Both are Gaussian, so the logits of a point given w_s are Gaussian too, with
K-1 dimensions, and only these are drawn: no weight vector is ever built.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from bacoun.posterior.logistic import SoftmaxRegression, against_last, contrasts, mix

CUT = 1.0
"""Information from the data over prior precision, from which on a direction belongs to w."""
N_INNER = 16
"""Inner draws of v for each posterior draw of w."""
LARGEST = 4_000_000
"""Largest number of entries (d_v * d) in the rows of the Hessian that belong to v."""

_SLICE_ROWS = 8192
_EDGE = 1e-12


def is_weak(eigenvalues: Tensor, prior_scale: float, cut: float = CUT) -> Tensor:
    """Which reduced coordinates (r,) belong to v: those with eigenvalue * sigma^2 / 2 < cut."""
    return eigenvalues * prior_scale**2 / 2 < cut


@dataclass(frozen=True)
class Conditional:
    """Gaussian law of the weak reduced coordinates v for each posterior draw of the strong ones.

    Attributes
    ----------
    weak : Tensor of shape (r,)
        True where a reduced coordinate belongs to v; r_v of them.
    means : Tensor of shape (r_v, (K-1) S)
        Mean of v given w_s, as logits against the last class, laid out like the head's weights.
    factor : Tensor of shape (K-1, r_v, d_v)
        A with covariance A A' of v given w, in contrasts; d_v = (K-1) r_v.
    seed : int
        Of the inner noise.
    """

    weak: Tensor
    means: Tensor
    factor: Tensor
    seed: int

    def get_state(self) -> dict[str, Any]:
        """Tensors and plain values, the keyword arguments of the class."""
        return dict(vars(self))

    def logits(self, q: Tensor, weights: Tensor) -> Tensor:
        """Mean logits (N, K-1, S) against the last class, given w_s.

        Parameters
        ----------
        q : Tensor of shape (N, r)
        weights : Tensor of shape (r, (K-1) S)
            Posterior draws; their weak rows give way to the conditional means.
        """
        weights = weights.clone()
        weights[self.weak] = self.means
        return (q @ weights.to(q)).unflatten(1, (len(self.factor), -1))

    def spread(self, q: Tensor, rho: Tensor, prior_scale: float) -> Tensor:
        """Lower triangular B (N, K-1, K-1): contrasts of the logits given w have covariance B B'.

        Parameters
        ----------
        q : Tensor of shape (N, r)
        rho : Tensor of shape (N, 1)
            Length of what lies outside the basis.
        """
        along = torch.einsum("ni,jid->njd", q[:, self.weak], self.factor.to(q))
        covariance = along @ along.mT
        # Weak directions keep most of their prior, so this is as round as a covariance can be,
        # except for points that have no share in v at all.
        covariance.diagonal(dim1=1, dim2=2).add_(prior_scale**2 * (rho.square() + 1e-30))
        return torch.linalg.cholesky(covariance)


def condition(
    posterior: SoftmaxRegression, mode: Tensor, weak: Tensor, draws: Tensor, seed: int
) -> Conditional | None:
    """The law of v for each draw of w, from the Hessian H at the mode, worked out in float64.

    v given w_s has precision H_vv and mean mode_v - H_vv^-1 H_vw (w_s - mode_w).

    Parameters
    ----------
    mode : Tensor of shape (K-1, r)
    weak : Tensor of shape (r,)
        True for the coordinates in v.
    draws : Tensor of shape (S, K-1, r)
        Posterior draws of all contrasts.

    Returns
    -------
    Conditional in float32, or None if d_v * d exceeds `LARGEST`
    """
    if n_entries(posterior.n_classes, weak) > LARGEST:
        return None
    n_columns, n_weak = len(mode), int(weak.sum())
    size = n_columns * n_weak
    mode = mode.double()
    rows = hessian_rows(posterior, mode, weak)
    lower = torch.linalg.cholesky(rows[..., weak].reshape(size, size))
    cross = rows[..., ~weak].reshape(size, mode.numel() - size)
    moved = (draws.double() - mode)[..., ~weak].flatten(1)  # (S, d_w)
    means = mode[:, weak].reshape(-1, 1) - torch.cholesky_solve(cross @ moved.T, lower)
    means = mix(against_last(posterior.n_classes), means.reshape(n_columns, n_weak, len(draws)))
    eye = torch.eye(size, dtype=lower.dtype, device=lower.device)
    factor = torch.linalg.solve_triangular(lower.mT, eye, upper=True)
    return Conditional(
        weak,
        means.permute(1, 0, 2).flatten(1).float().contiguous(),
        factor.reshape(n_columns, n_weak, size).float().contiguous(),
        seed,
    )


def n_entries(n_classes: int, weak: Tensor) -> int:
    """Entries d_v * d in the rows of the Hessian that belong to v, from its mask (r,)."""
    return (n_classes - 1) ** 2 * int(weak.sum()) * len(weak)


def hessian_rows(posterior: SoftmaxRegression, mode: Tensor, chosen: Tensor) -> Tensor:
    """Rows (K-1, r_v, K-1, r) of `posterior.hessian` at the mode (K-1, r), in float64.

    Computed alone, because the whole Hessian of a large head takes long and fills memory.

    Parameters
    ----------
    chosen : Tensor of shape (r,)
        Mask of the r_v coordinates whose rows are wanted.
    """
    n_columns, r = mode.shape
    columns = contrasts(posterior.n_classes).to(mode)
    rows = mode.new_zeros(n_columns, int(chosen.sum()), n_columns, r)
    probabilities = posterior.probabilities(mode).double()
    for features, p in zip(
        posterior.features.split(_SLICE_ROWS), probabilities.split(_SLICE_ROWS), strict=True
    ):
        seen = features.double()
        mean = p @ columns
        for j in range(n_columns):
            for k in range(n_columns):
                weight = p @ (columns[:, j] * columns[:, k]) - mean[:, j] * mean[:, k]
                rows[j, :, k] += seen[:, chosen].T @ (weight[:, None] * seen)
    prior = torch.eye(r, dtype=mode.dtype, device=mode.device)[chosen] / posterior.prior_scale**2
    for j in range(n_columns):
        rows[j, :, j] += prior
    return rows


def inner_noise(n_columns: int, n_inner: int, n_draws: int, seed: int) -> Tensor:
    """Standard normal noise (K-1, M, S), float64: every entry exactly N(0, 1), S of it independent.

    The M entries of one draw are a Sobol net, shifted at random: they fill the Gaussian evenly.
    Too few draws make OOD uncertainty look like model uncertainty; for three far classes M = 16
    leave 0.02 nats of that, and independent draws would leave more.
    """
    generator = torch.Generator().manual_seed(seed)
    shift = torch.rand(n_columns, 1, n_draws, generator=generator, dtype=torch.float64)
    net = torch.quasirandom.SobolEngine(n_columns).draw(n_inner, dtype=torch.float64)
    uniform = (net.T[:, :, None] + shift).frac().clamp(_EDGE, 1 - _EDGE)
    return torch.special.ndtri(uniform)


def nested_moments(logits: Tensor, spread: Tensor, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What the split needs, one inner draw at a time: all of them would not fit in memory.

    Parameters
    ----------
    logits : Tensor of shape (N, K-1, S)
        Mean logits against the last class, given w_s.
    spread : Tensor of shape (N, K-1, K-1)
        Root of the covariance of their contrasts.
    noise : Tensor of shape (K-1, M, S)

    Returns
    -------
    E_s E_m p_sm of shape (N, K), E_s H[E_m p_sm] of shape (N,), E_s E_m H[p_sm] of shape (N,)
        In nats and float64.
    """
    n_points, n_columns, n_draws = logits.shape
    n_inner = noise.shape[1]
    to_logits = against_last(n_columns + 1).to(logits) @ spread  # (N, K-1, K-1)
    sums = logits.new_zeros(n_points, n_columns + 1, n_draws, dtype=torch.float64)
    entropy = logits.new_zeros(n_points, dtype=torch.float64)
    last = torch.zeros_like(logits[:, :1])
    for m in range(n_inner):
        moved = logits + to_logits @ noise[:, m].to(logits)
        log_p = torch.cat([moved, last], dim=1).log_softmax(dim=1)
        p = log_p.exp()
        sums += p
        entropy -= p.mul_(log_p).sum(dim=(1, 2), dtype=torch.float64)
    given_draw = sums / n_inner
    between = torch.special.entr(given_draw).sum(dim=1).mean(dim=1)
    return given_draw.mean(dim=2), between, entropy / (n_inner * n_draws)

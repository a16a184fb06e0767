"""From logits against the last class to probabilities, or straight to what uncertainty needs."""

from __future__ import annotations

import torch
from torch import Tensor

# Points are taken in slices whose logits stay in the processor's cache: in its large one for a
# matrix product, which reads all weights again for each; what is made of two classes, in its small
# one.
_SLICE_ELEMENTS, _SMALL_SLICE_ELEMENTS = 1 << 20, 1 << 18

# Matrix products are about 1.5 times faster with a multiple of 8 columns.
_EIGHT = 8

# Half a unit in the last place of float32, and how much of it a logit may gather.
_EPS, _ROUGH = 2.0**-24, 3e-5

# Up to here exp stays finite, also summed over a thousand classes, in single precision.
_SAFE = 60.0


def softmax_against_last(logits: Tensor) -> Tensor:
    """Probabilities (S, N, K) from logits against the last class (N, K-1, S)."""
    padded = torch.cat([logits, torch.zeros_like(logits[:, :1])], dim=1)
    return padded.softmax(dim=1).permute(2, 0, 1)


def moments_of_product(points: Tensor, weights: Tensor, n_columns: int) -> tuple[Tensor, Tensor]:
    """Mean probabilities (N, K) and mean entropy (N,) over draws, both float64.

    The same as averaging `softmax_against_last(points @ weights)` and its entropy, but the logits
    are made, used and forgotten slice by slice, in memory that is asked for once.

    Parameters
    ----------
    points : Tensor of shape (N, r)
    weights : Tensor of shape (r, (K-1) S)
    n_columns : int
        K-1.
    """
    rows, few = (max(16, size // weights.shape[1]) for size in _slices(n_columns))
    logits = points.new_empty(min(rows, len(points)), weights.shape[1])
    workspace = Workspace(logits, min(few, len(points)), n_columns, weights.shape[1] // n_columns)
    means, entropies = [], []
    for part in points.split(rows):
        product = torch.mm(part, weights, out=logits[: len(part)])
        for some in product.unflatten(1, (n_columns, -1)).split(few):
            mean, entropy = moments_against_last(some, workspace)
            means.append(mean)
            entropies.append(entropy)
    return torch.cat(means).double(), torch.cat(entropies).double()


def _slices(n_columns: int) -> tuple[int, int]:
    return _SLICE_ELEMENTS, _SMALL_SLICE_ELEMENTS if n_columns == 1 else _SLICE_ELEMENTS


class Predictive:
    """The predictive of a reduced head: from features to probabilities, or to their moments.

    The logits of draw s are `q . w_s + sigma * rho * eps_s`: q are the coordinates of a point along
    the directions that the data sees, rho is the length of what is left, in which the weights keep
    their prior. Eps is drawn once and shared by all points.

    In float64 an answer does not depend on the rows beside it. In float32 it is several times
    faster; points whose answer float32 would spoil are answered in float64.

    Parameters
    ----------
    basis : Tensor of shape (L, r)
        Orthonormal directions of weight space; with `bias` the last row belongs to a column of ones
        that the features lack.
    weights : Tensor of shape (r + 1, (K-1) S)
        What coordinates q (N, r) and remainder rho (N, 1) are multiplied with.
    n_columns : int
        K-1.
    """

    def __init__(
        self,
        basis: Tensor,
        weights: Tensor,
        n_columns: int,
        bias: bool,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.n_directions = basis.shape[1]
        self.n_columns, self.bias, self.dtype = n_columns, float(bias), dtype
        self.exact: Predictive | None = None
        if dtype != torch.float64:
            self.exact = Predictive(basis, weights, n_columns, bias, torch.float64)
        self._longest_draw = float(weights[:-1].norm(dim=0).max())
        self._spread = float(weights[-1].square().mean().sqrt())
        padding = -len(weights) % _EIGHT
        basis = torch.nn.functional.pad(basis.to(dtype), (0, 1 + padding))
        self.basis, self.offset = (basis[:-1], basis[-1]) if bias else (basis, basis.new_zeros(()))
        self.weights = torch.nn.functional.pad(weights.to(dtype), (0, 0, 0, padding))

    def probabilities(self, features: Tensor) -> Tensor:
        """Class probabilities (S, N, K) of features (N, L) under each draw."""
        flat = self._coordinates(features)[0] @ self.weights
        return softmax_against_last(flat.unflatten(1, (self.n_columns, -1)))

    def moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean over draws of the probabilities (N, K) and of their entropy (N,), of (N, L)."""
        coordinates, seen, rho = self._coordinates(features)
        mean, entropy = moments_of_product(coordinates, self.weights, self.n_columns)
        if self.exact is not None:
            spoilt = self._rounding(seen, rho) > _ROUGH
            if bool(spoilt.any()):
                mean[spoilt], entropy[spoilt] = self.exact.moments(features[spoilt])
        return mean, entropy

    def _coordinates(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What draws are multiplied with: q, rho and padding side by side; |q|^2 (N,); rho (N,)."""
        both = torch.addmm(self.offset, features.to(self.dtype), self.basis)
        norm = torch.linalg.vector_norm(features, dim=1, dtype=torch.float64).square() + self.bias
        seen = torch.linalg.vector_norm(both, dim=1, dtype=torch.float64).square()
        rho = (norm - seen).clamp(min=0).sqrt()
        both[:, self.n_directions] = rho
        return both, seen, rho

    def _rounding(self, seen: Tensor, rho: Tensor) -> Tensor:
        """How far (N,) float32 may be off in a logit, given |q|^2 and rho of each point.

        The logit is a sum of terms that may cancel; so is rho^2, the small difference of squares.
        The draws of what rho is multiplied with are on both sides of 0, and forgive most of it.
        """
        in_sum = _EPS * seen.sqrt() * self._longest_draw
        in_rho = _EPS * seen / torch.maximum(rho, (_EPS * seen).sqrt()).clamp(min=1e-30)
        return in_sum + 0.1 * self._spread * in_rho


class Workspace:
    """Memory for what is made of the logits of a slice; fresh memory costs as much as exp.

    Attributes
    ----------
    exponentials : Tensor of shape (rows, (K-1) S)
    total, last : Tensor of shape (rows, S)
    """

    def __init__(self, like: Tensor, rows: int, n_columns: int, n_draws: int) -> None:
        self.total, self.last = like.new_empty(2, rows, n_draws)
        self.exponentials = like.new_empty(rows, n_columns * n_draws if n_columns > 1 else 0)


def moments_against_last(
    logits: Tensor, workspace: Workspace | None = None
) -> tuple[Tensor, Tensor]:
    """Mean probabilities (N, K) and mean entropy (N,) over draws of logits (N, K-1, S).

    Overwrites the logits. The last class has logit 0, so that it costs no exp of its own.
    """
    workspace = workspace or Workspace(logits, *logits.shape)
    if logits.shape[1] == 1:
        return _moments_of_two(logits[:, 0], workspace)
    low, high = logits.aminmax()
    if max(-float(low), float(high)) <= _SAFE:
        return _moments(logits, workspace, False)
    flat = logits.flatten(1)
    steep = torch.maximum(flat.amin(dim=1).neg(), flat.amax(dim=1)) > _SAFE
    if bool(steep.all()):
        return _moments(logits, workspace, True)
    apart = logits[steep]  # a few such points need not slow down all
    logits[steep] = 0
    mean, entropy = _moments(logits, workspace, False)
    mean[steep], entropy[steep] = _moments(apart, Workspace(apart, *apart.shape), True)
    return mean, entropy


def _moments_of_two(logits: Tensor, workspace: Workspace) -> tuple[Tensor, Tensor]:
    """The same for two classes and logits (N, S), in fewer passes through memory.

    Logits that are too large for exp may be cut: the probability there is 0 or 1 to the last digit.
    """
    n_points = len(logits)
    first, last = workspace.total[:n_points], workspace.last[:n_points]
    torch.exp(logits.clamp_(-_SAFE, _SAFE), out=first)
    torch.add(first, 1, out=last).reciprocal_()
    first.mul_(last)
    mean = torch.stack([first.mean(dim=1), last.mean(dim=1)], dim=1)
    # H = -log p_2 - p_1 z: a logit is the difference of two logarithms.
    energy = torch.linalg.vecdot(first, logits) / logits.shape[1]
    return mean, -last.log_().mean(dim=1) - energy


def _moments(logits: Tensor, workspace: Workspace, steep: bool) -> tuple[Tensor, Tensor]:
    """The same; `steep` logits are shifted first, so that exp stays finite."""
    n_points, n_columns, n_draws = logits.shape
    shift = None
    if steep:
        shift = logits.amax(dim=1).clamp_(min=0)  # (N, S)
        logits.sub_(shift[:, None])
    weights = workspace.exponentials[:n_points].view_as(logits)
    torch.exp(logits, out=weights)
    total, last = workspace.total[:n_points], workspace.last[:n_points]
    if shift is None:
        torch.add(weights[:, 0], 1, out=total)
    else:
        torch.exp(shift.neg(), out=last)
        torch.add(weights[:, 0], last, out=total)
    for column in range(1, n_columns):  # faster than a sum over a short middle axis
        total.add_(weights[:, column])
    if shift is None:
        torch.reciprocal(total, out=last)
        weights.mul_(last[:, None])
    else:
        scale = total.reciprocal()
        weights.mul_(scale[:, None])
        last.mul_(scale)
    mean = torch.cat([weights.mean(dim=2), last.mean(dim=1, keepdim=True)], dim=1)
    # H = log total - sum_k p_k z_k; after a shift the last class has z = -shift.
    entropy = total.log_() if shift is None else total.log_().addcmul_(last, shift)
    energy = torch.linalg.vecdot(weights.flatten(1), logits.flatten(1))
    return mean, entropy.mean(dim=1) - energy / n_draws

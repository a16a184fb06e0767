"""From logits against the last class to probabilities, or directly to their moments over draws."""

import torch
from torch import Tensor

# Points are processed in chunks whose logits fit in the CPU cache: the matrix product in the large
# one, because each chunk reads all weights again; the moments of two classes in the small one.
_CHUNK_ELEMENTS, _SMALL_CHUNK_ELEMENTS = 1 << 20, 1 << 18

# Matrix products are about 1.5 times faster with a multiple of 8 columns.
_EIGHT = 8

# Unit roundoff of float32, and the largest rounding error of a logit that is tolerated.
_EPS, _MAX_ROUNDING = 2.0**-24, 3e-5

# exp of a logit up to here stays finite in float32, also summed over a thousand classes.
_SAFE = 60.0


def softmax_against_last(logits: Tensor) -> Tensor:
    """Probabilities (S, N, K) from logits against the last class (N, K-1, S)."""
    padded = torch.cat([logits, torch.zeros_like(logits[:, :1])], dim=1)
    return padded.softmax(dim=1).permute(2, 0, 1)


def moments_of_product(points: Tensor, weights: Tensor, n_columns: int) -> tuple[Tensor, Tensor]:
    """Mean probabilities (N, K) and mean entropy (N,) over draws, both float64.

    Averages `softmax_against_last(points @ weights)` and its entropy, by chunks in buffers that are
    allocated once. Points are (N, r), weights (r, (K-1) S), and `n_columns` is K-1.
    """
    width = weights.shape[1]
    small = _SMALL_CHUNK_ELEMENTS if n_columns == 1 else _CHUNK_ELEMENTS
    rows, few = max(16, _CHUNK_ELEMENTS // width), max(16, small // width)
    logits = points.new_empty(min(rows, len(points)), width)
    workspace = Workspace(logits, min(few, len(points)), n_columns, width // n_columns)
    moments = [
        moments_against_last(some, workspace)
        for chunk in points.split(rows)
        for some in torch.mm(chunk, weights, out=logits[: len(chunk)])
        .unflatten(1, (n_columns, -1))
        .split(few)
    ]
    means, entropies = zip(*moments, strict=True)
    return torch.cat(means).double(), torch.cat(entropies).double()


class Predictive:
    """The posterior predictive of a reduced head: probabilities of features, or their moments.

    The logits of draw s are `q . w_s + sigma * rho * eps_s`: q are the coordinates of a point in
    the inferred directions, rho is the norm of the remainder, where the weights keep their prior.
    Eps is drawn once and shared by all points.

    In float64 the result for a point does not depend on the rest of the batch. float32 is several
    times faster; points for which its rounding errors are too large are computed in float64.

    `basis` (L, r) holds orthonormal directions of weight space; with `bias`, its last row is that
    of the intercept, and features come without the column of ones. `weights` (r + 1, (K-1) S) are
    factors of the coordinates q (N, r) and of the remainder rho (N, 1).
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
        coordinates, q_squared, rho = self._coordinates(features)
        mean, entropy = moments_of_product(coordinates, self.weights, self.n_columns)
        if self.exact is not None:
            rough = self._rounding(q_squared, rho) > _MAX_ROUNDING
            if bool(rough.any()):
                mean[rough], entropy[rough] = self.exact.moments(features[rough])
        return mean, entropy

    def _coordinates(self, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The columns q, rho and padding, to be multiplied with the draws; |q|^2 (N,); rho (N,)."""
        both = torch.addmm(self.offset, features.to(self.dtype), self.basis)
        norm = torch.linalg.vector_norm(features, dim=1, dtype=torch.float64).square() + self.bias
        q_squared = torch.linalg.vector_norm(both, dim=1, dtype=torch.float64).square()
        rho = (norm - q_squared).clamp(min=0).sqrt()
        both[:, self.n_directions] = rho
        return both, q_squared, rho

    def _rounding(self, q_squared: Tensor, rho: Tensor) -> Tensor:
        """Approximate rounding error (N,) of a logit in float32.

        Terms cancel in the logit, a sum, and in rho^2, a small difference of squares. The errors of
        rho mostly average out over the draws, because its factors have mean 0.
        """
        in_sum = _EPS * q_squared.sqrt() * self._longest_draw
        floor = (_EPS * q_squared).sqrt()
        in_rho = _EPS * q_squared / torch.maximum(rho, floor).clamp(min=1e-30)
        return in_sum + 0.1 * self._spread * in_rho


class Workspace:
    """Buffers for a chunk; allocating them anew would cost as much as exp."""

    def __init__(self, like: Tensor, rows: int, n_columns: int, n_draws: int) -> None:
        self.total, self.last = like.new_empty(2, rows, n_draws)  # (rows, S) each
        self.exponentials = like.new_empty(rows, n_columns * n_draws if n_columns > 1 else 0)


def moments_against_last(
    logits: Tensor, workspace: Workspace | None = None
) -> tuple[Tensor, Tensor]:
    """Mean probabilities (N, K) and mean entropy (N,) over draws of logits (N, K-1, S).

    Overwrites the logits. The last class has logit 0 and needs no exp.
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
    apart = logits[steep]  # so that a few such points do not slow down all others
    logits[steep] = 0
    mean, entropy = _moments(logits, workspace, False)
    mean[steep], entropy[steep] = _moments(apart, Workspace(apart, *apart.shape), True)
    return mean, entropy


def _moments_of_two(logits: Tensor, workspace: Workspace) -> tuple[Tensor, Tensor]:
    """The same for two classes and logits (N, S), in fewer passes over memory.

    Clamping logits that are too large for exp is exact: the probability is 0 or 1 in float32.
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
    for column in range(1, n_columns):  # faster than a sum over a short axis
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

"""From logits against the last class to probabilities, or directly to their moments over draws."""

import math

import torch
from torch import Tensor

# Points are processed in chunks of so many logits. Larger ones do not stay in the CPU cache until
# the last pass over them; smaller ones read all weights more often.
_CHUNK_ELEMENTS = 1 << 19

# Matrix products are about 1.5 times faster with a multiple of 8 columns.
_EIGHT = 8

# Unit roundoff of float32, and the largest rounding error of a logit that is tolerated.
_EPS, _MAX_ROUNDING = 2.0**-24, 3e-5

_LN_2 = math.log(2)  # in nats; exp2 is four times as fast as exp


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
    rows = min(max(16, _CHUNK_ELEMENTS // width), len(points))
    logits = points.new_empty(rows, width)
    workspace = Workspace(rows, n_columns, width // n_columns, like=points)
    in_bits = points / _LN_2
    moments = [
        moments_against_last(
            torch.mm(chunk, weights, out=logits[: len(chunk)]).unflatten(1, (n_columns, -1)),
            workspace,
        )
        for chunk in in_bits.split(max(1, rows))
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
        self._longest_draw = float(weights.norm(dim=0).max())
        self.is_whole = len(basis) == self.n_directions  # so that there is no remainder
        if self.is_whole:
            weights = weights[:-1]
        padding = -len(weights) % _EIGHT
        width = len(weights) + padding
        basis = torch.nn.functional.pad(basis.to(dtype), (0, width - self.n_directions))
        self.basis, self.offset = (basis[:-1], basis[-1]) if bias else (basis, basis.new_zeros(()))
        self.weights = torch.nn.functional.pad(weights.to(dtype), (0, 0, 0, padding))

    def probabilities(self, features: Tensor) -> Tensor:
        """Class probabilities (S, N, K) of features (N, L) under each draw."""
        flat = self._coordinates(features) @ self.weights
        return softmax_against_last(flat.unflatten(1, (self.n_columns, -1)))

    def moments(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Mean over draws of the probabilities (N, K) and of their entropy (N,), of (N, L)."""
        coordinates = self._coordinates(features)
        mean, entropy = moments_of_product(coordinates, self.weights, self.n_columns)
        if self.exact is not None:
            # Terms cancel in a logit, which is a sum of products.
            rounding = _EPS * torch.linalg.vector_norm(coordinates, dim=1) * self._longest_draw
            rough = ~(rounding <= _MAX_ROUNDING)  # also if it is NaN
            if bool(rough.any()):
                mean[rough], entropy[rough] = self.exact.moments(features[rough])
        return mean, entropy

    def _coordinates(self, features: Tensor) -> Tensor:
        """The columns q, rho and padding (N, ...), to be multiplied with the draws.

        Rho is the norm of what is left of a point after the projection: the difference between the
        squared norms of both would keep half of the digits only.
        """
        features = features.to(self.dtype)
        both = torch.addmm(self.offset, features, self.basis)
        if not self.is_whole:
            rest = features - both @ self.basis.T
            squared = torch.linalg.vector_norm(rest, dim=1).square()
            rest_of_bias = self.bias - (both * self.offset).sum(dim=1)
            both[:, self.n_directions] = (squared + rest_of_bias.square()).sqrt()
        return both


class Workspace:
    """Buffers for a chunk; allocating them anew would cost as much as exp2."""

    def __init__(self, n_points: int, n_columns: int, n_draws: int, like: Tensor) -> None:
        self.exponentials = like.new_empty(n_points, n_columns, n_draws)
        self.total, self.last, self.shift = like.new_empty(3, n_points, n_draws)


def moments_against_last(logits: Tensor, workspace: Workspace) -> tuple[Tensor, Tensor]:
    """Mean probabilities (N, K) and mean entropy (N,), in nats, over draws.

    Logits (N, K-1, S), which are overwritten, are in bits; the last class has logit 0. All are
    shifted by the largest one, so that exp2 stays finite.
    """
    n_points, n_columns, n_draws = logits.shape
    weights, total = workspace.exponentials[:n_points], workspace.total[:n_points]
    shift, last = workspace.shift[:n_points], workspace.last[:n_points]
    torch.amax(logits, dim=1, out=shift).clamp_(min=0)
    logits.sub_(shift[:, None])
    torch.exp2(logits, out=weights)
    torch.exp2(torch.neg(shift, out=last), out=last)
    torch.add(last, weights[:, 0], out=total)
    for column in range(1, n_columns):  # faster than a sum over a short axis
        total.add_(weights[:, column])
    scale = total.reciprocal()
    weights.mul_(scale[:, None])
    last.mul_(scale)
    mean = torch.cat([weights.mean(dim=2), last.mean(dim=1, keepdim=True)], dim=1)
    # H = log total - sum_k p_k z_k; after the shift the last class has z = -shift.
    entropy = total.log2_().addcmul_(last, shift).mean(dim=1)
    energy = torch.linalg.vecdot(weights.flatten(1), logits.flatten(1)) / n_draws
    return mean, _LN_2 * (entropy - energy)

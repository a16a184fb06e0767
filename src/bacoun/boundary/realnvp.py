"""RealNVP: normalization between couplings, and a fast log density with its gradient.

Masks alternate between even and odd coordinates, so `log_prob` never reassembles the two halves of
the points. They are stored transposed, one contiguous row for each coordinate, and a layer knows
its own derivative instead of recording a dozen small operations. The more inputs, the faster this
is than composing zuko's transforms: `python -m benchmarks flows`.
"""

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.distributions import AffineTransform, Transform
from zuko.lazy import LazyTransform

# A coupling scales by at most this factor. Without the limit, flows overfit: held-out rows get
# densities as low as exp(-1000).
MAX_SCALE = 10.0
LARGEST_LOG_SCALE = math.log(MAX_SCALE)


class Normalization(LazyTransform):
    """Shift and scale each coordinate to zero mean and unit variance, invertibly.

    In training, `log_prob` normalizes by the moments of the batch and updates running ones, which
    are used afterwards.
    """

    def __init__(self, dimension: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.mean = nn.Buffer(torch.zeros(dimension))
        self.variance = nn.Buffer(torch.ones(dimension))

    def forward(self, c: Tensor | None = None) -> Transform:
        """The transform with the running moments; there is no context `c`."""
        return AffineTransform(self.mean, (self.variance + self.eps).sqrt(), event_dim=1).inv

    def half(self, rows: Tensor, coordinates: slice) -> tuple[Tensor, Tensor]:
        """Normalized rows (d, N) of some coordinates, and the log determinant, for `log_prob`."""
        if not self.training or rows.shape[1] == 1:
            factor = (self.variance[coordinates] + self.eps).rsqrt()
            shifted = rows - self.mean[coordinates, None]
            return shifted * factor[:, None], factor.log().sum()
        normalized, log_det, mean, variance = _NormalizeRows.apply(rows, self.eps)
        self.mean[coordinates].lerp_(mean, self.momentum)
        self.variance[coordinates].lerp_(variance, self.momentum)
        return normalized, log_det


class Coupling:
    """Weights and biases of a coupling of zuko, or of those of several flows, side by side."""

    def __init__(self, *couplings: Any) -> None:
        flows = [list(coupling.hyper)[::2] for coupling in couplings]  # with ReLU in between
        self.linear = [_side_by_side(*layers) for layers in zip(*flows, strict=True)]


def _side_by_side(first: nn.Linear, *others: nn.Linear) -> tuple[Tensor, Tensor]:
    if not others:
        return first.weight, first.bias[:, None]
    layers = first, *others
    weights, biases = (
        torch.stack([getattr(layer, name) for layer in layers]).detach()
        for name in ("weight", "bias")
    )
    return weights, biases[:, :, None]


def log_prob(layers: Iterable[LazyTransform | Coupling], points: Tensor) -> Tensor:
    """Log density (..., N) of points (..., N, D), D > 1, under couplings and normalizations.

    With couplings of several flows, the points are (K, N, D), standardized for each flow.
    """
    slices = [slice(0, None, 2), slice(1, None, 2)]
    halves = [points[..., own].mT.contiguous() for own in slices]
    log_det = points.new_zeros(points.shape[:-1])
    kept = 0  # the half that the next coupling leaves as it is
    for layer in layers:
        if isinstance(layer, Normalization):
            for index, own in enumerate(slices):
                halves[index], change = layer.half(halves[index], own)
                log_det = log_det + change
        else:
            coupling = layer if isinstance(layer, Coupling) else Coupling(layer)
            halves[1 - kept], change = _coupled(coupling, halves[kept], halves[1 - kept])
            log_det = log_det + change
            kept = 1 - kept
    squares = halves[0].square().sum(dim=-2) + halves[1].square().sum(dim=-2)
    return log_det - 0.5 * (squares + points.shape[-1] * math.log(2 * math.pi))


def _coupled(coupling: Coupling, kept: Tensor, moved: Tensor) -> tuple[Tensor, Tensor]:
    """Rows (..., d, N) that a coupling moves, depending on those it keeps; log determinants."""
    affine: Any = torch.addmm if kept.ndim == 2 else torch.baddbmm
    *hidden, (weight, bias) = coupling.linear
    for each in hidden:
        kept = affine(each[1], each[0], kept).relu_()
    shift_and_scale = affine(bias, weight, kept).unflatten(-2, (-1, 2))
    moved, log_det = _ScaleAndShift.apply(moved, shift_and_scale)
    return moved, log_det


class _ScaleAndShift(Function):
    """exp(a) x + b, where a is the scale that the network found, squashed to +-log 10."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, shift_and_scale: Tensor) -> tuple[Tensor, Tensor]:
        shift, scale = shift_and_scale.unbind(dim=-2)
        squashing = scale.abs().div_(LARGEST_LOG_SCALE).add_(1)
        log_scale = scale / squashing
        log_det = log_scale.sum(dim=-2)
        factor = log_scale.exp_()
        ctx.save_for_backward(x, factor, squashing)
        return torch.addcmul(shift, x, factor), log_det

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor]:
        of_y, of_log_det = gradients
        x, factor, squashing = ctx.saved_tensors
        of_x = of_y * factor
        of_scale = torch.addcmul(of_log_det, of_x, x).div_(squashing).div_(squashing)
        return of_x, torch.stack([of_y, of_scale], dim=1)


class _NormalizeRows(Function):
    """Rows (d, N) with zero mean and unit variance, the log determinant, and their moments (d,)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, eps: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        mean = x.mean(dim=1)
        y = x - mean[:, None]
        variance = y.square().sum(dim=1) / (y.shape[1] - 1)  # `var` is several times slower
        factor = (variance + eps).rsqrt()
        y.mul_(factor[:, None])
        ctx.save_for_backward(y, factor)
        ctx.mark_non_differentiable(mean, variance)
        return y, factor.log().sum(), mean, variance

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        of_y, of_log_det = gradients[:2]
        y, factor = ctx.saved_tensors
        # With d factor / dx = -factor^2 y / (N - 1), and the same for the log determinant:
        slope = ((of_y * y).sum(dim=1) + of_log_det) / (y.shape[1] - 1)
        of_x = of_y - of_y.mean(dim=1, keepdim=True)
        return of_x.addcmul_(y, slope[:, None], value=-1).mul_(factor[:, None]), None

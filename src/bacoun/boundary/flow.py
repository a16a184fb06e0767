"""A normalizing flow on standardised points: log_prob, to_latent, to_data."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import torch
import zuko
from torch import Generator, Tensor
from torch.distributions import Distribution, Transform, constraints
from zuko.lazy import Flow as ZukoFlow
from zuko.lazy import LazyTransform, UnconditionalTransform
from zuko.transforms import IdentityTransform, MonotonicAffineTransform

from bacoun.randomness import seeded, threads_for
from bacoun.training import History, OnEpoch, train

State = dict[str, Any]

# A coupling stretches or shrinks by at most this factor. Flows that may do more give rows like
# their own data, which they were not fitted to, densities of exp(-1000).
_LARGEST_STRETCH = 10.0
LARGEST_LOG_SCALE = math.log(_LARGEST_STRETCH)


@contextmanager
def _unvalidated() -> Iterator[None]:
    """Let a distribution take NaN, where a flow overflowed; Pyro, once imported, forbids it."""
    before = Distribution._validate_args
    Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        Distribution.set_default_validate_args(before)


class Flow:
    """RealNVP from zuko, fitted by maximum likelihood to one cloud of points.

    Parameters
    ----------
    blocks : int
        Number of coupling layers; 0 is a plain Gaussian, for clouds too small to learn from.
    hidden : int
        Neurons in each of the two hidden layers of a coupling.
    jitter : float
        Noise added to standardised points in training, so that constant, discrete and repeated
        columns have a density.
    batch_norm : bool
        An invertible normalisation layer after each coupling, as in the paper.
    """

    def __init__(
        self, *, blocks: int = 5, hidden: int = 64, jitter: float = 0.1, batch_norm: bool = False
    ) -> None:
        self.blocks = blocks
        self.hidden = hidden
        self.jitter = jitter
        self.batch_norm = batch_norm

    def fit(
        self,
        points: Tensor,
        *,
        epochs: int,
        batch_size: int,
        learning_rate: float,
        l2: float,
        patience: int | None,
        generator: Generator,
        scale: Tensor | None = None,
        on_epoch: OnEpoch | None = None,
    ) -> Self:
        """Fit to `points` of shape (N, D); `scale` (D,) replaces the points' own spread."""
        self.center_ = points.mean(dim=0)
        spread = points.std(dim=0, correction=0) if scale is None else scale
        self.scale_ = torch.where(spread > 1e-6, spread, torch.ones_like(spread))
        with seeded(generator):
            self.module_ = self._build(points.shape[1]).to(points.device)
        standard = (points - self.center_) / self.scale_

        def negative_log_likelihood(batch: Tensor) -> Tensor:
            noisy = batch + self.jitter * torch.randn_like(batch) if self.jitter > 0 else batch
            log_likelihood: Tensor = self.module_().log_prob(noisy)
            return -log_likelihood.mean()

        self.history_ = History()
        if self.blocks > 0:
            with threads_for(batch_size * points.shape[1] * self.hidden * self.blocks):
                self.history_ = train(
                    self.module_,
                    negative_log_likelihood,
                    [standard],
                    epochs=epochs,
                    batch_size=batch_size,
                    learning_rate=learning_rate,
                    l2=l2,
                    patience=patience,
                    generator=generator,
                    on_epoch=on_epoch,
                )
        self.module_.eval()
        return self

    def _build(self, dimension: int) -> ZukoFlow:
        if self.blocks == 0:
            identity = UnconditionalTransform(IdentityTransform)
            return ZukoFlow([identity], zuko.flows.RealNVP(dimension).base)
        if dimension == 1:  # an affine coupling of one coordinate cannot hold two modes
            return zuko.flows.NSF(1, transforms=2, bins=16)
        flow = zuko.flows.RealNVP(
            dimension,
            transforms=self.blocks,
            hidden_features=(self.hidden, self.hidden),
            univariate=partial(MonotonicAffineTransform, slope=1 / _LARGEST_STRETCH),
        )
        if self.batch_norm:
            layers = [
                layer
                for coupling in flow.transform.transforms
                for layer in (coupling, Normalisation(dimension))
            ]
            flow = ZukoFlow(layers, flow.base)
        return flow

    @torch.no_grad()
    def to_latent(self, points: Tensor) -> Tensor:
        """Map points (N, D) to latent space (N, D), where the data is a standard normal."""
        return self._transform()((points - self.center_) / self.scale_)

    @torch.no_grad()
    def to_data(self, latent: Tensor) -> Tensor:
        """Map latent points (N, D) back to where the data lives (N, D)."""
        inverse: Tensor = self._transform().inv(latent)
        return inverse * self.scale_ + self.center_

    @torch.no_grad()
    def log_prob(self, points: Tensor) -> Tensor:
        """Log density (N,) of points (N, D), in nats; -inf where the flow overflows."""
        standard = (points - self.center_) / self.scale_
        if self.blocks > 0 and points.shape[1] > 1 and not self.batch_norm:
            value = self._log_prob_of_couplings(standard)
        else:
            with _unvalidated():
                value = self.module_().log_prob(standard)
        value = value - self.scale_.log().sum()
        return torch.nan_to_num(value, nan=-math.inf, posinf=-math.inf, neginf=-math.inf)

    def _log_prob_of_couplings(self, standard: Tensor) -> Tensor:
        """The same as the module's, in half the time: for millions of points.

        Masks are checkered and take turns, so that even and odd coordinates never need to be put
        together again. Points stand in columns: all that is done to a half runs along memory.
        """
        halves = [standard[:, 0::2].T.contiguous(), standard[:, 1::2].T.contiguous()]
        log_det = standard.new_zeros(len(standard))
        for turn, coupling in enumerate(self.module_.transform.transforms):
            kept, moved = halves if turn % 2 == 0 else halves[::-1]
            *hidden, last = list(coupling.hyper)[::2]  # between them, ReLU
            for layer in hidden:
                kept = torch.addmm(layer.bias[:, None], layer.weight, kept).relu_()
            shift = torch.addmm(last.bias[0::2, None], last.weight[0::2], kept)
            scale = torch.addmm(last.bias[1::2, None], last.weight[1::2], kept)
            log_scale = scale.div_(scale.abs().div_(LARGEST_LOG_SCALE).add_(1))
            log_det += log_scale.sum(dim=0)
            moved.mul_(log_scale.exp()).add_(shift)
        squares = sum(half.square().sum(dim=0) for half in halves)
        return log_det - 0.5 * (squares + standard.shape[1] * math.log(2 * math.pi))

    def _transform(self) -> Any:
        return self.module_.transform()

    def get_state(self) -> State:
        """What `set_state` needs to rebuild this flow: tensors and plain values."""
        return {
            "center": self.center_,
            "scale": self.scale_,
            "blocks": self.blocks,
            "weights": dict(self.module_.state_dict()),
        }

    def set_state(self, state: State) -> Self:
        """Undo `get_state` on a flow of the same settings."""
        self.center_, self.scale_ = state["center"], state["scale"]
        self.blocks = state["blocks"]
        with seeded(Generator()):  # the weights drawn here are replaced
            self.module_ = self._build(len(self.center_)).to(self.center_.device)
        self.module_.load_state_dict(state["weights"])
        self.module_.eval()
        self.history_ = History()
        return self


class Normalisation(LazyTransform):
    """Shift and scale each coordinate to zero mean and unit variance, invertibly.

    In training the batch's own moments are used and remembered; afterwards the remembered ones.
    """

    def __init__(self, dimension: int, momentum: float = 0.1, eps: float = 1e-5) -> None:
        super().__init__()
        self.momentum, self.eps = momentum, eps
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("mean", torch.zeros(dimension))
        self.register_buffer("variance", torch.ones(dimension))

    def forward(self, c: Tensor | None = None) -> Transform:
        """The transform as it stands now; the flow here has no context `c`."""
        return _NormalisationTransform(self)

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and variance to normalise `x` by."""
        if not self.training or len(x) < 2:
            return self.mean, self.variance + self.eps
        mean, variance = x.mean(dim=0), x.var(dim=0)
        with torch.no_grad():
            self.mean.lerp_(mean, self.momentum)
            self.variance.lerp_(variance, self.momentum)
        return mean, variance + self.eps


class _NormalisationTransform(Transform):
    bijective = True
    domain = constraints.real_vector
    codomain = constraints.real_vector

    def __init__(self, layer: Normalisation) -> None:
        super().__init__()
        self.layer = layer

    def call_and_ladj(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, variance = self.layer.moments(x)
        log_det = -0.5 * variance.log().sum()
        return (x - mean) / variance.sqrt(), log_det.expand(x.shape[:-1])

    def _call(self, x: Tensor) -> Tensor:
        return self.call_and_ladj(x)[0]

    def _inverse(self, y: Tensor) -> Tensor:
        return y * (self.layer.variance + self.layer.eps).sqrt() + self.layer.mean

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.call_and_ladj(x)[1]

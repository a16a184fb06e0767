"""A normalizing flow on standardized points: log_prob, to_latent, to_data."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import torch
import zuko
from sklearn.base import BaseEstimator
from torch import Generator, Tensor
from zuko.lazy import Flow as ZukoFlow
from zuko.lazy import UnconditionalTransform
from zuko.transforms import IdentityTransform, MonotonicAffineTransform

from bacoun.boundary import realnvp
from bacoun.engine.randomness import seeded
from bacoun.engine.threads import threads_for
from bacoun.engine.training import History, OnEpoch, epochs_for, train
from bacoun.files.persistence import SavesAttributes

_DEFAULT_STEPS = 6000
_MIN_POINTS = 20  # fewer get a Gaussian instead of a flow
_AT_ONCE, _FEWEST_AT_ONCE = 8192, 32  # points times flows; points


@dataclass(kw_only=True, eq=False)
class Flow(SavesAttributes):
    """RealNVP from zuko, fitted by maximum likelihood to one cloud of points.

    With 0 blocks, it is a plain Gaussian, for very small clouds; see `FlowSettings`.
    """

    blocks: int = 5
    hidden: int = 64
    jitter: float = 0.1
    batch_norm: bool = False

    _saved = ("center_", "scale_", "blocks", "module_")

    def fit(
        self,
        points: Tensor,
        *,
        generator: Generator,
        scale: Tensor | None = None,
        batch_size: int,
        **training: Any,
    ) -> Self:
        """Fit to points (N, D), standardized by a scale (D,) or their own standard deviation.

        More arguments are those of `train` in `bacoun.engine.training`.
        """
        self.center_ = points.mean(dim=0)
        spread = points.std(dim=0, correction=0) if scale is None else scale
        self.scale_ = torch.where(spread > 1e-6, spread, torch.ones_like(spread))
        with seeded(generator):
            self.module_ = self._build(points.shape[1]).to(points.device)

        def negative_log_likelihood(batch: Tensor) -> Tensor:
            noisy = batch + self.jitter * torch.randn_like(batch) if self.jitter > 0 else batch
            return -self._log_prob(noisy).mean()

        self.history_ = History()
        if self.blocks > 0:
            with threads_for(batch_size * points.shape[1] * self.hidden * self.blocks):
                self.history_ = train(
                    self.module_,
                    negative_log_likelihood,
                    [self._standardized(points)],
                    batch_size=batch_size,
                    generator=generator,
                    **training,
                )
        self.module_.eval()
        return self

    def _build(self, dimension: int) -> ZukoFlow:
        if self.blocks == 0:
            identity = UnconditionalTransform(IdentityTransform)
            return ZukoFlow([identity], zuko.flows.RealNVP(dimension).base)
        if dimension == 1:  # affine couplings of a single coordinate cannot model two modes
            return zuko.flows.NSF(1, transforms=2, bins=16)
        flow = zuko.flows.RealNVP(
            dimension,
            transforms=self.blocks,
            hidden_features=(self.hidden, self.hidden),
            univariate=partial(MonotonicAffineTransform, slope=1 / realnvp.MAX_SCALE),
        )
        if not self.batch_norm:
            return flow
        layers: list[Any] = []
        for coupling in flow.transform.transforms:
            layers += [coupling, realnvp.Normalization(dimension)]
        return ZukoFlow(layers, flow.base)

    def _standardized(self, points: Tensor) -> Tensor:
        return (points - self.center_) / self.scale_

    @torch.no_grad()
    def to_latent(self, points: Tensor) -> Tensor:
        """Map points (N, D) to latent space (N, D), where the data is a standard normal."""
        return self.module_.transform()(self._standardized(points))

    @torch.no_grad()
    def to_data(self, latent: Tensor) -> Tensor:
        """Map latent points (N, D) to data space (N, D)."""
        return self.module_.transform().inv(latent) * self.scale_ + self.center_

    @torch.no_grad()
    def log_prob(self, points: Tensor) -> Tensor:
        """Log density (N,) of points (N, D), in nats; -inf where the flow overflows."""
        return finite(self._log_prob(self._standardized(points)) - self.scale_.log().sum())

    def _log_prob(self, standard: Tensor) -> Tensor:
        """Log density (N,) of standardized points (N, D); NaN or infinite if the flow overflows."""
        if self.blocks > 0 and standard.shape[1] > 1:
            return realnvp.log_prob(self.module_.transform.transforms, standard)
        # Not the module's own log_prob: once Pyro is imported, it refuses NaN from an overflow.
        latent, log_det = self.module_.transform().call_and_ladj(standard)
        log_normal = -latent.square() / 2 - math.log(math.sqrt(2 * math.pi))
        return log_normal.sum(dim=1) + (log_det if log_det.ndim == 1 else log_det.sum(dim=1))

    def _empty(self, name: str, state: Any) -> Any:
        return self._build(len(self.center_)) if name == "module_" else None


class FlowStack:
    """Several flows of one architecture, whose log densities are computed side by side."""

    def __init__(self, flows: Sequence[Flow]) -> None:
        self.center = torch.stack([flow.center_ for flow in flows])[:, None]
        self.scale = torch.stack([flow.scale_ for flow in flows])[:, None]
        layers = zip(*(flow.module_.transform.transforms for flow in flows), strict=True)
        self.couplings = [realnvp.Coupling(*each) for each in layers]
        # A power of two, so that chunks of points are split evenly; the hidden units of so many
        # points stay in the CPU cache.
        self.n_points = max(_FEWEST_AT_ONCE, 1 << (_AT_ONCE // len(flows)).bit_length() - 1)

    @staticmethod
    def can_hold(flows: Sequence[Flow]) -> bool:
        """Whether there are several flows, and all consist of the same number of couplings."""
        shapes = {(flow.blocks, flow.batch_norm, len(flow.center_)) for flow in flows}
        blocks, batch_norm, dimension = shapes.pop()
        return len(flows) > 1 and not shapes and blocks > 0 and not batch_norm and dimension > 1

    @torch.no_grad()
    def log_prob(self, points: Tensor) -> Tensor:
        """Log densities (K, N) of points (N, D), in nats; -inf where a flow overflows."""
        chunks = [
            realnvp.log_prob(self.couplings, (chunk - self.center) / self.scale)
            for chunk in points.split(self.n_points)
        ]
        return finite(torch.cat(chunks, dim=1) - self.scale.log().sum(dim=2))


@dataclass(kw_only=True, repr=False, eq=False)
class FlowSettings(BaseEstimator):
    """Architecture and training of flows, for estimators that fit them.

    Parameters
    ----------
    blocks : int
        Coupling layers of each flow.
    hidden : int
        Units in each of the two hidden layers of a coupling.
    batch_norm : bool
        Add an invertible normalization layer after each coupling, as in the paper.
    jitter : float
        Standard deviation of noise in training, which gives constant or discrete columns a density.
    epochs : int, optional
        Passes over the data, at most. None: about 6000 steps, in 5 to 200 epochs.
    batch_size : int
        Points in a mini-batch.
    learning_rate : float
        Step size of Adam.
    l2 : float
        Weight decay: `l2 / 2` times the squared weights is added to the summed loss.
    l2_over : "rows" or "batch"
        What that loss is summed over: all rows, or a mini-batch, which makes the penalty stronger.
    patience : int, optional
        Stop early once the likelihood of a held-out tenth of the points has not improved for this
        many epochs. None: train on all points for all epochs.
    """

    blocks: int = 5
    hidden: int = 64
    batch_norm: bool = False
    jitter: float = 0.1
    epochs: int | None = None
    batch_size: int = 256
    learning_rate: float = 1e-3
    l2: float = 1.0
    l2_over: str = "rows"
    patience: int | None = 20

    def _new_flow(self) -> Flow:
        sizes = {"blocks": self.blocks, "hidden": self.hidden}
        return Flow(**sizes, batch_norm=self.batch_norm, jitter=self.jitter)

    def _fit_flow(self, cloud: Tensor, within: Tensor, seed: int, on_epoch: OnEpoch | None) -> Flow:
        """Fit to a cloud (N, D); small ones get a Gaussian with standard deviations `within`."""
        flow, is_small = self._new_flow(), len(cloud) < _MIN_POINTS
        if is_small:
            flow.blocks = 0
        names = ("batch_size", "learning_rate", "l2", "l2_over", "patience")
        return flow.fit(
            cloud,
            scale=within if is_small else None,
            epochs=self.epochs or epochs_for(_DEFAULT_STEPS, len(cloud), self.batch_size, 5, 200),
            generator=Generator().manual_seed(seed),
            on_epoch=on_epoch,
            **{name: getattr(self, name) for name in names},
        )


def finite(log_prob: Tensor) -> Tensor:
    """A flow may overflow: what is not a number is as unlikely as can be."""
    return torch.nan_to_num(log_prob, nan=-math.inf, posinf=-math.inf, neginf=-math.inf)


def deviation_within(clouds: list[Tensor]) -> Tensor:
    """Standard deviation (D,) of clouds (N, D), each around its own mean."""
    centered = torch.cat([cloud - cloud.mean(dim=0) for cloud in clouds])
    return centered.square().mean(dim=0).sqrt()

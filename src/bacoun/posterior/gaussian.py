"""Gaussian approximations: mean field, which the paper uses for images ("BBVI"), and Laplace."""

import time
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn

from bacoun.engine.randomness import as_generator, draw_seed
from bacoun.engine.threads import threads_for
from bacoun.engine.training import mean_log_loss, train
from bacoun.posterior.diagnostics import Health
from bacoun.posterior.last_layer import LinearLayer, ReducedLayer, Sampled
from bacoun.posterior.logistic import SoftmaxRegression
from bacoun.posterior.whitening import whiten
from bacoun.protocols import FitContext


@dataclass(kw_only=True, repr=False, eq=False)
class MeanField(LinearLayer):
    """An independent Gaussian for each weight, fitted by maximizing the ELBO with Adam.

    Settings that are not listed are those of `LinearLayer`; "evidence" is no `prior_scale` here.

    Parameters
    ----------
    n_iterations : int
        Steps of Adam; the defaults of this and the next two are the paper's.
    batch_size : int
        Rows in a mini-batch.
    learning_rate : float
        Step size of Adam.

    Attributes
    ----------
    elbo_ : list of float
        ELBO after each epoch, in nats.
    """

    n_iterations: int = 30_000
    batch_size: int = 256
    learning_rate: float = 1e-2

    _saved = ("mean_", "scale_", "eps_", "joint_seed_", "elbo_", "health_")

    def fit(self, features: Tensor, labels: Tensor, context: FitContext = FitContext()) -> Self:
        """Fit to features (N, L) and labels (N,) in 0..K-1; weights (N,) count as copies."""
        started, generator = time.perf_counter(), as_generator(context.generator)
        n_classes = self._check(features, labels)
        if self.prior_scale == "evidence":
            raise ValueError(
                "prior_scale must be a number for MeanField; got 'evidence'. Fit Laplace with "
                "prior_scale='evidence' first and take its prior_scale_."
            )
        design = self._design(features.float())
        prior_scale = self._resolved_prior_scale(design, context.best_prior_scale)
        n_points = len(design)
        center = design.new_zeros(design.shape[1], n_classes)
        if context.prior_mean is not None:
            center[: len(context.prior_mean)] = context.prior_mean.to(center)
        weights = _GaussianWeights(center)

        def negative_elbo(batch: Tensor, targets: Tensor, *weight: Tensor) -> Tensor:
            # Local reparameterization: noise on the logits has less variance than on the weights.
            mean, scale = weights(batch)
            logits = mean + scale * torch.randn_like(mean)
            misfit = mean_log_loss(logits, targets, *weight)
            return misfit + weights.kl_divergence(prior_scale) / n_points

        sample_weight, batches = context.sample_weight, -(-n_points // self.batch_size)
        with threads_for(2 * self.batch_size * design.shape[1] * n_classes):
            history = train(
                weights,
                negative_elbo,
                [design, labels, *([] if sample_weight is None else [sample_weight.to(design)])],
                epochs=-(-self.n_iterations // batches),
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                generator=generator,
                on_epoch=context.on_epoch,
            )
        self.elbo_ = [-n_points * loss for loss in history.train]
        self.mean_, self.scale_ = center + weights.mean.detach(), weights.log_scale.detach().exp()
        self.eps_ = torch.randn(self.n_draws, 1, n_classes, generator=generator).to(design.device)
        self.joint_seed_ = draw_seed(generator)
        sizes = self.n_draws, self.mean_.numel(), prior_scale
        self.health_ = Health("MeanField", *sizes, seconds=time.perf_counter() - started)
        return self

    def predict_proba_samples(self, features: Tensor, joint: bool = False) -> Tensor:
        """Class probabilities (S, N, K) of features (N, L) under each posterior draw.

        They are exact for each point on its own, and smooth from point to point. With `joint`, draw
        s is one linear classifier for all points: slower, for decisions about batches.
        """
        self._check_fitted()
        design = self._design(features)
        mean, scale = self.mean_.to(design), self.scale_.to(design)
        if not joint:
            spread = (design.square() @ scale.square()).sqrt()
            return (design @ mean + spread * self.eps_.to(design)).softmax(dim=2)
        generator = torch.Generator().manual_seed(self.joint_seed_)
        shape = (self.n_draws, *mean.shape)
        draws = mean + scale * torch.randn(shape, generator=generator).to(design)
        return (design @ draws).softmax(dim=2)

    def diagnose(self, features: Tensor) -> Health:
        """`health_`, whatever the features (N, L): the draws are independent."""
        return self.health_


class _GaussianWeights(nn.Module):
    """Means and scales of weights (L, K), the means relative to those of the prior, `center`."""

    def __init__(self, center: Tensor) -> None:
        super().__init__()
        self.center = center
        self.mean = nn.Parameter(torch.zeros_like(center))
        self.log_scale = nn.Parameter(torch.full_like(center, -3.0))

    def forward(self, design: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation (N, K) of the logits."""
        variance = design.square() @ (2 * self.log_scale).exp()
        return design @ (self.center + self.mean), (variance + 1e-12).sqrt()

    def kl_divergence(self, prior_scale: float) -> Tensor:
        """Kullback-Leibler divergence from the prior, in nats."""
        second_moment = (2 * self.log_scale).exp() + self.mean.square()
        log_ratio = self.log_scale - torch.tensor(prior_scale).log()
        return (second_moment / prior_scale**2 - 1).sum() / 2 - log_ratio.sum()


@dataclass(kw_only=True, repr=False, eq=False)
class Laplace(ReducedLayer):
    """Gaussian approximation of the posterior: fast, but inaccurate if the posterior is skewed.

    Settings that are not listed are those of `ReducedLayer`.

    Parameters
    ----------
    full : bool, optional
        One covariance for all contrasts, not one for each. None: up to 10,000 dimensions.
    """

    full: bool | None = None

    _draws_are_independent = True

    def _sample(self, posterior: SoftmaxRegression, mode: Tensor, context: FitContext) -> Sampled:
        whitening = whiten(posterior, mode[:, :, None], full=self.full)
        shape, generator = (mode.numel(), self.n_draws), context.generator
        x = torch.randn(shape, generator=generator, dtype=torch.float64)
        return whitening.to_weights(x.to(mode.device)).permute(2, 0, 1)[None], {}

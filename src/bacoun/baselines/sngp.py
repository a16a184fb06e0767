"""SNGP: a Gaussian process on the features of a network that keeps distances.

Liu et al. (2020), "Simple and Principled Uncertainty Estimation with Deterministic Deep Learning
via Distance Awareness".
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from bacoun.baselines.networks import Count, Positive, Run
from bacoun.baselines.residual import ResidualClassifier


@dataclass(kw_only=True, repr=False, eq=False)
class SNGP(ResidualClassifier):
    """Draws are softmaxes of K Gaussian processes, with a kernel on a residual network's features.

    The kernel is approximated by random Fourier features, the posterior of their weights by
    Laplace's method, with one covariance for all classes. The OOD score is the paper's
    Dempster-Shafer uncertainty K / (K + sum of exp(logits)); variance shrinks the logits.

    Settings that are not listed are those of `ResidualClassifier`.

    Parameters
    ----------
    n_random_features : int
        Number M of random Fourier features.
    length_scale : float, optional
        Length scale of the kernel on the residual network's outputs. None: the square root of the
        number of inputs, by which distances grow.
    ridge : float
        Prior precision of the weights of the random features.
    n_draws : int
        Number S of draws.

    Attributes
    ----------
    root_ : Tensor of shape (M, M)
        Cholesky factor of the posterior precision of a class's weights.
    """

    n_random_features: Count = 1024
    length_scale: float | None = None
    ridge: Positive = 1.0
    n_draws: Count = 200

    def _build(self, n_inputs: int) -> None:
        residual = self._residual_network(n_inputs)
        length_scale = self.length_scale or math.sqrt(n_inputs)
        kernel = RandomFeatures(self.width, self.n_random_features, length_scale)
        self._new_network(nn.Sequential(residual, kernel), self.n_random_features, bias=False)

    def _learn(self, points: Tensor, labels: Tensor, run: Run) -> None:
        def negative_log_posterior(batch: Tensor, targets: Tensor) -> Tensor:
            weights = self.module_[1].get_parameter("weight")
            prior = self.ridge / 2 * weights.square().sum()
            return self._log_loss(batch, targets) + prior / len(points)

        self._train_network(run, negative_log_posterior, points, labels)
        self.root_ = torch.linalg.cholesky(self._precision(points))
        shape = (self.n_draws, 1, len(self.classes_))
        self.eps_ = torch.randn(shape, generator=run.generator, dtype=torch.float64).to(self.device)

    def _precision(self, points: Tensor) -> Tensor:
        """Posterior precision (M, M) of the weights, by Laplace's method."""
        precision = self.ridge * torch.eye(self.n_random_features).to(points.device).double()
        for chunk in points.split(self.batch_size):
            features, logits = self._features_and_logits(chunk)
            largest = logits.softmax(dim=1).amax(dim=1, keepdim=True)
            precision += features.T @ (largest * (1 - largest) * features)
        return precision

    def _latent_moments(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean (n, K) of the logits, and their variance (n, 1)."""
        features, mean = self._features_and_logits(points)
        weights = torch.linalg.solve_triangular(self.root_, features.T, upper=False)
        return mean, weights.square().sum(dim=0)[:, None]

    def _samples(self, points: Tensor, joint: bool = False) -> Tensor:
        mean, variance = self._latent_moments(points)
        return (mean + variance.sqrt() * self.eps_).softmax(dim=2)

    def _unfamiliarity(self, points: Tensor) -> Tensor:
        mean, variance = self._latent_moments(points)
        adjusted = mean / (1 + math.pi / 8 * variance).sqrt()
        return (math.log(mean.shape[1]) - adjusted.logsumexp(dim=1)).sigmoid()


class RandomFeatures(nn.Module):
    """M features whose dot products approximate a squared exponential kernel."""

    def __init__(self, n_inputs: int, n_features: int, length_scale: float) -> None:
        super().__init__()
        self.frequencies = nn.Buffer(torch.randn(n_inputs, n_features) / length_scale)
        self.phases = nn.Buffer(2 * math.pi * torch.rand(n_features))

    def forward(self, points: Tensor) -> Tensor:
        """Features (n, M) of points (n, n_inputs)."""
        scale = (2 / len(self.phases)) ** 0.5
        return scale * torch.cos(points @ self.frequencies + self.phases)

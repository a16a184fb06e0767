"""SNGP: a Gaussian process on the features of a network that keeps distances.

Liu et al. (2020), "Simple and Principled Uncertainty Estimation with Deterministic Deep Learning
via Distance Awareness".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from bacoun.baselines.residual import ResidualClassifier
from bacoun.engine.randomness import seeded


@dataclass(kw_only=True, repr=False, eq=False)
class SNGP(ResidualClassifier):
    """Draws are softmaxes of K Gaussian processes, with a kernel on a residual network's features.

    The kernel is approximated by random Fourier features, the posterior of their weights by
    Laplace's method, with one covariance for all classes. The OOD score is the paper's
    Dempster-Shafer uncertainty K / (K + sum of exp(logits)), with logits that shrink as their
    variance grows.

    Parameters
    ----------
    width : int
        Units in each layer of the residual network.
    n_layers : int
        Residual layers.
    spectral_bound : float
        Largest spectral norm of the weights of a layer; below 1, no layer merges points.
    dropout : float
        Dropout rate in residual layers, in training.
    n_random_features : int
        Number M of random Fourier features.
    length_scale : float, optional
        Length scale of the kernel on the residual network's outputs. None: the square root of the
        number of inputs, by which distances grow.
    ridge : float
        Prior precision of the weights of the random features.
    n_draws : int
        Number S of draws.
    epochs : int, optional
        Passes over the data, at most. None: about 3000 steps, in 10 to 500 epochs.
    batch_size : int
        Rows in a mini-batch.
    learning_rate : float
        Step size of Adam.
    patience : int, optional
        Stop early once the log loss of a held-out tenth of the points has not improved for this
        many epochs. None: train on all points for all epochs.
    standardize : bool
        Scale each input, or each channel of images, to zero mean and unit variance.
    random_state : int, RandomState, Generator or None
        Seed of the fit. Global random streams are not touched.
    verbose : bool
        Show progress bars on stderr.
    device : str
        Torch device of the model, such as "cpu".

    Attributes
    ----------
    module_ : torch.nn.Sequential
        The body, from points (n, D) to random features (n, M), and their linear classifier.
    root_ : Tensor of shape (M, M)
        Cholesky factor of the posterior precision of a class's weights.
    """

    n_random_features: int = 1024
    length_scale: float | None = None
    ridge: float = 1.0
    n_draws: int = 200

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to X (N, D), finite numbers, and y (N,), labels of at least two classes."""
        self._check_counts("n_random_features", "n_draws")
        if not self.ridge > 0:
            raise ValueError(f"ridge must be positive; got {self.ridge!r}.")
        points, labels, generator = self._prepared(X, y)
        length_scale = self.length_scale or math.sqrt(points.shape[1])
        with seeded(generator):
            residual = self._residual_network(points.shape[1])
            kernel = RandomFeatures(self.width, self.n_random_features, length_scale)
            body = nn.Sequential(residual, kernel)
            self._new_network(body, self.n_random_features, bias=False)

        def negative_log_posterior(batch: Tensor, targets: Tensor) -> Tensor:
            weights = self.module_[1].get_parameter("weight")
            prior = self.ridge / 2 * weights.square().sum()
            return self._log_loss(batch, targets) + prior / len(points)

        self._train_network(negative_log_posterior, points, labels, generator)
        self.root_ = torch.linalg.cholesky(self._precision(points))
        shape = (self.n_draws, 1, len(self.classes_))
        self.eps_ = torch.randn(shape, generator=generator, dtype=torch.float64).to(self.device)
        return self

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
    """Features whose dot products approximate a squared exponential kernel.

    Parameters
    ----------
    n_inputs : int
        Dimension of the points.
    n_features : int
        Number M of features.
    length_scale : float
        Length scale of the kernel.
    """

    def __init__(self, n_inputs: int, n_features: int, length_scale: float) -> None:
        super().__init__()
        self.frequencies: Tensor
        self.phases: Tensor
        self.register_buffer("frequencies", torch.randn(n_inputs, n_features) / length_scale)
        self.register_buffer("phases", 2 * math.pi * torch.rand(n_features))

    def forward(self, points: Tensor) -> Tensor:
        """Features (n, M) of points (n, n_inputs)."""
        scale = (2 / len(self.phases)) ** 0.5
        return scale * torch.cos(points @ self.frequencies + self.phases)

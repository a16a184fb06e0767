"""GP: one Gaussian process a class, through a softmax; GPyTorch fits it on inducing points.

What is kept are plain tensors, and the predictive equations are written out here: they need no
GPyTorch, and a fitted model can be pickled.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor, nn

from bacoun.base import BayesianClassifier
from bacoun.baselines.networks import check_count
from bacoun.progress import progress_bars
from bacoun.randomness import RandomState, as_generator, draw_seed, threads_for
from bacoun.training import train

# Added to the diagonal of kernel matrices, so that points twice in the data do no harm.
_JITTER = 1e-6

# Latent values drawn for each row of a batch to estimate its likelihood.
_LATENT_DRAWS = 8

# A joint draw needs a Cholesky factor of all rows: 5000 rows take 0.2 GB and some seconds a class.
_MOST_JOINT_ROWS = 5000


class GP(BayesianClassifier):
    """Draws are softmaxes of K latent functions, far away from the data those of the prior.

    Zero mean, and a squared exponential kernel with a length scale for each input and an output
    scale, both learned for each class, together with inducing points that start on the data.

    Parameters
    ----------
    n_inducing : int
        Inducing points of each class; at most as many as there are rows.
    n_iterations, batch_size, learning_rate
        Steps of Adam, rows in each, and their length.
    n_draws : int
        Number S of draws.
    standardize, random_state, verbose, device
        As in `BaCOUnClassifier`.

    Attributes
    ----------
    inducing_ : Tensor of shape (K, M, D)
        Inducing points.
    length_scale_ : Tensor of shape (K, 1, D)
    output_scale_ : Tensor of shape (K, 1, 1)
        Prior variance of the latent functions.
    whitened_mean_, whitened_root_ : Tensor of shape (K, M) and (K, M, M)
        Posterior of the latent values at the inducing points, in units of their prior.
    elbo_ : list of float
        The evidence bound after each epoch, in nats.
    """

    def __init__(
        self,
        *,
        n_inducing: int = 100,
        n_iterations: int = 1000,
        batch_size: int = 256,
        learning_rate: float = 0.05,
        n_draws: int = 200,
        standardize: bool = True,
        random_state: RandomState = None,
        verbose: bool = False,
        device: str = "cpu",
    ) -> None:
        self.n_inducing = n_inducing
        self.n_iterations = n_iterations
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.n_draws = n_draws
        self.standardize = standardize
        self.random_state = random_state
        self.verbose = verbose
        self.device = device

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Learn from X (N, D), finite numbers, and y (N,), labels of at least two classes."""
        _check_gpytorch()
        for name in ("n_inducing", "n_iterations", "batch_size", "n_draws"):
            check_count(name, getattr(self, name))
        points, labels = self._validated(X, y)
        points = points.flatten(1).double()  # kernel matrices are close to singular
        n_points, n_classes = len(points), len(self.classes_)
        generator = as_generator(self.random_state)
        chosen = torch.randperm(n_points, generator=generator)[: self.n_inducing]
        latent = _latent_functions(points, chosen, n_classes)

        def negative_bound(batch: Tensor, targets: Tensor) -> Tensor:
            posterior = latent(batch)  # independent over classes: mean and variance (K, n)
            noise = torch.randn(_LATENT_DRAWS, *posterior.mean.shape).to(batch)
            draws = posterior.mean + posterior.stddev * noise
            misfit = nn.functional.cross_entropy(draws, targets.expand(_LATENT_DRAWS, -1))
            return misfit + latent.variational_strategy.kl_divergence().sum() / n_points

        batches = -(-n_points // self.batch_size)
        work = n_classes * len(chosen) ** 2 * (len(chosen) + self.batch_size)
        with progress_bars(self.verbose) as bar_for, threads_for(work):
            history = train(
                latent,
                negative_bound,
                [points, labels],
                epochs=-(-self.n_iterations // batches),
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                generator=generator,
                on_epoch=bar_for("latents"),
            )
        self.elbo_ = [-n_points * loss for loss in history.train]
        self._keep(latent)
        self.eps_ = torch.randn(self.n_draws, 1, n_classes, generator=generator).to(points)
        self.joint_seed_ = draw_seed(generator)
        return self

    def _keep(self, latent: Any) -> None:
        """Take from GPyTorch's module what the predictive equations need."""
        strategy, kernel = latent.variational_strategy, latent.kernel
        posterior = strategy.variational_distribution
        self.inducing_ = strategy.inducing_points.detach()
        self.length_scale_ = kernel.base_kernel.lengthscale.detach()
        self.output_scale_ = kernel.outputscale.detach()[:, None, None]
        self.whitened_mean_ = posterior.mean.detach()
        self.whitened_root_ = posterior.scale_tril.detach()
        covariance = self._kernel(self.inducing_, self.inducing_)
        eye = torch.eye(covariance.shape[1]).to(covariance)
        self.root_ = torch.linalg.cholesky(covariance + _JITTER * eye)

    def _kernel(self, one: Tensor, two: Tensor) -> Tensor:
        """Prior covariance (K, n, m) of the latent values at two sets of points."""
        distances = torch.cdist(
            one / self.length_scale_,
            two / self.length_scale_,
            compute_mode="donot_use_mm_for_euclid_dist",  # exact, and each pair on its own
        )
        return self.output_scale_ * (-distances.square() / 2).exp()

    def _projected(self, points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Posterior mean (K, n), and A and R'A, both (K, M, n): covariance is k + A'(RR' - I)A."""
        across = self._kernel(self.inducing_, points)
        weights = torch.linalg.solve_triangular(self.root_, across, upper=False)
        mean = (self.whitened_mean_[:, None] @ weights).squeeze(1)
        return mean, weights, self.whitened_root_.mT @ weights

    def _latent_moments(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Posterior mean and standard deviation (n, K) of the latent values at points (n, D)."""
        mean, known, left = self._projected(points.flatten(1).double())
        variance = self.output_scale_[:, 0] + left.square().sum(dim=1) - known.square().sum(dim=1)
        return mean.T, variance.clamp(min=0).sqrt().T

    def _samples(self, points: Tensor, joint: bool = False) -> Tensor:
        if joint:
            return self._joint_samples(points)
        mean, spread = self._latent_moments(points)
        return (mean + spread * self.eps_).softmax(dim=2)

    def _joint_samples(self, points: Tensor) -> Tensor:
        """Probabilities (S, N, K) from latent values drawn for all rows together."""
        points = points.flatten(1).double()
        mean, known, left = self._projected(points)
        prior = self._kernel(points, points)
        generator = Generator().manual_seed(self.joint_seed_)
        eye = torch.eye(len(points)).to(points)
        draws = []
        for k in range(len(mean)):
            covariance = prior[k] + left[k].T @ left[k] - known[k].T @ known[k]
            root = torch.linalg.cholesky(covariance + _JITTER * self.output_scale_[k] * eye)
            noise = torch.randn(len(self.eps_), len(points), generator=generator, dtype=root.dtype)
            draws.append(mean[k] + noise.to(root) @ root.T)
        return torch.stack(draws, dim=2).softmax(dim=2)

    def predict_proba_samples(self, X: ArrayLike, joint: bool = False) -> np.ndarray:
        """Class probabilities (S, N, K) under each draw of the latent functions.

        Parameters
        ----------
        joint : bool
            False draws each row from its own posterior, with one random number a draw and class for
            all rows: maps are smooth. True draws the latent functions at all rows together, for at
            most 5000 rows; the draws then depend on which rows are asked about.
        """
        if not joint:
            return super().predict_proba_samples(X)
        check_is_fitted(self)
        table: np.ndarray = self._checked(X)
        if len(table) > _MOST_JOINT_ROWS:
            raise ValueError(
                f"joint=True takes at most {_MOST_JOINT_ROWS} rows, since it draws them all "
                f"together; got {len(table)}. Pass fewer rows, or joint=False."
            )
        return self._joint_samples(self._standardised(table)).cpu().numpy()


def _check_gpytorch() -> None:
    try:
        with warnings.catch_warnings():  # it warns of torch.jit as it is imported
            warnings.simplefilter("ignore", DeprecationWarning)
            import gpytorch  # noqa: F401
    except ImportError as error:
        raise ImportError("GP needs GPyTorch: pip install 'bacoun[paper]'.") from error


def _latent_functions(points: Tensor, chosen: Tensor, n_classes: int) -> Any:
    """GPyTorch's module: K processes whose inducing points start on the chosen rows."""
    import gpytorch

    variational = gpytorch.variational
    batch = torch.Size([n_classes])

    class LatentFunctions(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            posterior = variational.CholeskyVariationalDistribution(len(chosen), batch_shape=batch)
            inducing = points[chosen].repeat(n_classes, 1, 1)
            super().__init__(
                variational.VariationalStrategy(self, inducing, posterior, jitter_val=_JITTER)
            )
            self.mean = gpytorch.means.ZeroMean(batch_shape=batch)
            shape = gpytorch.kernels.RBFKernel(ard_num_dims=points.shape[1], batch_shape=batch)
            self.kernel = gpytorch.kernels.ScaleKernel(shape, batch_shape=batch)

        def forward(self, points: Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(points), self.kernel(points))

    latent = LatentFunctions().to(points)
    # Standardised points are about sqrt(2 D) apart; length scales much below see no neighbours.
    spread = points.std(dim=0, correction=0)
    typical = torch.where(spread > 0, spread, 1.0) * math.sqrt(points.shape[1] / 2)
    latent.kernel.base_kernel.lengthscale = typical.expand(n_classes, 1, -1)
    return latent

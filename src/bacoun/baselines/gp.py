"""GP: one Gaussian process per class and a softmax, fitted by GPyTorch with inducing points.

The fitted model keeps plain tensors and predicts without GPyTorch, so it can be pickled.
"""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor, nn

from bacoun.baselines.networks import Baseline, Count, Run
from bacoun.engine.randomness import draw_seed
from bacoun.engine.threads import threads_for
from bacoun.engine.training import train

_JITTER = 1e-6  # added to the diagonal of kernel matrices, for repeated points
_LATENT_DRAWS = 8  # per row of a mini-batch, to estimate the likelihood
_MAX_JOINT_ROWS = 5000  # of which a Cholesky factor takes 0.2 GB and some seconds per class


@dataclass(kw_only=True, repr=False, eq=False)
class GP(Baseline):
    """Draws are softmaxes of K latent functions, which revert to their prior far from the data.

    Zero mean, and a squared exponential kernel with an output scale and length scales; both are
    learned for each class, together with inducing points initialized at data points.

    Settings that are not listed are those of `Baseline`.

    Parameters
    ----------
    n_inducing : int
        Inducing points per class, at most as many as there are rows.
    ard : bool
        Learn a length scale for each input. False: one for all, an isotropic kernel.
    n_iterations : int
        Steps of Adam.
    batch_size : int
        Rows in a mini-batch.
    learning_rate : float
        Step size of Adam.
    n_draws : int
        Number S of draws.

    Attributes
    ----------
    inducing_ : Tensor of shape (K, M, D)
        Inducing points.
    length_scale_ : Tensor of shape (K, 1, D), or (K, 1, 1) without `ard`
        Length scales of the kernels.
    output_scale_ : Tensor of shape (K, 1, 1)
        Prior variance of the latent functions.
    whitened_mean_, whitened_root_ : Tensor of shape (K, M) and (K, M, M)
        Posterior mean and Cholesky factor of the whitened latent values at the inducing points.
    elbo_ : list of float
        ELBO after each epoch, in nats.
    """

    n_inducing: Count = 100
    ard: bool = True
    n_iterations: Count = 1000
    batch_size: Count = 256
    learning_rate: float = 0.05
    n_draws: Count = 200

    def _check_settings(self) -> None:
        try:
            with warnings.catch_warnings():  # importing it warns about torch.jit
                warnings.simplefilter("ignore", DeprecationWarning)
                import gpytorch  # noqa: F401
        except ImportError as error:
            raise ImportError("GP needs GPyTorch: pip install 'bacoun[paper]'.") from error
        super()._check_settings()

    def _fit(self, points: Tensor, labels: Tensor, run: Run) -> None:
        points = points.flatten(1).double()  # kernel matrices are nearly singular
        n_points, n_classes, generator = len(points), len(self.classes_), run.generator
        chosen = torch.randperm(n_points, generator=generator)[: self.n_inducing]
        latent = _latent_functions(points, chosen, n_classes, self.ard)

        def negative_elbo(batch: Tensor, targets: Tensor) -> Tensor:
            posterior = latent(batch)  # independent over classes: mean and variance (K, n)
            noise = torch.randn(_LATENT_DRAWS, *posterior.mean.shape).to(batch)
            draws = posterior.mean + posterior.stddev * noise
            misfit = nn.functional.cross_entropy(draws, targets.expand(_LATENT_DRAWS, -1))
            return misfit + latent.variational_strategy.kl_divergence().sum() / n_points

        batches = -(-n_points // self.batch_size)
        with threads_for(n_classes * len(chosen) ** 2 * (len(chosen) + self.batch_size)):
            history = train(
                latent,
                negative_elbo,
                [points, labels],
                epochs=-(-self.n_iterations // batches),
                batch_size=self.batch_size,
                learning_rate=self.learning_rate,
                generator=generator,
                on_epoch=run.bar_for("latents"),
            )
        self.elbo_ = [-n_points * loss for loss in history.train]
        self._keep(latent)
        self.eps_ = torch.randn(self.n_draws, 1, n_classes, generator=generator).to(points)
        self.joint_seed_ = draw_seed(generator)

    def _keep(self, latent: Any) -> None:
        """Copy from GPyTorch's module what predictions need."""
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
            compute_mode="donot_use_mm_for_euclid_dist",  # exact for each pair
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
            return self._joint_latents(points.flatten(1).double()).softmax(dim=2)
        mean, spread = self._latent_moments(points)
        return (mean + spread * self.eps_).softmax(dim=2)

    def _joint_latents(self, points: Tensor) -> Tensor:
        """Latent values (S, N, K), drawn for all rows together."""
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
        return torch.stack(draws, dim=2)

    def predict_proba_samples(self, X: ArrayLike, joint: bool = False) -> np.ndarray:
        """Class probabilities (S, N, K) under each draw of the latent functions.

        Parameters
        ----------
        joint : bool
            False: each row is drawn from its own marginal posterior, with one random number per
            draw and class for all rows, so that draws are smooth functions of the inputs. True: the
            rows, at most 5000, are drawn jointly; the draws then depend on which rows X holds.
        """
        if not joint:
            return super().predict_proba_samples(X)
        check_is_fitted(self)
        table: np.ndarray = self._checked(X)
        if len(table) > _MAX_JOINT_ROWS:
            raise ValueError(
                f"joint=True takes at most {_MAX_JOINT_ROWS} rows, because it draws them jointly; "
                f"got {len(table)}. Pass fewer rows, or joint=False."
            )
        return self._samples(self._standardized(table), joint=True).cpu().numpy()


def _latent_functions(points: Tensor, chosen: Tensor, n_classes: int, ard: bool) -> Any:
    """GPyTorch's module: K processes with inducing points initialized at the chosen rows."""
    import gpytorch

    variational, batch = gpytorch.variational, torch.Size([n_classes])

    class LatentFunctions(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            posterior = variational.CholeskyVariationalDistribution(len(chosen), batch_shape=batch)
            inducing = points[chosen].repeat(n_classes, 1, 1)
            strategy = variational.VariationalStrategy
            super().__init__(strategy(self, inducing, posterior, jitter_val=_JITTER))
            self.mean = gpytorch.means.ZeroMean(batch_shape=batch)
            n_scales = points.shape[1] if ard else None
            shape = gpytorch.kernels.RBFKernel(ard_num_dims=n_scales, batch_shape=batch)
            self.kernel = gpytorch.kernels.ScaleKernel(shape, batch_shape=batch)

        def forward(self, points: Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(points), self.kernel(points))

    latent = LatentFunctions().to(points)
    # Standardized points are about sqrt(2 D) apart; with much smaller length scales, no two of them
    # would be correlated.
    deviation = points.std(dim=0, correction=0)
    typical = torch.where(deviation > 0, deviation, 1.0) * math.sqrt(points.shape[1] / 2)
    scales = typical if ard else typical.mean(dim=0, keepdim=True)
    latent.kernel.base_kernel.lengthscale = scales.expand(n_classes, 1, -1)
    return latent

"""DDU: the density of a network's features, by one Gaussian for each class.

Mukhoti et al. (2023), "Deep Deterministic Uncertainty: A New Simple Baseline".
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from bacoun.baselines.networks import Run
from bacoun.baselines.residual import ResidualClassifier

# Added to the diagonal of covariances, the first that is enough: classes with fewer rows than
# features have singular ones.
_JITTERS = (0.0, *(10.0**exponent for exponent in range(-12, 1)))


@dataclass(kw_only=True, repr=False, eq=False)
class DDU(ResidualClassifier):
    """A softmax for the classes, and the density of the features for what is unfamiliar.

    The features are those of a residual network that keeps distances. There is a single draw, so
    epistemic uncertainty is 0. The OOD score is minus the log density of the features.
    The settings are those of `ResidualClassifier`.

    Attributes
    ----------
    log_prior_ : Tensor of shape (K,)
        Log of the share of each class.
    center_, root_ : Tensor of shape (K, L) and (K, L, L)
        Mean of each class's features, and Cholesky factor of their covariance.
    jitter_ : float
        Added to the variances, as little as makes all covariances positive definite.
    """

    def _build(self, n_inputs: int) -> None:
        self._new_network(self._residual_network(n_inputs), self.width)

    def _learn(self, points: Tensor, labels: Tensor, run: Run) -> None:
        self._train_network(run, self._log_loss, points, labels)
        features, _ = self._features_and_logits(points)
        clouds = [features[labels == k] for k in range(len(self.classes_))]
        sizes = torch.tensor([len(cloud) for cloud in clouds]).to(clouds[0])
        self.log_prior_ = (sizes / sizes.sum()).log()
        self.center_ = torch.stack([cloud.mean(dim=0) for cloud in clouds])
        offsets = [cloud - center for cloud, center in zip(clouds, self.center_, strict=True)]
        covariances = torch.stack([each.T @ each / max(len(each) - 1, 1) for each in offsets])
        self.jitter_, self.root_ = jittered_cholesky(covariances)

    def _unfamiliarity(self, points: Tensor) -> Tensor:
        features, _ = self._features_and_logits(points)
        gaussians = MultivariateNormal(self.center_, scale_tril=self.root_, validate_args=False)
        log_likelihood: Tensor = gaussians.log_prob(features[:, None])
        return -(self.log_prior_ + log_likelihood).logsumexp(dim=1)


def jittered_cholesky(covariances: Tensor) -> tuple[float, Tensor]:
    """The least jitter that makes covariances (K, L, L) positive definite, and their factors.

    They must be so in single precision: smaller variances are rounding errors of the training.
    """
    eye = torch.eye(covariances.shape[-1]).to(covariances)
    for jitter in _JITTERS:
        roots, failed = torch.linalg.cholesky_ex(covariances + jitter * eye)
        _, rounded = torch.linalg.cholesky_ex((covariances + jitter * eye).float())
        if not (failed | rounded).any():
            return jitter, roots
    raise ValueError(
        f"the features must have finite covariances; a jitter of {_JITTERS[-1]} was not enough. "
        "Lower the learning rate."
    )

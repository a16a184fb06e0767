"""VOS: a network that learns to tell data from virtual outliers in its feature space.

Du et al. (2022), "VOS: Learning What You Don't Know by Virtual Outlier Synthesis".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from scipy.special import gammainccinv
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, normalize

from bacoun.baselines.networks import Count, Run, SingleNetwork
from bacoun.engine.training import mean_log_loss
from bacoun.features.networks import default_epochs, perceptron

_JITTER = 1e-4  # added to the features' variances, as in the paper's code


@dataclass(kw_only=True, repr=False, eq=False)
class VOS(SingleNetwork):
    """One network; in the later epochs a logistic learns its energy, low for data, high elsewhere.

    Virtual outliers are unlikely draws from one Gaussian for each class, fitted to the latest
    features of the class, with a common covariance. There is a single draw of the probabilities, so
    epistemic uncertainty is 0. The OOD score is the logistic's log-odds of outliers against data.

    Settings that are not listed are those of `SingleNetwork`.

    Parameters
    ----------
    hidden : sequence of int
        Widths of the dense layers; the last is the number L of features.
    queue_size : int
        Features of each class that the Gaussians are fitted to; smaller classes have fewer.
    n_candidates : int
        A virtual outlier is the least likely of so many draws from its class's Gaussian.
    outlier_weight : float
        Weight of the logistic's loss; that of the classes has weight 1.
    outlier_start : float
        Share of the epochs after which outliers are drawn.
    weight_decay : float
        Weight decay: half of it times the squared weights is added to the mean loss.

    Attributes
    ----------
    logistic_ : torch.nn.Linear
        From the negative energy of a point to the log-odds of data against outliers.
    """

    hidden: Sequence[int] = (64, 64, 64)
    queue_size: Count = 1000
    n_candidates: Count = 10_000
    outlier_weight: float = 0.1
    outlier_start: float = 0.4
    weight_decay: float = 5e-4

    def _check_settings(self) -> None:
        super()._check_settings()
        if not 0 <= self.outlier_start <= 1:
            raise ValueError(
                f"outlier_start must satisfy 0 <= outlier_start <= 1; got {self.outlier_start!r}."
            )

    def _build(self, n_inputs: int) -> None:
        body = perceptron(n_inputs, self.hidden, 0.0)
        self._new_network(body, [n_inputs, *self.hidden][-1])
        self.logistic_ = nn.Linear(1, 1).to(self.device)
        nn.init.ones_(self.logistic_.weight)
        nn.init.zeros_(self.logistic_.bias)

    def _learn(self, points: Tensor, labels: Tensor, run: Run) -> None:
        epochs = self.epochs or default_epochs(len(points), self.batch_size)
        before = round(self.outlier_start * epochs)
        both = nn.ModuleList([self.module_, self.logistic_])
        decay = {"l2": self.weight_decay * len(points)}
        data, loss = (points, labels), self._log_loss
        self._train(run, "network", self.module_, loss, *data, epochs=before, **decay)
        loss = self._loss_with_outliers(*data)
        self._train(run, "outliers", both, loss, *data, epochs=epochs - before, **decay)
        both.double()

    def _loss_with_outliers(self, points: Tensor, labels: Tensor) -> Callable[..., Tensor]:
        """The loss of a mini-batch, which also keeps the queue of features."""
        body, head = self.module_
        features, n_classes = body(points).detach(), len(self.classes_)
        queue = FeatureQueue([features[labels == k] for k in range(n_classes)], self.queue_size)

        def loss(batch: Tensor, targets: Tensor) -> Tensor:
            features = body(batch)
            logits = head(features)
            queue.push(features.detach(), targets)
            outliers = virtual_outliers(*queue.gaussians(), self.n_candidates)
            log_odds = self._log_odds(torch.cat([logits, head(outliers)]))
            is_data = (torch.arange(len(log_odds)) < len(batch)).to(log_odds)
            of_outliers = binary_cross_entropy_with_logits(log_odds, is_data)
            return mean_log_loss(logits, targets) + self.outlier_weight * of_outliers

        return loss

    def _log_odds(self, logits: Tensor) -> Tensor:
        """Log-odds (n,) of data against outliers, from the negative energy of logits (n, K)."""
        return self.logistic_(logits.logsumexp(dim=1, keepdim=True)).squeeze(1)

    @torch.no_grad()
    def _unfamiliarity(self, points: Tensor) -> Tensor:
        return -self._log_odds(self._features_and_logits(points)[1])


class FeatureQueue:
    """The latest features (n, L) of each class: `size`, or as many as there are at first."""

    def __init__(self, clouds: list[Tensor], size: int) -> None:
        self.clouds = [cloud[-size:] for cloud in clouds]

    def push(self, features: Tensor, labels: Tensor) -> None:
        """Add features (n, L) of the given classes (n,), and drop the oldest."""
        for k, cloud in enumerate(self.clouds):
            self.clouds[k] = torch.cat([cloud, features[labels == k]])[-len(cloud) :]

    def gaussians(self) -> tuple[Tensor, Tensor]:
        """Mean (K, L) of each class, and the Cholesky factor (L, L) of their common covariance."""
        centers = torch.stack([cloud.mean(dim=0) for cloud in self.clouds])
        pairs = zip(self.clouds, centers, strict=True)
        offsets = torch.cat([cloud - center for cloud, center in pairs]).double()
        covariance = offsets.T @ offsets / len(offsets)
        eye = torch.eye(len(covariance)).to(covariance)
        return centers, torch.linalg.cholesky(covariance + _JITTER * eye).to(centers)


def virtual_outliers(centers: Tensor, root: Tensor, n_candidates: int) -> Tensor:
    """For each class, the least likely of many draws from its Gaussian.

    The least likely draw has the largest of `n_candidates` radii, whose squares are chi-squared.
    That maximum is drawn directly, by its quantile function, at the cost of one draw. The classes
    have means (K, L) and one covariance, with Cholesky factor (L, L).
    """
    n_classes, n_features = centers.shape
    uniform = torch.rand(n_classes, 1, dtype=torch.float64)
    exceeded = -torch.expm1(uniform.log() / n_candidates)  # probability of a larger radius
    squared = 2 * gammainccinv(n_features / 2, exceeded.numpy())
    radius = torch.from_numpy(squared).sqrt().to(centers)
    directions = normalize(torch.randn(n_classes, n_features), dim=1).to(centers)
    return centers + radius * directions @ root.T

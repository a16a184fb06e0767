"""NatPN: a Dirichlet posterior for each point, with as much evidence as a flow finds near it.

Charpentier et al. (2022), "Natural Posterior Network".
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from scipy.special import gammaincinv
from torch import Tensor, nn
from torch.distributions import Dirichlet
from torch.nn.functional import softplus

from bacoun.baselines.networks import Count, Run, SingleNetwork
from bacoun.features.networks import perceptron

_LARGEST_LOG_EVIDENCE = 30.0  # in absolute value, so that a Dirichlet stays within numbers


@dataclass(kw_only=True, repr=False, eq=False)
class NatPN(SingleNetwork):
    """One network gives each point a Dirichlet: a flat prior, plus evidence for its classes.

    The evidence is the density of the point's latent position under a radial flow. Far from the
    data it vanishes, and predictions return to the prior. Probabilities and uncertainty are exact
    moments; only `predict_proba_samples` draws. The OOD score is minus the log evidence.

    Settings that are not listed are those of `SingleNetwork`. The `epochs` count once for the
    network, and once more for the flow, which is trained further at the end.

    Parameters
    ----------
    hidden : sequence of int
        Widths of the dense layers before the latent one.
    n_latent : int
        Dimension H of the latent space, which is batch-normalized.
    n_flow_layers : int
        Layers of the radial flow on the latent space.
    entropy_weight : float
        Weight of the Dirichlet's entropy, which the loss rewards.
    warmup_epochs : int
        Epochs in which the flow alone is trained, before all is trained together.
    n_draws : int
        Number S of draws.
    patience : int, optional
        Stop early once the loss of a held-out tenth of the points has not improved for this many
        epochs. None: train on all points for all epochs.

    Attributes
    ----------
    flow_ : RadialFlow
        Density of latent positions, the features of `module_`.
    """

    hidden: Sequence[int] = (64, 64, 64)
    n_latent: Count = 16
    n_flow_layers: Count = 8
    entropy_weight: float = 1e-5
    warmup_epochs: int = 3
    n_draws: Count = 200
    patience: int | None = 20

    def _check_settings(self) -> None:
        super()._check_settings()
        if self.batch_size < 3:
            raise ValueError(
                f"batch_size must be at least 3, for batch normalization; got {self.batch_size}."
            )

    def _build(self, n_inputs: int) -> None:
        layers = perceptron(n_inputs, self.hidden, 0.0)
        latent = nn.Linear([n_inputs, *self.hidden][-1], self.n_latent)
        encoder = nn.Sequential(*layers, latent, nn.BatchNorm1d(self.n_latent))
        self._new_network(encoder, self.n_latent)
        self.flow_ = RadialFlow(self.n_latent, self.n_flow_layers).to(self.device)

    def _learn(self, points: Tensor, labels: Tensor, run: Run) -> None:
        together = nn.ModuleList([self.module_, self.flow_])
        self._train_flow(run, "warm-up", self._encoded(points), epochs=self.warmup_epochs)
        history = self._train(
            run, "network", together, self._bayesian_loss, points, labels, patience=self.patience
        )
        latents, rows = self._encoded(points), history.held_out_rows
        is_held_out = torch.zeros(len(points), dtype=torch.bool).index_fill(0, rows, True)
        early = {"patience": self.patience, "held_out": [latents[is_held_out]]}
        self._train_flow(run, "flow", latents[~is_held_out], **(early if len(rows) else {}))
        together.double()
        # Quantiles of the draws, the same for all rows, so that draws are smooth in the inputs.
        shape = (self.n_draws, 1, len(self.classes_))
        self.levels_ = torch.rand(shape, generator=run.generator, dtype=torch.float64)

    @torch.no_grad()
    def _encoded(self, points: Tensor) -> Tensor:
        return self.module_[0](points)

    def _train_flow(self, run: Run, bar: str, latents: Tensor, **settings: Any) -> None:
        """Maximize the likelihood of latent positions (N, H), with the encoder as it is."""
        flow = self.flow_
        self._train(run, bar, flow, lambda batch: -flow.log_prob(batch).mean(), latents, **settings)

    def _bayesian_loss(self, batch: Tensor, targets: Tensor) -> Tensor:
        """Log loss, expected under the Dirichlet, minus a small reward for entropy."""
        latents = self.module_[0](batch)
        alpha, _ = self._dirichlet(latents, self.module_[1](latents))
        true = alpha.gather(1, targets[:, None]).squeeze(1)
        log_loss = alpha.sum(dim=1).digamma() - true.digamma()
        entropy = Dirichlet(alpha, validate_args=False).entropy()
        return (log_loss - self.entropy_weight * entropy).mean()

    def _log_evidence(self, latents: Tensor) -> Tensor:
        """Log of the number (n,) of observations that a point is worth."""
        return self.flow_.log_prob(latents) + self.n_latent / 2 * math.log(4 * math.pi)

    def _dirichlet(self, latents: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        """Its parameters (n, K): 1 each, plus the evidence for each class; and log evidence."""
        limit, log_evidence = _LARGEST_LOG_EVIDENCE, self._log_evidence(latents)
        evidence = log_evidence.double().clamp(-limit, limit).exp()
        return 1 + evidence[:, None] * logits.double().softmax(dim=1), log_evidence

    @torch.no_grad()
    def _posterior(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Parameters (n, K) of the Dirichlet, and log evidence (n,), of standardized points."""
        return self._dirichlet(*self._features_and_logits(points))

    def _moments(self, points: Tensor) -> tuple[Tensor, Tensor]:
        return dirichlet_moments(self._posterior(points)[0])

    def _samples(self, points: Tensor, joint: bool = False) -> Tensor:
        alpha, _ = self._posterior(points)
        gammas = torch.from_numpy(gammaincinv(alpha.cpu().numpy(), self.levels_.numpy()))
        return (gammas / gammas.sum(dim=2, keepdim=True)).to(self.device)

    def _unfamiliarity(self, points: Tensor) -> Tensor:
        return -self._posterior(points)[1]


def dirichlet_moments(alpha: Tensor) -> tuple[Tensor, Tensor]:
    """Mean (n, K) of Dirichlets with parameters (n, K), and mean entropy (n,) of their draws."""
    total = alpha.sum(dim=1, keepdim=True)
    mean = alpha / total
    return mean, (mean * ((total + 1).digamma() - (alpha + 1).digamma())).sum(dim=1)


class RadialFlow(nn.Module):
    """A standard normal density, contracted or expanded around one center after another."""

    def __init__(self, dimension: int, n_layers: int) -> None:
        super().__init__()
        limit = dimension**-0.5
        self.centers = nn.Parameter(torch.empty(n_layers, dimension).uniform_(-limit, limit))
        self.alphas = nn.Parameter(torch.empty(n_layers).uniform_(-limit, limit))
        self.betas = nn.Parameter(torch.empty(n_layers).uniform_(-limit, limit))

    def forward(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Image (n, H) of points (n, H), and log determinant (n,) of the Jacobian."""
        across, along = [], []
        alphas = softplus(self.alphas)
        betas = softplus(self.betas) - alphas  # above -alpha, where the map is invertible
        for center, alpha, beta in zip(self.centers, alphas, betas, strict=True):
            offset = points - center
            nearness = 1 / (alpha + offset.norm(dim=1))
            stretch = beta * nearness
            points = points + stretch[:, None] * offset
            across.append(stretch)
            along.append(stretch * alpha * nearness)
        # By how much each layer stretches distances, in H - 1 directions and along the radius.
        log_across, log_along = (torch.stack(each).log1p().sum(dim=0) for each in (across, along))
        return points, (points.shape[1] - 1) * log_across + log_along

    def log_prob(self, points: Tensor) -> Tensor:
        """Log density (n,) of points (n, H)."""
        latents, log_det = self(points)
        base = -(latents.square().sum(dim=1) + points.shape[1] * math.log(2 * math.pi)) / 2
        return base + log_det

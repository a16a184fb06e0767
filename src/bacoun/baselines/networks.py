"""Shared by the baselines: common settings, and classifiers of many networks or of one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Annotated, Any, Self, get_type_hints

import numpy as np
import torch
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted
from torch import Generator, Tensor, nn

from bacoun.base import CHUNK, BayesianClassifier, Evaluation, evaluation_of
from bacoun.engine.progress import BarFor, progress_bars
from bacoun.engine.randomness import RandomState, as_generator, seeded
from bacoun.engine.threads import threads_for
from bacoun.engine.training import History, mean_log_loss, train
from bacoun.features.networks import KINDS as BODIES
from bacoun.features.networks import default_epochs
from bacoun.uncertainty import Uncertainty

# Types of settings that `fit` refuses unless they are positive whole numbers, or positive.
Count = Annotated[int, "at least 1"]
Positive = Annotated[float, "above 0"]
Network = Callable[[Tensor], Tensor]  # from points (n, D), or `_shared` of them, to logits (n, K)


@dataclass(frozen=True)
class Run:
    """What a fit gets beside the data."""

    generator: Generator
    bar_for: BarFor


@dataclass(kw_only=True, repr=False, eq=False)
class Baseline(BayesianClassifier):
    """What the baselines have in common: these settings, and the course of `fit`.

    Parameters
    ----------
    standardize : bool
        Scale each input, or each channel of images, to zero mean and unit variance.
    random_state : int, RandomState, Generator or None
        Seed of the fit. Global random streams are not touched.
    verbose : bool
        Show progress bars on stderr.
    device : str
        Torch device of the model, such as "cpu".
    """

    standardize: bool = True
    random_state: RandomState = None
    verbose: bool = False
    device: str = "cpu"

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Fit to X (N, D), finite numbers, and y (N,), labels of at least two classes."""
        self._check_settings()
        points, labels = self._validated(X, y)
        with progress_bars(self.verbose) as bar_for:
            self._fit(points, labels, Run(as_generator(self.random_state), bar_for))
        return self

    def _check_settings(self) -> None:
        for name, kind in get_type_hints(type(self), include_extras=True).items():
            value: Any = getattr(self, name, None)
            is_whole = isinstance(value, Integral) and not isinstance(value, bool)
            is_count = kind == Count or (kind == Count | None and value is not None)
            if is_count and not (is_whole and value >= 1):
                raise ValueError(f"{name} must be a positive whole number; got {value!r}.")
            if kind == Positive and not value > 0:
                raise ValueError(f"{name} must be positive; got {value!r}.")

    def _fit(self, points: Tensor, labels: Tensor, run: Run) -> None:
        """Fit to standardized points (N, D), or (N, C, H, W), and class indices (N,)."""
        raise NotImplementedError


@dataclass(kw_only=True, repr=False, eq=False)
class NetworkDraws(Baseline):
    """A classifier whose S draws are S networks.

    A subclass implements `_fit` and `_networks`. The outer loop is over networks and the inner one
    over chunks of rows, so a network can be built when needed and discarded; `predict_proba` and
    `uncertainty` need memory for (N, K) numbers, not (S, N, K).
    """

    def _check_settings(self) -> None:
        super()._check_settings()
        settings = self.get_params()
        body = settings.get("body", settings.get("network__body", "auto"))
        # Of a module, dropout layers and initial weights are unknown.
        if not isinstance(body, str) or body not in BODIES:
            raise ValueError(f"body must be one of {list(BODIES)}; got {body!r}.")

    def _networks(self) -> Iterator[Network]:
        """The S networks, always the same and in the same order."""
        raise NotImplementedError

    def _shared(self, points: Tensor) -> Tensor:
        """The layers that all networks share, evaluated once; here none."""
        return points

    def predict_proba(self, X: ArrayLike) -> np.ndarray:
        """Class probabilities (N, K): the mean over networks."""
        return self.evaluate(X).probabilities

    def predict_proba_samples(self, X: ArrayLike, joint: bool = False) -> np.ndarray:
        """Class probabilities (S, N, K) under each network, the same for all rows in any case."""
        return torch.stack(list(self._draws(X))).cpu().numpy()

    def uncertainty(self, X: ArrayLike) -> Uncertainty[np.ndarray]:
        """Total, aleatoric and epistemic uncertainty, each (N,), in nats."""
        answers = self.evaluate(X)
        return Uncertainty(answers.total, answers.aleatoric, answers.epistemic)

    def evaluate(self, X: ArrayLike) -> Evaluation[np.ndarray]:
        """Probabilities, uncertainty and OOD score of each row, in one pass."""
        n_draws, total, entropy = 0, torch.zeros(()), torch.zeros(())
        for probabilities in self._draws(X):
            n_draws += 1
            total = total + probabilities
            entropy = entropy + torch.special.entr(probabilities).sum(dim=1)
        answers = vars(evaluation_of(total / n_draws, entropy / n_draws))
        return Evaluation(**{k: None if v is None else v.cpu().numpy() for k, v in answers.items()})

    def _draws(self, X: ArrayLike) -> Iterator[Tensor]:
        """Class probabilities (N, K), float64, under each network in turn."""
        check_is_fitted(self)
        table: np.ndarray = self._checked(X)
        padding = np.repeat(table[-1:], -len(table) % CHUNK, axis=0)
        chunks = self._standardized(np.concatenate([table, padding])).split(CHUNK)
        without_gradient = torch.no_grad()
        prepared = list(map(without_gradient(self._shared), chunks))
        for network in self._networks():
            logits = torch.cat(list(map(without_gradient(network), prepared)))
            yield logits[: len(table)].double().softmax(dim=1)


@dataclass(kw_only=True, repr=False, eq=False)
class SingleNetwork(Baseline):
    """A classifier with one network for rows of numbers, and an OOD score of its own.

    A subclass builds the network in `_build`, trains it in `_learn`, and implements
    `_unfamiliarity`. Images are flattened. Unless `_samples` says otherwise there is a single draw,
    the softmax, so epistemic uncertainty is 0 and aleatoric uncertainty the softmax's entropy.

    Settings that are not listed are those of `Baseline`.

    Parameters
    ----------
    epochs : int, optional
        Passes over the data, at most. None: about 3000 steps, in 10 to 500 epochs.
    batch_size : int
        Rows in a mini-batch.
    learning_rate : float
        Step size of Adam.

    Attributes
    ----------
    module_ : torch.nn.Sequential
        The body, from points (n, D) to features (n, L), and the linear classifier.
    """

    epochs: Count | None = None
    batch_size: Count = 64
    learning_rate: float = 1e-3

    def _fit(self, points: Tensor, labels: Tensor, run: Run) -> None:
        points = points.flatten(1)
        with seeded(run.generator):
            self._build(points.shape[1])
        self._learn(points, labels, run)

    def _build(self, n_inputs: int) -> None:
        """Call `_new_network`, within `seeded`."""
        raise NotImplementedError

    def _learn(self, points: Tensor, labels: Tensor, run: Run) -> None:
        """Train on points (N, D) and labels (N,), and turn to double precision."""
        raise NotImplementedError

    def _new_network(self, body: nn.Module, n_features: int, bias: bool = True) -> None:
        """Set `module_`: the body, from points (n, D) to features (n, L), and a linear head."""
        head = nn.Linear(n_features, len(self.classes_), bias=bias)
        self.module_ = nn.Sequential(body, head).to(self.device)

    def _train(
        self,
        run: Run,
        bar: str,
        module: nn.Module,
        loss: Callable[..., Tensor],
        *data: Tensor,
        **settings: Any,
    ) -> History:
        """Call `train` with the settings of this classifier, unless others are given."""
        own: dict[str, Any] = {
            "epochs": self.epochs or default_epochs(len(data[0]), self.batch_size),
            "batch_size": self.batch_size,
            "learning_rate": self.learning_rate,
            "generator": run.generator,
            "on_epoch": run.bar_for(bar),
        }
        n_weights = sum(weight.numel() for weight in module.parameters())
        with threads_for(self.batch_size * n_weights):
            return train(module, loss, data, **own | settings)

    def _log_loss(self, batch: Tensor, targets: Tensor) -> Tensor:
        return mean_log_loss(self.module_(batch), targets)

    @torch.no_grad()
    def _features_and_logits(self, points: Tensor) -> tuple[Tensor, Tensor]:
        """Features (n, L) and logits (n, K); double, as densities magnify rounding errors."""
        body, head = self.module_
        features = body(points.flatten(1).double())
        return features, head(features)

    def _samples(self, points: Tensor, joint: bool = False) -> Tensor:
        return self._features_and_logits(points)[1].softmax(dim=1)[None]

    def _unfamiliarity(self, points: Tensor) -> Tensor:
        """OOD score (n,) of standardized points."""
        raise NotImplementedError

    def ood_score(self, X: ArrayLike) -> np.ndarray:
        """How unfamiliar (N,) each row is, by the method's own score; larger is less familiar."""
        (score,) = self._score(X, lambda points: (self._unfamiliarity(points),))
        return score

    def _evaluation(self, points: Tensor) -> Evaluation[Tensor]:
        score = torch.cat([self._unfamiliarity(chunk) for chunk in points.split(CHUNK)])
        return replace(super()._evaluation(points), ood_score=score)

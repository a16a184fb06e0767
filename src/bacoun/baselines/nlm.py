"""NLM, the neural linear model: BaCOUn without boundary points."""

import os
from typing import Self

from torch import nn

from bacoun.classifier import BaCOUnClassifier
from bacoun.engine.randomness import RandomState
from bacoun.protocols import FeatureMap, LastLayer


class NLM(BaCOUnClassifier):
    """A Bayesian linear classifier on a network's last hidden layer, without boundary points.

    Settings that are not listed are those of `BaCOUnClassifier`.

    Parameters
    ----------
    features : "learned", torch.nn.Module or FeatureMap
        The network that learns the features. A module becomes the network's body.
    posterior : "hmc", "nuts", "mean-field", "laplace" or LastLayer
        Inference of the posterior over linear classifiers on the frozen features.
    """

    def __init__(
        self,
        *,
        features: str | nn.Module | FeatureMap = "learned",
        posterior: str | LastLayer = "hmc",
        standardize: bool = True,
        random_state: RandomState = None,
        verbose: bool = False,
        device: str = "cpu",
    ) -> None:
        super().__init__(
            boundary=None,
            features=features,
            posterior=posterior,
            ood_prior=0.0,
            standardize=standardize,
            random_state=random_state,
            verbose=verbose,
            device=device,
        )

    @classmethod
    def load(
        cls, path: str | os.PathLike[str], *, body: nn.Module | None = None, device: str = "cpu"
    ) -> Self:
        """Read a model that `save` wrote, as `BaCOUnClassifier.load` does."""
        saved = BaCOUnClassifier.load(path, body=body, device=device)
        if saved.boundary_ is not None:
            raise ValueError(
                f"'{path}' must hold a model without a boundary to be an NLM; it has one. "
                "Use BaCOUnClassifier.load."
            )
        model = cls()
        model.__dict__.update(vars(saved))
        return model

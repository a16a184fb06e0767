"""Total predictive entropy = aleatoric + epistemic, the paper's appendix C."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import pandas as pd
import torch
from torch import Tensor

Array = TypeVar("Array", Tensor, np.ndarray)


@dataclass(frozen=True)
class Uncertainty(Generic[Array]):
    """How uncertain a classifier is about each point, and why; in nats.

    Attributes
    ----------
    total : (N,)
        Entropy of the mean prediction, between 0 and log K.
    aleatoric : (N,)
        Mean entropy of the individual draws: the classes overlap here.
    epistemic : (N,)
        The rest, the mutual information: draws disagree where training data is missing.
    model, ood : (N,) or None
        Epistemic uncertainty in two parts, if requested: due to the last layer's weights, such as
        where the decision boundary runs, and due to the point being possibly out-of-distribution.
    """

    total: Array
    aleatoric: Array
    epistemic: Array
    model: Array | None = None
    ood: Array | None = None

    def parts(self) -> dict[str, Array]:
        """The parts that are not None, by name."""
        return {name: part for name, part in vars(self).items() if part is not None}

    def to_frame(self, index: Iterable[object] | None = None) -> pd.DataFrame:
        """A DataFrame with a column for each part, and `index` (N,) as its row labels."""
        columns = {name: np.asarray(part) for name, part in self.parts().items()}
        return pd.DataFrame(columns, index=None if index is None else pd.Index(list(index)))


def decompose(probabilities: Tensor) -> Uncertainty[Tensor]:
    """Split predictive entropy into aleatoric and epistemic uncertainty.

    Parameters
    ----------
    probabilities : Tensor of shape (n_draws, n_points, n_classes)
        Class probabilities under each posterior draw.

    Returns
    -------
    Uncertainty
        `total`, `aleatoric`, `epistemic`, each of shape (n_points,), in nats, float64.

    Examples
    --------
    >>> decompose(torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])).epistemic
    tensor([0.6931], dtype=torch.float64)
    """
    if probabilities.ndim != 3:
        raise ValueError(
            "probabilities must be (n_draws, n_points, n_classes); got shape "
            f"{tuple(probabilities.shape)}."
        )
    entropy = torch.special.entr(probabilities).sum(dim=2).mean(dim=0, dtype=torch.float64)
    return from_moments(probabilities.mean(dim=0, dtype=torch.float64), entropy)


def from_moments(
    mean: Tensor, mean_entropy: Tensor, model: Tensor | None = None
) -> Uncertainty[Tensor]:
    """Split the entropy of mean probabilities (N, K), given mean entropies (N,) over draws.

    With `model` (N,), the part of epistemic uncertainty due to the weights, the rest is `ood`.
    """
    # Rounding must not break total <= log K, nor 0 <= aleatoric <= total (Jensen).
    total = torch.special.entr(mean).sum(dim=1).clamp(0, math.log(mean.shape[1]))
    aleatoric = torch.minimum(mean_entropy.clamp(min=0), total)
    parts = {"total": total, "aleatoric": aleatoric, "epistemic": total - aleatoric}
    if model is not None:
        model = torch.minimum(model.clamp(min=0), parts["epistemic"])
        parts |= {"model": model, "ood": parts["epistemic"] - model}
    return Uncertainty(**parts)

"""Scorers of uncertainty for scikit-learn's searches and cross-validation: greater is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from bacoun.uncertainty import aurc, auroc

_PARTS = ("total", "aleatoric", "epistemic")


@dataclass(frozen=True, repr=False)
class _OODScorer:
    outside: Any
    part: str

    def __call__(self, estimator: Any, X: ArrayLike, y: ArrayLike | None = None) -> float:
        inside, outside = (getattr(estimator.uncertainty(x), self.part) for x in (X, self.outside))
        return auroc(inside, outside)

    def __repr__(self) -> str:
        return f"ood_auroc_scorer(<{len(self.outside)} points>, part={self.part!r})"


def ood_auroc_scorer(
    outside: ArrayLike, part: Literal["total", "aleatoric", "epistemic"] = "epistemic"
) -> _OODScorer:
    """A scorer: how well an uncertainty tells the points it is given from those `outside`.

    Parameters
    ----------
    outside : table of shape (M, D)
        Points unlike the training set.
    part : {"epistemic", "total", "aleatoric"}
        The uncertainty to judge.

    Returns
    -------
    callable
        Takes (estimator, X, y) and gives the area under the ROC curve; y is not used. For
        `GridSearchCV(model, grid, scoring=ood_auroc_scorer(outside))` and the like.
    """
    if part not in _PARTS:
        raise ValueError(f"part must be one of {', '.join(_PARTS)}; got {part!r}.")
    if not hasattr(outside, "__len__"):
        outside = np.asarray(outside)
    return _OODScorer(outside, part)


@dataclass(frozen=True, repr=False)
class _AURCScorer:
    def __call__(self, estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
        right = estimator.predict(X) == np.asarray(y)
        return -aurc(estimator.uncertainty(X).total, right)

    def __repr__(self) -> str:
        return "aurc_scorer"


aurc_scorer = _AURCScorer()
"""A scorer: minus the area under the risk-coverage curve, by total uncertainty."""

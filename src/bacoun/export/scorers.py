"""Uncertainty scorers for scikit-learn's model selection: greater is better."""

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
        return auroc(*(getattr(estimator.uncertainty(x), self.part) for x in (X, self.outside)))

    def __repr__(self) -> str:
        return f"ood_auroc_scorer(<{len(self.outside)} points>, part={self.part!r})"


def ood_auroc_scorer(
    outside: ArrayLike, part: Literal["total", "aleatoric", "epistemic"] = "epistemic"
) -> _OODScorer:
    """A scorer: AUROC of detecting the points `outside` among the evaluated ones.

    Parameters
    ----------
    outside : table of shape (M, D)
        Out-of-distribution points.
    part : {"epistemic", "total", "aleatoric"}
        The uncertainty to detect them by.

    Returns
    -------
    callable
        Takes (estimator, X, y); y is not used. Pass it as `scoring`, for instance
        `GridSearchCV(model, grid, scoring=ood_auroc_scorer(outside))`.
    """
    if part not in _PARTS:
        raise ValueError(f"part must be one of {', '.join(_PARTS)}; got {part!r}.")
    return _OODScorer(outside if hasattr(outside, "__len__") else np.asarray(outside), part)


def aurc_scorer(estimator: Any, X: ArrayLike, y: ArrayLike) -> float:
    """A scorer: negative area under the risk-coverage curve of the total uncertainty.

    Pass it as `scoring`. The `estimator` is fitted, `X` (N, D) are points, and `y` (N,) labels.
    """
    return -aurc(estimator.uncertainty(X).total, estimator.predict(X) == np.asarray(y))

"""UncertaintyDisplay: a fitted classifier over a plane, in the manner of scikit-learn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bacoun.uncertainty import Uncertainty

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PARTS = ("total", "aleatoric", "epistemic")
_OUTSIDE = "#d9d9d9"


class UncertaintyDisplay:
    """Decision regions, total, aleatoric and epistemic uncertainty over a plane.

    Build it with `from_estimator`; draw it again with `plot`.

    Parameters
    ----------
    x, y : ndarray of shape (n,)
        Grid lines of the plane.
    regions : ndarray of shape (n, n)
        Index of the most likely class at each crossing, K where the network says out of
        distribution.
    uncertainty : Uncertainty of arrays of shape (n, n)
    class_names : list of str

    Attributes
    ----------
    figure_, axes_
        Set by `plot`.
    """

    def __init__(
        self,
        *,
        x: np.ndarray,
        y: np.ndarray,
        regions: np.ndarray,
        uncertainty: Uncertainty[np.ndarray],
        class_names: list[str],
        feature_names: tuple[str, str] = ("", ""),
    ) -> None:
        self.x = x
        self.y = y
        self.regions = regions
        self.uncertainty = uncertainty
        self.class_names = class_names
        self.feature_names = feature_names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike | None = None,
        *,
        grid_resolution: int = 100,
        margin: float = 0.6,
        axes: Any = None,
        title: str | None = None,
    ) -> Self:
        """Evaluate a classifier with two inputs around the data, and plot it with the data on top.

        Parameters
        ----------
        estimator
            Fitted, with `uncertainty`. Regions are grey where `ood_probability` is above one half,
            or, without doubt, where `region_proba` has the edge as its winner.
        margin : float
            How far the plane reaches beyond the data, as a share of its width.
        axes : sequence of four matplotlib axes, optional
        """
        names = [str(name) for name in getattr(X, "columns", ["", ""])]
        points = np.asarray(X, dtype=float)
        if points.ndim != 2 or points.shape[1] != 2:
            raise ValueError(
                f"X must have 2 columns to be drawn on a plane; got shape {points.shape}. "
                "Reduce it first, for instance with PCA, and fit on that."
            )
        low, high = points.min(axis=0), points.max(axis=0)
        reach = margin * np.where(high > low, high - low, 1.0)
        gx, gy = (
            np.linspace(a, b, grid_resolution)
            for a, b in zip(low - reach, high + reach, strict=True)
        )
        grid: Any = np.stack(np.meshgrid(gx, gy), axis=-1).reshape(-1, 2)
        if hasattr(X, "columns"):
            import pandas as pd

            grid = pd.DataFrame(grid, columns=X.columns)
        square = (grid_resolution, grid_resolution)
        uncertainty = estimator.uncertainty(grid)
        display = cls(
            x=gx,
            y=gy,
            regions=_regions(estimator, grid).reshape(square),
            uncertainty=Uncertainty(*(getattr(uncertainty, p).reshape(square) for p in _PARTS)),
            class_names=[str(label) for label in estimator.classes_],
            feature_names=(names[0], names[1]),
        )
        labels = None if y is None else np.searchsorted(estimator.classes_, np.asarray(y))
        return display.plot(points, labels, axes=axes, title=title)

    def plot(
        self,
        points: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        *,
        axes: Any = None,
        title: str | None = None,
    ) -> Self:
        """Draw the four panels; the three uncertainties share one colour scale, 0 to log K."""
        import matplotlib.pyplot as plt
        from matplotlib.colors import ListedColormap

        if axes is None:
            _, axes = plt.subplots(
                1, 4, figsize=(15, 3.9), sharex=True, sharey=True, layout="constrained"
            )
        self.axes_ = np.asarray(axes).ravel()
        self.figure_: Figure = self.axes_[0].figure
        n_classes = len(self.class_names)
        colors: list[Any] = [plt.get_cmap("tab10")(i % 10) for i in range(n_classes)]
        first: Axes = self.axes_[0]
        first.pcolormesh(
            self.x,
            self.y,
            self.regions,
            cmap=ListedColormap([*colors, _OUTSIDE]),
            vmin=-0.5,
            vmax=n_classes + 0.5,
            alpha=0.45,
            rasterized=True,
        )
        first.set_title("decision regions (grey: out of distribution)", fontsize=9)
        for axis, part in zip(self.axes_[1:], _PARTS, strict=True):
            image = axis.pcolormesh(
                self.x,
                self.y,
                getattr(self.uncertainty, part),
                cmap="magma",
                vmin=0,
                vmax=np.log(n_classes),
                rasterized=True,
            )
            axis.set_title(f"{part} uncertainty", fontsize=9)
        self.figure_.colorbar(image, ax=list(self.axes_[1:]), label="nats (0 to log K)", pad=0.01)
        if points is not None:
            for k, axis in enumerate(self.axes_):
                self._scatter(axis, points, labels, colors, faint=k > 0)
        first.set_xlabel(self.feature_names[0])
        first.set_ylabel(title or self.feature_names[1])
        return self

    def _scatter(
        self,
        axis: Axes,
        points: np.ndarray,
        labels: np.ndarray | None,
        colors: list[Any],
        faint: bool,
    ) -> None:
        if labels is None or faint:
            axis.scatter(
                points[:, 0],
                points[:, 1],
                s=1.5,
                color="white" if faint else "black",
                alpha=0.35,
                lw=0,
            )
            return
        for k, name in enumerate(self.class_names):
            x, y = points[labels == k].T
            axis.scatter(x, y, s=4, color=colors[k], label=name, lw=0)
        if len(self.class_names) <= 10:
            axis.legend(fontsize=7, loc="upper right", markerscale=2, framealpha=0.9)


def _regions(estimator: Any, grid: Any) -> np.ndarray:
    """Index of the class that wins at each point (n,); K where the point is held for unknown."""
    if getattr(estimator, "doubt_", None) is not None:
        winners: np.ndarray = estimator.predict_proba(grid).argmax(axis=1)
        return np.where(estimator.ood_probability(grid) > 0.5, len(estimator.classes_), winners)
    try:
        probabilities = estimator.region_proba(grid)
    except (AttributeError, ValueError):  # no network that has learned an edge
        probabilities = estimator.predict_proba(grid)
    return np.asarray(probabilities.argmax(axis=1))

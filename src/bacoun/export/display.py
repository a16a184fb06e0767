"""UncertaintyDisplay: plot a fitted classifier over a plane, in the style of scikit-learn."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from bacoun.classifier import BaCOUnClassifier
from bacoun.uncertainty import Uncertainty

_PARTS = ("total", "aleatoric", "epistemic")
_GREY = "#d9d9d9"


@dataclass(kw_only=True, repr=False, eq=False)
class UncertaintyDisplay:
    """Decision regions, total, aleatoric and epistemic uncertainty over a plane.

    Create it with `from_estimator`; draw it again with `plot`.

    Parameters
    ----------
    x, y : ndarray of shape (n,)
        Coordinates of the grid.
    regions : ndarray of shape (n, n)
        Index of the most likely class at each grid point, K if it is out-of-distribution.
    uncertainty : Uncertainty of arrays of shape (n, n)
        Uncertainty at each grid point, in nats.
    class_names : list of str
        Names of the K classes, for the legend.
    feature_names : tuple of str
        Labels of the two axes.

    Attributes
    ----------
    figure_, axes_ : matplotlib Figure and ndarray of 4 Axes
        Set by `plot`.
    """

    x: np.ndarray
    y: np.ndarray
    regions: np.ndarray
    uncertainty: Uncertainty[np.ndarray]
    class_names: list[str]
    feature_names: tuple[str, str] = ("", "")

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
        """Evaluate a classifier with two inputs on a grid around the data, and plot it.

        Parameters
        ----------
        estimator : classifier
            Fitted, with a method `uncertainty`. Regions are grey where `ood_probability` is above
            one half or, for a classifier without doubt, where the boundary class wins.
        X : table of shape (N, 2)
            Points to draw; the names of a DataFrame's columns label the axes.
        y : array of shape (N,), optional
            Labels, to color the points.
        grid_resolution : int
            Number of grid points along each axis.
        margin : float
            How far the plane extends beyond the data, as a fraction of its width.
        axes : sequence of 4 matplotlib Axes, optional
            Where to draw. None: a new figure.
        title : str, optional
            Label of the vertical axis, in place of the column name.
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
        gx, gy = np.linspace(low - reach, high + reach, grid_resolution, axis=1)
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
        """Draw the four panels; the three uncertainties share one color scale, 0 to log K.

        Parameters
        ----------
        points, labels : ndarray of shape (N, 2) and (N,), optional
            Points to draw on top, and their class indices, to color them.
        axes : sequence of 4 matplotlib Axes, optional
            Where to draw. None: a new figure.
        title : str, optional
            Label of the vertical axis, in place of the column name.
        """
        import matplotlib.pyplot as plt
        from matplotlib.colors import ListedColormap

        if axes is None:
            options: dict[str, Any] = {"sharex": True, "sharey": True, "layout": "constrained"}
            _, axes = plt.subplots(1, 4, figsize=(15, 3.9), **options)
        self.axes_ = np.asarray(axes).ravel()
        self.figure_ = self.axes_[0].figure
        n_classes = len(self.class_names)
        colors: list[Any] = [plt.get_cmap("tab10")(i % 10) for i in range(n_classes)]
        first, *others = self.axes_
        regions = {"cmap": ListedColormap([*colors, _GREY]), "vmin": -0.5, "vmax": n_classes + 0.5}
        first.pcolormesh(self.x, self.y, self.regions, alpha=0.45, rasterized=True, **regions)
        first.set_title("decision regions (grey: out of distribution)", fontsize=9)
        scale = {"cmap": "magma", "vmin": 0, "vmax": np.log(n_classes)}
        for axis, part in zip(others, _PARTS, strict=True):
            values = getattr(self.uncertainty, part)
            image = axis.pcolormesh(self.x, self.y, values, rasterized=True, **scale)
            axis.set_title(f"{part} uncertainty", fontsize=9)
        self.figure_.colorbar(image, ax=others, label="nats (0 to log K)", pad=0.01)
        if points is not None:
            self._draw_points(points, labels, colors)
        first.set_xlabel(self.feature_names[0])
        first.set_ylabel(title or self.feature_names[1])
        return self

    def _draw_points(
        self, points: np.ndarray, labels: np.ndarray | None, colors: list[Any]
    ) -> None:
        """Colored by class on the regions, faint on the uncertainties."""
        first, *others = self.axes_
        for axis in others if labels is not None else self.axes_:
            color = "black" if axis is first else "white"
            axis.scatter(*points.T, s=1.5, color=color, alpha=0.35, lw=0)
        if labels is None:
            return
        for k, name in enumerate(self.class_names):
            first.scatter(*points[labels == k].T, s=4, color=colors[k], label=name, lw=0)
        if len(self.class_names) <= 10:
            first.legend(fontsize=7, loc="upper right", markerscale=2, framealpha=0.9)


def _regions(estimator: Any, grid: Any) -> np.ndarray:
    """Index (n,) of the most likely class, K where the point is probably out-of-distribution."""
    if isinstance(estimator, BaCOUnClassifier) and estimator.doubt_ is not None:
        winners: np.ndarray = estimator.predict_proba(grid).argmax(axis=1)
        return np.where(estimator.ood_probability(grid) > 0.5, len(estimator.classes_), winners)
    try:
        probabilities = estimator.region_proba(grid)
    except (AttributeError, ValueError):  # the network has not learned a boundary class
        probabilities = estimator.predict_proba(grid)
    return np.asarray(probabilities.argmax(axis=1))

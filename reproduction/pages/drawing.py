"""What the figures share: axes, maps of the plane and legends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from reproduction.results import Record
from reproduction.schema import Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

First = dict[str, Record]
"""The record of the first seed of each method."""

Draw = Callable[[Experiment, First, list[Record]], "Figure | None"]
"""Draws a figure from the records of the first seed and of all seeds; None if they lack data."""

CLASS_COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44")
PART_COLORS = {"aleatoric": "#ee8866", "epistemic": "#332288"}


def new_figure(width: float, height: float) -> Figure:
    """An empty figure; a `Figure` of its own, so that pyplot keeps none open."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def new_grid(rows: int, columns: int, size: float = 2.4) -> tuple[Figure, Any]:
    """A figure and its axes (rows, columns), all on the same scale."""
    figure = new_figure(size * columns + 0.8, size * rows + 0.4)
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)


def hide_frame(axis: Axes) -> None:
    """Draw no line above and to the right of a plot."""
    axis.spines[["top", "right"]].set_visible(False)


def extent_of(experiment: Experiment) -> tuple[float, float, float, float]:
    """Left, right, lower and upper end of an experiment's map."""
    (x0, y0), (x1, y1) = experiment.options["map"]["low"], experiment.options["map"]["high"]
    return x0, x1, y0, y1


def heat_map(
    axis: Axes, values: np.ndarray, extent: Any, low: float, high: float, cmap: str
) -> Any:
    """Values (n, n) over the plane as colors from `low` to `high`."""
    return axis.imshow(
        values.astype(float),
        origin="lower",
        extent=extent,
        vmin=low,
        vmax=high,
        cmap=cmap,
        aspect="auto",
        interpolation="bilinear",
    )


def training_points(axis: Axes, record: Record, color: str | None = None) -> None:
    """The training points of a record, in the colors of their classes or in one."""
    points, labels = record.arrays["points"].astype(float), record.arrays["labels"]
    each = [color or CLASS_COLORS[k] for k in np.searchsorted(np.unique(labels), labels)]
    axis.scatter(points[:, 0], points[:, 1], s=2, c=each, lw=0, alpha=0.7)


def n_classes_of(record: Record) -> int:
    """The number of classes among a record's training points."""
    return len(np.unique(record.arrays["labels"]))


def legend(figure: Figure, colors: Mapping[str, str], remark: str = "", ncols: int = 3) -> None:
    """A legend above the figure from labels and their colors, with a remark at its end."""
    from matplotlib.patches import Patch

    handles = [Patch(color=color, label=label) for label, color in colors.items()]
    if remark:
        handles.append(Patch(color="none", label=remark))
    figure.legend(handles=handles, loc="outside upper center", ncols=ncols, frameon=False)

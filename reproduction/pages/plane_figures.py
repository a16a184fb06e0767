"""Figures of the experiments in the plane, drawn from their records alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from reproduction.pages.drawing import (
    CLASS_COLORS,
    Draw,
    First,
    extent_of,
    heat_map,
    hide_frame,
    n_classes_of,
    new_figure,
    new_grid,
    training_points,
)
from reproduction.pages.names import PARTS, method_colors
from reproduction.results import Record
from reproduction.schema import Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_OUTSIDE = "#d9d9d9"
_DRAWN = ("BaCOUn", "BaCOUn, paper", "NLM", "GP")  # methods whose single draws are shown


def _classes(axis: Axes, winners: np.ndarray, extent: Any, n_classes: int) -> None:
    from matplotlib.colors import ListedColormap

    colors = ListedColormap([*CLASS_COLORS[:n_classes], _OUTSIDE])
    axis.imshow(
        winners,
        origin="lower",
        extent=extent,
        vmin=-0.5,
        vmax=n_classes + 0.5,
        cmap=colors,
        alpha=0.45,
        aspect="auto",
        interpolation="nearest",
    )


def decomposition(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """A row for each method: regions, total, aleatoric, epistemic."""
    figure, axes = new_grid(len(first), 4, size=2.0)
    extent = extent_of(experiment)
    for row, (method, record) in zip(axes, first.items(), strict=True):
        k = n_classes_of(record)
        _classes(row[0], record.arrays["map winners"], extent, k)
        training_points(row[0], record)
        row[0].set_ylabel(method)
        for axis, part in zip(row[1:], PARTS, strict=True):
            image = heat_map(axis, record.arrays[f"map {part}"], extent, 0, np.log(k), "magma")
        figure.colorbar(image, ax=list(row[1:]), label="nats, 0 to log K", pad=0.01)
    for axis, title in zip(axes[0], ("regions (gray: OOD)", *PARTS), strict=True):
        axis.set_title(title)
    return figure


def boundaries(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """What networks learn: the classes alone, or the classes and the boundary of the data."""
    shown = [m for m in ("NLM", "BaCOUn, paper", "BaCOUn") if m in first] or list(first)[:3]
    figure, axes = new_grid(1, len(shown), size=3.0)
    for axis, method in zip(axes[0], shown, strict=True):
        record = first[method]
        k = n_classes_of(record)
        _classes(axis, record.arrays["map winners"], extent_of(experiment), k)
        training_points(axis, record)
        axis.set_title(f"{method}: {'K' if method == 'NLM' else 'K + 1'} classes")
    figure.supxlabel("gray: out of distribution", fontsize=8)
    return figure


def total(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """Total uncertainty of all methods on one scale."""
    columns = 4
    figure, axes = new_grid(-(-len(first) // columns), columns)
    extent = extent_of(experiment)
    for axis in axes.flat[len(first) :]:
        axis.set_visible(False)
    for axis, (method, record) in zip(axes.flat, first.items(), strict=False):
        top = np.log(n_classes_of(record))
        image = heat_map(axis, record.arrays["map total"], extent, 0, top, "magma")
        training_points(axis, record, "white")
        axis.set_title(method)
    figure.colorbar(image, ax=axes.ravel().tolist(), label="total uncertainty, nats", pad=0.01)
    return figure


def draws(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """Decision boundaries of single posterior draws."""
    shown = [method for method in _DRAWN if method in first] or list(first)[:4]
    figure, axes = new_grid(1, len(shown), size=3.0)
    x0, x1, y0, y1 = extent_of(experiment)
    for axis, method in zip(axes[0], shown, strict=True):
        record = first[method]
        stored = record.arrays["map draws"]
        x, y = np.linspace(x0, x1, stored.shape[2]), np.linspace(y0, y1, stored.shape[1])
        training_points(axis, record)
        for draw in stored:
            for k in range(n_classes_of(record)):
                inside = (draw == k).astype(float)
                if 0 < inside.mean() < 1:
                    axis.contour(x, y, inside, [0.5], colors="black", linewidths=0.4, alpha=0.5)
        axis.set_title(f"{method}: {len(stored)} draws")
    return figure


def rays(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """Epistemic uncertainty from the edge of the data outwards: mean and smallest over rays."""
    figure = new_figure(9, 3.6)
    left, right = figure.subplots(1, 2, sharey=True)
    distances = np.linspace(1, 3, 9)
    for method, color in method_colors(first).items():
        each = [r.arrays["rays"].astype(float) for r in records if r.method == method]
        stacked = np.stack(each)  # (seeds, distances, rays)
        left.plot(distances, stacked.mean(axis=(0, 2)), color=color, label=method)
        right.plot(distances, stacked.min(axis=2).mean(axis=0), color=color)
    left.set_ylabel("epistemic uncertainty, nats")
    left.set_title("mean over 200 rays")
    right.set_title("the ray on which it is smallest")
    for axis in (left, right):
        axis.set_xlabel("distance from the centre, in radii of the data")
        hide_frame(axis)
    figure.legend(loc="outside right center", frameon=False)
    return figure


def pathology(classifier: str) -> Draw:
    """The figure of one classifier of data against what lies beyond it, by features."""

    def draw(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
        """p(out of distribution) from the features; a row of NLM, and one of each BaCOUn."""
        shapes = [m.removeprefix("NLM, ") for m in first if m.startswith("NLM, ")]
        kinds = [
            kind
            for kind in ("NLM", "BaCOUn, paper", "BaCOUn")
            if all(f"{kind}, {shape}" in first for shape in shapes)
        ]
        if not shapes or not kinds:
            return None
        figure, axes = new_grid(len(kinds), len(shapes))
        for row, kind in zip(axes, kinds, strict=True):
            for axis, shape in zip(row, shapes, strict=True):
                record = first[f"{kind}, {shape}"]
                image = heat_map(
                    axis,
                    record.arrays[f"map {classifier}"],
                    extent_of(experiment),
                    0,
                    1,
                    "coolwarm",
                )
                training_points(axis, record, "black")
                share = record.numbers[classifier]["edge"]
                axis.set_title(f"{record.method}\nthe shell told apart: {share:.0%}", fontsize=8)
        label = f"p(out of distribution) by {classifier} on the features"
        figure.colorbar(image, ax=axes.ravel().tolist(), label=label, pad=0.01)
        return figure

    return draw


def outlier_flow(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """The data with its outliers, the flow's boundary, and its log density."""
    record = first.get("Flow")
    if record is None:
        return None
    points, outlier = record.arrays["points"].astype(float), record.arrays["is outlier"]
    figure, axes = new_grid(1, 3, size=3.2)
    left, middle, right = axes[0]
    left.scatter(*points[~outlier].T, s=1, color="#4477aa", label="moons")
    left.scatter(*points[outlier].T, s=5, color="#ee6677", label="planted outliers")
    left.legend(fontsize=7, loc="lower left", markerscale=2)
    left.set_title("data with outliers")
    middle.scatter(*points[~outlier].T, s=1, color="#bbbbbb")
    middle.scatter(*points[outlier].T, s=5, color="#ee6677")
    middle.scatter(*record.arrays["edge"].astype(float).T, s=2, color="#aa3377")
    middle.set_title("the same flow's boundary, radius 3")
    log_density = record.arrays["map log density"].astype(float)
    image = heat_map(right, log_density, extent_of(experiment), -20, log_density.max(), "viridis")
    right.set_title("log density")
    figure.colorbar(image, ax=right, label="nats", pad=0.01)
    x0, x1, y0, y1 = extent_of(experiment)
    left.set_xlim(x0, x1)
    left.set_ylim(y0, y1)
    return figure


def outlier_kept(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """The k most likely points."""
    record = first.get("Flow")
    if record is None:
        return None
    points, outlier = record.arrays["points"].astype(float), record.arrays["is outlier"]
    likely = record.arrays["scores"].argsort()[::-1]
    kept = experiment.options["kept"]
    figure, axes = new_grid(1, len(kept), size=2.6)
    for axis, k in zip(axes[0], kept, strict=True):
        own = likely[:k]
        kept_outliers = own[outlier[own]]
        axis.scatter(*points[own].T, s=2, color="#4477aa", lw=0)
        axis.scatter(*points[kept_outliers].T, s=8, color="#ee6677", lw=0)  # on top of the moons
        axis.set_title(f"k = {k}: {int(outlier[own].sum())} outliers among them", fontsize=8)
    x0, x1, y0, y1 = extent_of(experiment)
    axes[0][0].set_xlim(x0, x1)
    axes[0][0].set_ylim(y0, y1)
    return figure


def attack(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """Where attacked points end, by their epistemic uncertainty."""
    figure, axes = new_grid(1, len(first), size=2.4)
    for axis, (method, record) in zip(axes[0], first.items(), strict=True):
        start, end = (record.arrays[name].astype(float) for name in ("start", "end"))
        for a, b in zip(start, end, strict=True):
            axis.plot([a[0], b[0]], [a[1], b[1]], color="#bbbbbb", lw=0.4, zorder=1)
        image = axis.scatter(
            *end.T,
            s=6,
            c=record.arrays["after"].astype(float),
            vmin=0,
            vmax=np.log(3),
            cmap="magma",
            zorder=2,
        )
        axis.set_title(f"{method}\n{record.numbers['passes']['after']:.0%} pass", fontsize=8)
    figure.colorbar(image, ax=axes.ravel().tolist(), label="epistemic, nats", pad=0.01)
    return figure

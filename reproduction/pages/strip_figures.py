"""Strips of images that change step by step, over the uncertainty about each of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from reproduction.pages.drawing import PART_COLORS, First, hide_frame, legend, new_figure
from reproduction.results import Record
from reproduction.schema import Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def turned(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """Strips of turned digits over both uncertainties, a column for each method."""
    digits = experiment.options["digits"]
    strips = [
        (f"{d}", "angle (degrees)", "angles", f"images {d}", f"winners {d}", f"{{}} {d}")
        for d in digits
    ]
    return _strips(first, strips, every=2)


def noisy(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """A strip of ever noisier images over both uncertainties, a column for each method."""
    label = "standard deviation of the noise (white is 1)"
    return _strips(first, [("", label, "levels", "images", None, "{}")], every=1)


def _strips(first: First, strips: list[tuple[Any, ...]], every: int) -> Figure | None:
    """For each strip a row of images and a row of curves; the dotted curve is the mean of all."""
    if not first:
        return None
    figure = new_figure(5.2 * len(first), 2.9 * len(strips) + 0.4)
    axes = figure.subplots(
        2 * len(strips), len(first), height_ratios=[1, 3] * len(strips), squeeze=False
    )
    for column, (method, record) in enumerate(first.items()):
        for row, (_, label, at, images, winners, part_name) in enumerate(strips):
            top, below = axes[2 * row][column], axes[2 * row + 1][column]
            x = record.arrays[at].astype(float)
            _strip(
                top,
                record.arrays[images][::every],
                None if winners is None else record.arrays[winners][::every],
            )
            for part, color in PART_COLORS.items():
                values = record.arrays[part_name.format(part)].astype(float)
                below.plot(x, values[:, 0], color=color, label=part)
                below.plot(x, values.mean(axis=1), color=color, linestyle=":")
            margin = (x[every] - x[0]) / 2
            below.set_xlim(x[0] - margin, x[-1] + margin)
            shown = (part_name.format(part) for part in PART_COLORS)
            _same_scale(below, (r.arrays[p][:, 0] for p in shown for r in first.values()))
            below.set_xlabel(label)
            if column == 0:
                below.set_ylabel("nats")
            if row == 0:
                top.set_title(method, fontsize=10, pad=14 if winners else None)
    legend(figure, PART_COLORS, "solid: the digit shown; dotted: mean of all digits asked")
    return figure


def _same_scale(axis: Axes, curves: Iterable[np.ndarray]) -> None:
    """One vertical scale for the curves of all methods."""
    largest = max(float(curve.max()) for curve in curves)
    axis.set_ylim(0, 1.08 * max(largest, 0.1))
    hide_frame(axis)


def _strip(axis: Axes, images: np.ndarray, winners: np.ndarray | None) -> None:
    side = images.shape[1]
    axis.imshow(np.concatenate(list(images), axis=1), cmap="gray", vmin=0, vmax=255)
    axis.set_axis_off()
    for i, winner in enumerate(() if winners is None else winners):
        axis.text((i + 0.5) * side, -2, str(winner), ha="center", va="bottom", fontsize=7)


def morphs(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """The latent plane with the line, the digits on it, and both uncertainties along it."""
    if not first:
        return None
    lines = [f"{a} to {b}" for a, b in experiment.options["between"]]
    figure = new_figure(4.6 * len(first) + 3, 2.9 * len(lines) + 0.4)
    widths = [2.4, *[4] * len(first)]
    axes = figure.subplots(
        2 * len(lines),
        1 + len(first),
        width_ratios=widths,
        height_ratios=[1, 3] * len(lines),
        squeeze=False,
    )
    for row, line in enumerate(lines):
        _plane(figure, axes, row, next(iter(first.values())), line)
        for column, (method, record) in enumerate(first.items(), start=1):
            top, below = axes[2 * row][column], axes[2 * row + 1][column]
            _strip(top, record.arrays[f"images {line}"][::2], record.arrays[f"winners {line}"][::2])
            n_steps = len(record.arrays[f"images {line}"])
            x = np.linspace(0, 1, n_steps)
            for part, color in PART_COLORS.items():
                below.plot(x, record.arrays[f"{part} {line}"].astype(float), color=color)
            below.set_xlim(-x[1], 1 + x[1])
            shown = (f"{part} {line}" for part in PART_COLORS)
            _same_scale(below, (r.arrays[p] for p in shown for r in first.values()))
            below.set_xlabel(f"share of the way, {line}")
            if column == 1:
                below.set_ylabel("nats")
            if row == 0:
                top.set_title(method, fontsize=10, pad=14)
    legend(figure, PART_COLORS)
    return figure


def _plane(figure: Figure, axes: Any, row: int, record: Record, line: str) -> None:
    """Codes of test images in the colors of their digits, over both rows of a strip."""
    grid = axes[2 * row][0].get_gridspec()
    for axis in axes[2 * row : 2 * row + 2, 0]:
        axis.remove()
    plane = figure.add_subplot(grid[2 * row : 2 * row + 2, 0])
    codes, labels = record.arrays["codes"].astype(float), record.arrays["code labels"]
    x, y = codes.T
    dots = plane.scatter(x, y, c=labels, cmap="tab10", vmin=-0.5, vmax=9.5, s=3, linewidths=0)
    plane.plot(*record.arrays[f"line {line}"].astype(float).T, color="black", linewidth=1.5)
    plane.set_title(f"latent plane, {line}", fontsize=9)
    plane.set_xticks([])
    plane.set_yticks([])
    figure.colorbar(dots, ax=plane, ticks=range(10), location="left", shrink=0.9)

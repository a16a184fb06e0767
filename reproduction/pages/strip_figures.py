"""Strips of images that change step by step, over the uncertainty of each method about them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from reproduction.pages.drawing import PART_COLORS, First, hide_frame, legend, new_figure
from reproduction.results import Record
from reproduction.schema import Experiment

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import SubplotSpec

_WIDTH = 2.4  # inches of a method's panel
_PLANE = 2.6  # of the latent plane
_CURVES = "solid: the digit shown; dotted: mean of all digits asked"
_DIGITS = "small digits: what the method reads"


@dataclass(frozen=True)
class _Strip:
    """Images and the names of the arrays about them; `part` has a place for the part's name."""

    label: str
    at: np.ndarray
    images: str
    part: str
    winners: str | None = None
    every: int = 2
    plane: tuple[str, str] | None = None
    """Names of the codes and of the line through them."""


def turned(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """Strips of turned digits over both uncertainties, a panel for each method."""
    if not first:
        return None
    angles = next(iter(first.values())).arrays["angles"].astype(float)
    strips = [
        _Strip("angle (degrees)", angles, f"images {d}", f"{{}} {d}", f"winners {d}")
        for d in experiment.options["digits"]
    ]
    return _drawn(first, strips, f"{_CURVES}; {_DIGITS}")


def noisy(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """A strip of ever noisier images over both uncertainties, a panel for each method."""
    if not first:
        return None
    levels = next(iter(first.values())).arrays["levels"].astype(float)
    strip = _Strip("sd of the noise", levels, "images", "{}", every=1)
    return _drawn(first, [strip], _CURVES)


def morphs(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """The latent plane with the line, the digits on it, and both uncertainties along it."""
    if not first:
        return None
    known = next(iter(first.values())).arrays
    strips = []
    for source in ("published", "ours"):
        for a, b in experiment.options["between"]:
            line = f"{a} to {b}, {source}"
            if f"line {line}" not in known:
                continue
            at = np.linspace(0, 1, len(known[f"line {line}"]))
            names = f"images {line}", f"{{}} {line}", f"winners {line}"
            plane = f"codes, {source}", f"line {line}"
            strips.append(_Strip(f"share of the way, {a} to {b}", at, *names, plane=plane))
    return _drawn(first, strips, _DIGITS)


def _drawn(first: First, strips: list[_Strip], note: str) -> Figure:
    """For each strip a row of images, and below it a panel for each method, on one scale."""
    has_plane = any(strip.plane is not None for strip in strips)
    n_planes = int(has_plane)
    figure = new_figure(_WIDTH * len(first) + _PLANE * n_planes, 2.6 * len(strips) + 0.4)
    grid = figure.add_gridspec(
        2 * len(strips),
        n_planes + len(first),
        height_ratios=[1, 2.4] * len(strips),
        width_ratios=[_PLANE] * n_planes + [_WIDTH] * len(first),
    )
    for row, strip in enumerate(strips):
        record = next(iter(first.values()))
        if strip.plane is not None:
            _plane(figure, grid[2 * row : 2 * row + 2, 0], record, *strip.plane)
        _images(figure.add_subplot(grid[2 * row, n_planes:]), record.arrays[strip.images])
        parts = [strip.part.format(part) for part in PART_COLORS]
        largest = max(float(_shown(r.arrays[p]).max()) for p in parts for r in first.values())
        for column, (method, own) in enumerate(first.items()):
            panel = figure.add_subplot(grid[2 * row + 1, n_planes + column])
            panel.set_ylim(0, 1.2 * max(largest, 0.1))
            _curves(panel, own, strip)
            panel.set_title(method, fontsize=9)
            panel.set_xlabel(strip.label)
            if column == 0:
                panel.set_ylabel("nats")
            else:
                panel.tick_params(labelleft=False)
    legend(figure, PART_COLORS)
    figure.supxlabel(note, fontsize=8)
    return figure


def _shown(values: np.ndarray) -> np.ndarray:
    """Of values of several digits, those of the one in the strip."""
    return values if values.ndim == 1 else values[:, 0]


def _curves(panel: Axes, record: Record, strip: _Strip) -> None:
    """Both uncertainties along the strip, and above them what the method reads."""
    for part, color in PART_COLORS.items():
        values = record.arrays[strip.part.format(part)].astype(float)
        panel.plot(strip.at, _shown(values), color=color)
        if values.ndim > 1:
            panel.plot(strip.at, values.mean(axis=1), color=color, linestyle=":")
    margin = (strip.at[strip.every] - strip.at[0]) / 2
    panel.set_xlim(strip.at[0] - margin, strip.at[-1] + margin)
    hide_frame(panel)
    if strip.winners is None:
        return
    top = panel.get_ylim()[1]
    for x, digit in list(zip(strip.at, record.arrays[strip.winners], strict=True))[:: strip.every]:
        panel.text(x, top, str(digit), ha="center", va="top", fontsize=7, color="#555555")


def _images(axis: Axes, images: np.ndarray) -> None:
    """About a dozen of the images, side by side."""
    every = max(1, round(len(images) / 12))
    axis.imshow(np.concatenate(list(images[::every]), axis=1), cmap="gray", vmin=0, vmax=255)
    axis.set_axis_off()


def _plane(figure: Figure, place: SubplotSpec, record: Record, codes: str, line: str) -> None:
    """Codes of test images in the colors of their digits, and the line through them."""
    plane = figure.add_subplot(place)
    x, y = record.arrays[codes].astype(float).T
    labels = record.arrays["code labels"]
    dots = plane.scatter(x, y, c=labels, cmap="tab10", vmin=-0.5, vmax=9.5, s=3, linewidths=0)
    plane.plot(*record.arrays[line].astype(float).T, color="black", linewidth=1.5)
    plane.set_title(f"latent plane, VAE {codes.removeprefix('codes, ')}", fontsize=9)
    plane.set_xticks([])
    plane.set_yticks([])
    figure.colorbar(dots, ax=plane, ticks=range(10), location="left", shrink=0.9)

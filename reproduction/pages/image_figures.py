"""Figures of the experiments on images, drawn from their records alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from reproduction.results import across_seeds
from reproduction.studies.regions import load

from reproduction import Experiment, Record, missing_files

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLORS = {"aleatoric": "#ee8866", "epistemic": "#332288"}
_SETS = {
    "in": "MNIST test",
    "boundary": "boundary",
    "usps": "USPS",
    "emnist-balanced": "EMNIST",
    "cifar10": "CIFAR",
}
_METHOD_COLORS = {
    "BaCOUn": "#aa3377",
    "NLM": "#4477aa",
    "NLM, 50": "#99bbdd",
    "BNN": "#228833",
    "MC-Dropout": "#ccbb44",
    "Deep ensemble": "#66ccee",
}
First = dict[str, Record]


def sets(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """Mean and spread of both uncertainties on every set of images, method by method."""
    methods = [m for m in experiment.methods if m in first and m in _METHOD_COLORS]
    names = [n for n in _SETS if any(f"epistemic {n}" in first[m].arrays for m in methods)]
    if not methods or len(names) < 3:
        return None
    figure = _figure(9.5, 5.6)
    axes = figure.subplots(2, 1, sharex=True)
    width = 0.8 / len(methods)
    for axis, part in zip(axes, ("epistemic", "aleatoric"), strict=True):
        for i, method in enumerate(methods):
            mean = np.array([across_seeds(records, method, f"{part}/{n}").mean() for n in names])
            sd = np.array([across_seeds(records, method, f"sd/{part}/{n}").mean() for n in names])
            at = np.arange(len(names)) + (i - (len(methods) - 1) / 2) * width
            down = np.minimum(sd, mean)  # no uncertainty is below zero
            axis.bar(at, mean, width * 0.92, color=_METHOD_COLORS[method], label=method)
            axis.errorbar(at, mean, [down, sd], fmt="none", ecolor="#555555", elinewidth=0.8)
        axis.axhline(np.log(10), color="#999999", linewidth=0.8, linestyle=":")
        axis.set_ylabel(f"{part} (nats)")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].annotate(
        "log 10: knows nothing",
        (1, np.log(10)),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        fontsize=7,
        color="#777777",
    )
    axes[1].set_xticks(np.arange(len(names)), [_SETS[name] for name in names])
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=len(methods),
        frameon=False,
    )
    return figure


def single_images(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """One row for each image that the rules choose: the image, and what each method says of it.

    Records hold no images of the data sets; without the sets there is no figure.
    """
    if len(first) < len(experiment.methods) or "BNN" not in first or missing_files(experiment):
        return None
    chosen = _chosen(first)
    figure = _figure(8.4, 1.55 * len(chosen) + 0.4)
    axes = figure.subplots(len(chosen), 2, width_ratios=(1, 4), squeeze=False)
    one = first["BNN"]
    pictures = {"boundary": one.arrays["images boundary"] / 255}
    pictures |= load(experiment.dataset, one.seed).regions
    for (picture, bars), (title, name, index) in zip(axes, chosen, strict=True):
        picture.imshow(pictures[name][index], cmap="gray", vmin=0, vmax=1)
        picture.set_axis_off()
        picture.set_title(title, fontsize=8, loc="left")
        for row, record in enumerate(first.values()):
            left = 0.0
            for part, color in _COLORS.items():
                value = float(record.arrays[f"{part} {name}"][index])
                bars.barh(row, value, left=left, color=color, height=0.72)
                left += value
            says = int(record.arrays[f"predicted {name}"][index])
            bars.text(left + 0.03, row, f"says {says}", va="center", fontsize=7)
        bars.set_yticks(range(len(first)), list(first), fontsize=8)
        bars.invert_yaxis()
        bars.set_xlim(0, 1.12 * np.log(10))
        bars.axvline(np.log(10), color="#999999", linewidth=0.8, linestyle=":")
        bars.spines[["top", "right"]].set_visible(False)
    axes[-1][1].set_xlabel("nats; the dotted line is log 10, knowing nothing")
    _legend(figure)
    return figure


def _chosen(first: First) -> list[tuple[str, str, int]]:
    """Title, set and index of each image to show, by rules that look at all methods."""
    arrays = {method: record.arrays for method, record in first.items()}
    bnn = arrays["BNN"]
    found: list[tuple[str, str, int]] = []

    def add(title: str, name: str, eligible: np.ndarray, score: np.ndarray) -> None:
        if eligible.any():
            found.append((title, name, int(np.where(eligible, score, -np.inf).argmax())))

    wrong = bnn["predicted in"] != bnn["labels in"]
    add("MNIST test: BNN wrong\nand surest", "in", wrong, -bnn["total in"].astype(float))
    if found:
        title, name, index = found[0]
        found[0] = (f"{title}; a {bnn['labels in'][index]}", name, index)
    usps = bnn["labels usps"]
    totals = np.sum([a["total usps"].astype(float) for a in arrays.values()], axis=0)
    all_wrong = np.all([a["predicted usps"] != usps for a in arrays.values()], axis=0)
    add("USPS: all wrong\nand surest", "usps", all_wrong, -totals)
    if all_wrong.any():
        title, name, index = found[-1]
        found[-1] = (f"{title}; a {usps[index]}", name, index)
    add("USPS: the 6 of\nhighest total", "usps", usps == 6, totals)
    found += [("generated boundary", "boundary", i) for i in range(2)]
    return found


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
    figure = _figure(5.2 * len(first), 2.9 * len(strips) + 0.4)
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
            for part, color in _COLORS.items():
                values = record.arrays[part_name.format(part)].astype(float)
                below.plot(x, values[:, 0], color=color, label=part)
                below.plot(x, values.mean(axis=1), color=color, linestyle=":")
            margin = (x[every] - x[0]) / 2
            below.set_xlim(x[0] - margin, x[-1] + margin)
            _limits(below, first, part_name)
            below.set_xlabel(label)
            if column == 0:
                below.set_ylabel("nats")
            if row == 0:
                top.set_title(method, fontsize=10, pad=14 if winners else None)
    _legend(figure, "solid: the digit shown; dotted: mean of all digits asked")
    return figure


def _limits(axis: Axes, first: First, part_name: str) -> None:
    """One scale for all methods."""
    largest = max(
        float(record.arrays[part_name.format(part)][:, 0].max())
        for record in first.values()
        for part in _COLORS
    )
    axis.set_ylim(0, 1.08 * max(largest, 0.1))
    axis.spines[["top", "right"]].set_visible(False)


def _strip(axis: Axes, images: np.ndarray, winners: np.ndarray | None) -> None:
    side = images.shape[1]
    axis.imshow(np.concatenate(list(images), axis=1), cmap="gray", vmin=0, vmax=255)
    axis.set_axis_off()
    for i, winner in enumerate(() if winners is None else winners):
        axis.text((i + 0.5) * side, -2, str(winner), ha="center", va="bottom", fontsize=7)


def morphs(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """The latent plane with the line walked, the digits on it, and both uncertainties along it."""
    if not first:
        return None
    lines = [f"{a} to {b}" for a, b in experiment.options["between"]]
    figure = _figure(4.6 * len(first) + 3, 2.9 * len(lines) + 0.4)
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
            for part, color in _COLORS.items():
                below.plot(x, record.arrays[f"{part} {line}"].astype(float), color=color)
            below.set_xlim(-x[1], 1 + x[1])
            largest = max(r.arrays[f"{p} {line}"].max() for r in first.values() for p in _COLORS)
            below.set_ylim(0, 1.08 * max(float(largest), 0.1))
            below.spines[["top", "right"]].set_visible(False)
            below.set_xlabel(f"share of the way, {line}")
            if column == 1:
                below.set_ylabel("nats")
            if row == 0:
                top.set_title(method, fontsize=10, pad=14)
    _legend(figure)
    return figure


def _plane(figure: Figure, axes: Any, row: int, record: Record, line: str) -> None:
    """Codes of test images in the colours of their digits, over both rows of a strip."""
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


def _figure(width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _legend(figure: Figure, remark: str = "") -> None:
    from matplotlib.patches import Patch

    handles = [Patch(color=color, label=part) for part, color in _COLORS.items()]
    if remark:
        handles.append(Patch(color="none", label=remark))
    figure.legend(handles=handles, loc="outside upper center", ncols=3, frameon=False)


IMAGE_FIGURES = {
    "images": {"sets": sets},
    "examples": {"bars": single_images},
    "rotations": {"strips": turned},
    "noise": {"strips": noisy},
    "morph": {"strips": morphs},
}

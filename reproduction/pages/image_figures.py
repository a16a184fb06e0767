"""Figures of sets of images and of single ones, drawn from their records alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from reproduction.pages.drawing import PART_COLORS, First, hide_frame, legend, new_figure
from reproduction.pages.names import SHORT_SETS, method_colors
from reproduction.results import Record, across_seeds
from reproduction.schema import Experiment, missing_files
from reproduction.studies.regions import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BNN_WRONG, ALL_WRONG = "MNIST test: BNN wrong\nand surest", "USPS: all wrong\nand surest"
AMBIGUOUS, ON_BOUNDARY = "USPS: highest total\nof the 6s", "generated boundary"

_SHOWN = ("in", "boundary", "usps", "emnist-balanced", "cifar10")


def sets(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """Mean and spread of both uncertainties on every set of images, method by method."""
    methods = list(first)
    names = [n for n in _SHOWN if any(f"epistemic {n}" in first[m].arrays for m in methods)]
    if len(names) < 3:
        return None
    colors = method_colors(methods)
    figure = new_figure(9.5, 5.6)
    axes = figure.subplots(2, 1, sharex=True)
    width = 0.8 / len(methods)
    for axis, part in zip(axes, ("epistemic", "aleatoric"), strict=True):
        for i, method in enumerate(methods):
            mean = np.array([across_seeds(records, method, f"{part}/{n}").mean() for n in names])
            sd = np.array([across_seeds(records, method, f"sd/{part}/{n}").mean() for n in names])
            at = np.arange(len(names)) + (i - (len(methods) - 1) / 2) * width
            down = np.minimum(sd, mean)  # no uncertainty is below zero
            axis.bar(at, mean, width * 0.92, color=colors[method], label=method)
            axis.errorbar(at, mean, [down, sd], fmt="none", ecolor="#555555", elinewidth=0.8)
        axis.axhline(np.log(10), color="#999999", linewidth=0.8, linestyle=":")
        axis.set_ylabel(f"{part} (nats)")
        hide_frame(axis)
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
    axes[1].set_xticks(np.arange(len(names)), [SHORT_SETS[name] for name in names])
    figure.legend(
        *axes[0].get_legend_handles_labels(),
        loc="outside upper center",
        ncols=min(len(methods), 4),
        frameon=False,
    )
    return figure


def single_images(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """One row for each image that the rules choose: the image, and the prediction of each method.

    Records hold no images of the data sets; without the sets there is no figure.
    """
    if len(first) < len(experiment.methods) or "BNN" not in first or missing_files(experiment):
        return None
    chosen = chosen_images(first)
    figure = new_figure(8.4, 1.55 * len(chosen) + 0.4)
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
            for part, color in PART_COLORS.items():
                value = float(record.arrays[f"{part} {name}"][index])
                bars.barh(row, value, left=left, color=color, height=0.72)
                left += value
            says = int(record.arrays[f"predicted {name}"][index])
            bars.text(left + 0.03, row, f"says {says}", va="center", fontsize=7)
        bars.set_yticks(range(len(first)), list(first), fontsize=8)
        bars.invert_yaxis()
        bars.set_xlim(0, 1.12 * np.log(10))
        bars.axvline(np.log(10), color="#999999", linewidth=0.8, linestyle=":")
        hide_frame(bars)
    axes[-1][1].set_xlabel("nats; the dotted line is log 10, knowing nothing")
    legend(figure, PART_COLORS)
    return figure


def chosen_images(of_methods: Mapping[str, Record]) -> list[tuple[str, str, int]]:
    """Title, set and index of each image to show, by rules that look at all methods of a seed."""
    arrays = {method: record.arrays for method, record in of_methods.items()}
    bnn = arrays["BNN"]
    found: list[tuple[str, str, int]] = []

    def add(title: str, name: str, eligible: np.ndarray, score: np.ndarray) -> None:
        if eligible.any():
            index = int(np.where(eligible, score, -np.inf).argmax())
            found.append((f"{title}; a {bnn[f'labels {name}'][index]}", name, index))

    wrong = bnn["predicted in"] != bnn["labels in"]
    add(BNN_WRONG, "in", wrong, -bnn["total in"].astype(float))
    usps = bnn["labels usps"]
    totals = np.sum([a["total usps"].astype(float) for a in arrays.values()], axis=0)
    all_wrong = np.all([a["predicted usps"] != usps for a in arrays.values()], axis=0)
    add(ALL_WRONG, "usps", all_wrong, -totals)
    add(AMBIGUOUS, "usps", usps == 6, totals)
    return found + [(ON_BOUNDARY, "boundary", i) for i in range(2)]

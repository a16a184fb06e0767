"""Figures of an experiment, drawn from its records alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from reproduction.pages.drawing import Draw, First, hide_frame, new_figure
from reproduction.pages.image_figures import sets, single_images
from reproduction.pages.plane_figures import (
    attack,
    boundaries,
    decomposition,
    draws,
    outlier_flow,
    outlier_kept,
    pathology,
    rays,
    total,
)
from reproduction.pages.strip_figures import morphs, noisy, turned
from reproduction.results import Record
from reproduction.schema import Experiment

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_figures(experiment: Experiment, records: list[Record], folder: Path) -> list[Path]:
    """Draw all figures there are for this experiment as PNG; their paths."""
    import matplotlib

    written = []
    with matplotlib.rc_context({"font.size": 9}):
        for name, draw in _figures(experiment).items():
            figure = draw(experiment, _first_seed(experiment, records), records)
            if figure is None:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{experiment.name}-{name}.png"
            figure.savefig(path, dpi=110)
            written.append(path)
    return written


def figure_names(experiment: Experiment) -> list[str]:
    """What the figures of this experiment are called, in alphabetical order."""
    return sorted(_figures(experiment))


def _figures(experiment: Experiment) -> dict[str, Draw]:
    if experiment.study in _BY_STUDY:
        return _BY_STUDY[experiment.study]
    named: dict[str, Draw] = {}
    if "map" in experiment.options:
        named |= {"boundaries": boundaries, "decomposition": decomposition}
        named |= {"total": total, "draws": draws}
        if experiment.options.get("rays"):  # without a map, a search over settings: a table
            named["rays"] = rays
    if experiment.name == "wine":
        named["boxes"] = _boxes
    return named


def _first_seed(experiment: Experiment, records: list[Record]) -> First:
    """The record of the first seed of each method, in the experiment's order."""
    first = experiment.seeds[0]
    found = {record.method: record for record in records if record.seed == first}
    return {method: found[method] for method in experiment.methods if method in found}


def _boxes(experiment: Experiment, first: First, records: list[Record]) -> Figure | None:
    """Box plots of epistemic and aleatoric uncertainty by region; seeds averaged.

    On a log scale: uncertainties of some methods are a thousand times those of others.
    """
    from matplotlib.patches import Patch

    regions = {"in": "#4477aa", "held-out": "#ccbb44", "6": "#66ccee", "ood": "#ee6677"}
    names = ("in: classes 5 and 7", "held-out: 3, 4, 8, 9", "class 6", "OOD: first column + 10 sd")
    figure = new_figure(10, 6)
    axes = figure.subplots(2, 1, sharex=True)
    for axis, part in zip(axes, ("epistemic", "aleatoric"), strict=True):
        for place, method in enumerate(first):
            own = [r.numbers["quartiles"][part] for r in records if r.method == method]
            for offset, (region, color) in enumerate(regions.items()):
                low, q1, median, q3, high = np.mean([q[region] for q in own], axis=0)
                stats = {"whislo": low, "q1": q1, "med": median, "q3": q3, "whishi": high}
                axis.bxp(
                    [stats],
                    positions=[place + 0.2 * offset - 0.3],
                    widths=0.16,
                    showfliers=False,
                    patch_artist=True,
                    boxprops={"facecolor": color, "lw": 0.6},
                    medianprops={"color": "black"},
                    manage_ticks=False,
                )
        axis.set_ylabel(f"{part}, nats")
        axis.set_yscale("log")
        axis.set_ylim(1e-5, 1)
        axis.axhline(np.log(2), color="#bbbbbb", lw=0.8, ls=":", zorder=0)
        hide_frame(axis)
    axes[1].set_xticks(range(len(first)), [method.replace(", ", ",\n") for method in first])
    handles = [
        Patch(facecolor=color, label=name)
        for name, color in zip(names, regions.values(), strict=True)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    figure.supxlabel("box: quartiles, whiskers: 5 % to 95 %; dotted: log 2, the most", fontsize=8)
    return figure


_BY_STUDY: dict[str, dict[str, Draw]] = {
    "pathology": {"logistic": pathology("logistic"), "naive-bayes": pathology("naive bayes")},
    "outliers": {"flow": outlier_flow, "kept": outlier_kept},
    "attack": {"points": attack},
    "gp-limit": {},
    "images": {"sets": sets},
    "examples": {"bars": single_images},
    "rotations": {"strips": turned},
    "noise": {"strips": noisy},
    "morph": {"strips": morphs},
}

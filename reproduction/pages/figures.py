"""Figures of an experiment, drawn from its records alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from reproduction.pages.image_figures import IMAGE_FIGURES

from reproduction import Experiment, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PARTS = ("total", "aleatoric", "epistemic")
_OUTSIDE = "#d9d9d9"
_CLASS_COLORS = ("#4477aa", "#ee6677", "#228833", "#ccbb44")
_METHOD_COLORS = {
    "BaCOUn": "#aa3377",
    "BaCOUn, no doubt": "#ddaacc",
    "BaCOUn, paper": "#ee6677",
    "NLM": "#4477aa",
    "BNN": "#228833",
    "MC-Dropout": "#ccbb44",
    "GP": "#000000",
    "Deep ensemble": "#66ccee",
}


def draw_figures(experiment: Experiment, records: list[Record], folder: Path) -> list[Path]:
    """Draw all figures there are for this experiment; PNG and SVG of each. The paths of the PNG."""
    import matplotlib

    written = []
    with matplotlib.rc_context({"font.size": 9, "svg.hashsalt": "bacoun", "svg.fonttype": "none"}):
        for name, draw in _figures(experiment).items():
            figure = draw(experiment, _first_seed(experiment, records), records)
            if figure is None:
                continue
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / f"{experiment.name}-{name}.png"
            figure.savefig(path, dpi=110)
            figure.savefig(path.with_suffix(".svg"), metadata={"Date": None})
            written.append(path)
    return written


Draw = Callable[[Experiment, dict[str, Record], list[Record]], "Figure | None"]


def figure_names(experiment: Experiment) -> list[str]:
    """What the figures of this experiment are called, in alphabetical order."""
    return sorted(_figures(experiment))


def _figures(experiment: Experiment) -> dict[str, Draw]:
    if experiment.study == "pathology":
        return {"logistic": _pathology("logistic"), "naive-bayes": _pathology("naive bayes")}
    if experiment.study == "outliers":
        return {"flow": _outlier_flow, "kept": _outlier_kept}
    if experiment.study == "attack":
        return {"points": _attack}
    if experiment.study in IMAGE_FIGURES:
        return dict(IMAGE_FIGURES[experiment.study])
    named: dict[str, Draw] = {}
    if "map" in experiment.options:
        named |= {"decomposition": _decomposition, "total": _total, "draws": _draws}
    if experiment.options.get("rays"):
        named["rays"] = _rays
    if experiment.name == "wine":
        named["boxes"] = _boxes
    return named


def _first_seed(experiment: Experiment, records: list[Record]) -> dict[str, Record]:
    """The record of the first seed of each method, in the experiment's order."""
    first = experiment.seeds[0]
    found = {record.method: record for record in records if record.seed == first}
    return {method: found[method] for method in experiment.methods if method in found}


def _new(rows: int, columns: int, size: float = 2.4) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    # Figure itself, not pyplot: nothing global is opened that somebody would have to close.
    figure = Figure(figsize=(size * columns + 0.8, size * rows + 0.4), layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)


def _extent(experiment: Experiment) -> tuple[float, float, float, float]:
    (x0, y0), (x1, y1) = experiment.options["map"]["low"], experiment.options["map"]["high"]
    return x0, x1, y0, y1


def _heat(axis: Axes, values: np.ndarray, extent: Any, low: float, high: float, cmap: str) -> Any:
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


def _classes(axis: Axes, winners: np.ndarray, extent: Any, n_classes: int) -> None:
    from matplotlib.colors import ListedColormap

    colors = ListedColormap([*_CLASS_COLORS[:n_classes], _OUTSIDE])
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


def _dots(axis: Axes, record: Record, color: str | None = None) -> None:
    points, labels = record.arrays["points"].astype(float), record.arrays["labels"]
    each = [color or _CLASS_COLORS[k] for k in np.searchsorted(np.unique(labels), labels)]
    axis.scatter(points[:, 0], points[:, 1], s=2, c=each, lw=0, alpha=0.7)


def _n_classes(record: Record) -> int:
    return len(np.unique(record.arrays["labels"]))


def _decomposition(
    experiment: Experiment, first: dict[str, Record], records: list[Record]
) -> Figure | None:
    """A row for each method: regions, total, aleatoric, epistemic."""
    figure, axes = _new(len(first), 4, size=2.0)
    extent = _extent(experiment)
    for row, (method, record) in zip(axes, first.items(), strict=True):
        k = _n_classes(record)
        _classes(row[0], record.arrays["map winners"], extent, k)
        _dots(row[0], record)
        row[0].set_ylabel(method)
        for axis, part in zip(row[1:], PARTS, strict=True):
            image = _heat(axis, record.arrays[f"map {part}"], extent, 0, np.log(k), "magma")
        figure.colorbar(image, ax=list(row[1:]), label="nats, 0 to log K", pad=0.01)
    for axis, title in zip(axes[0], ("regions (grey: unknown)", *PARTS), strict=True):
        axis.set_title(title)
    return figure


def _total(
    experiment: Experiment, first: dict[str, Record], records: list[Record]
) -> Figure | None:
    """Total uncertainty of all methods on one scale."""
    columns = 4
    figure, axes = _new(-(-len(first) // columns), columns)
    extent = _extent(experiment)
    for axis in axes.flat[len(first) :]:
        axis.set_visible(False)
    for axis, (method, record) in zip(axes.flat, first.items(), strict=False):
        top = np.log(_n_classes(record))
        image = _heat(axis, record.arrays["map total"], extent, 0, top, "magma")
        _dots(axis, record, "white")
        axis.set_title(method)
    figure.colorbar(image, ax=axes.ravel().tolist(), label="total uncertainty, nats", pad=0.01)
    return figure


def _draws(
    experiment: Experiment, first: dict[str, Record], records: list[Record]
) -> Figure | None:
    """Decision boundaries of single posterior draws."""
    shown = [m for m in ("BaCOUn", "BaCOUn, paper", "NLM", "GP") if m in first]
    figure, axes = _new(1, len(shown), size=3.0)
    x0, x1, y0, y1 = _extent(experiment)
    for axis, method in zip(axes[0], shown, strict=True):
        record = first[method]
        draws = record.arrays["map draws"]
        x, y = np.linspace(x0, x1, draws.shape[2]), np.linspace(y0, y1, draws.shape[1])
        _dots(axis, record)
        for draw in draws:
            for k in range(_n_classes(record)):
                inside = (draw == k).astype(float)
                if 0 < inside.mean() < 1:
                    axis.contour(x, y, inside, [0.5], colors="black", linewidths=0.4, alpha=0.5)
        axis.set_title(f"{method}: {len(draws)} draws")
    return figure


def _rays(experiment: Experiment, first: dict[str, Record], records: list[Record]) -> Figure | None:
    """Epistemic uncertainty from the edge of the data outwards: mean and smallest over rays."""
    from matplotlib.figure import Figure

    if not set(first) <= set(_METHOD_COLORS):
        return None  # a search over architectures is a table
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    distances = np.linspace(1, 3, 9)
    for method in first:
        each = [r.arrays["rays"].astype(float) for r in records if r.method == method]
        stacked = np.stack(each)  # (seeds, distances, rays)
        color = _METHOD_COLORS[method]
        left.plot(distances, stacked.mean(axis=(0, 2)), color=color, label=method)
        right.plot(distances, stacked.min(axis=2).mean(axis=0), color=color)
    left.set_ylabel("epistemic uncertainty, nats")
    left.set_title("mean over 200 rays")
    right.set_title("the ray on which it is smallest")
    for axis in (left, right):
        axis.set_xlabel("distance from the centre, in radii of the data")
        axis.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right center", frameon=False)
    return figure


def _boxes(
    experiment: Experiment, first: dict[str, Record], records: list[Record]
) -> Figure | None:
    """Box plots of epistemic and aleatoric uncertainty by region; seeds averaged."""
    from matplotlib.figure import Figure

    regions = {"in": "#4477aa", "held-out": "#ccbb44", "6": "#66ccee", "ood": "#ee6677"}
    names = ("in: classes 5 and 7", "held-out: 3, 4, 8, 9", "class 6", "OOD: first column + 10 sd")
    figure = Figure(figsize=(10, 6), layout="constrained")
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
        axis.set_ylim(0, np.log(2) * 1.02)
        axis.spines[["top", "right"]].set_visible(False)
    axes[1].set_xticks(range(len(first)), list(first))
    handles = [_patch(color, name) for name, color in zip(names, regions.values(), strict=True)]
    figure.legend(handles=handles, loc="outside upper center", ncols=4, frameon=False)
    figure.supxlabel("box: quartiles, whiskers: 5 % to 95 %", fontsize=8)
    return figure


def _patch(color: str, label: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=color, label=label)


def _pathology(classifier: str) -> Draw:
    def draw(
        experiment: Experiment, first: dict[str, Record], records: list[Record]
    ) -> Figure | None:
        """p(out of distribution) from the features: NLM above, BaCOUn below."""
        above = [record for method, record in first.items() if method.startswith("NLM")]
        below = [record for method, record in first.items() if method.startswith("BaCOUn")]
        figure, axes = _new(2, len(above))
        for row, own in zip(axes, (above, below), strict=True):
            for axis, record in zip(row, own, strict=True):
                image = _heat(
                    axis, record.arrays[f"map {classifier}"], _extent(experiment), 0, 1, "coolwarm"
                )
                _dots(axis, record, "black")
                share = record.numbers[classifier]["far"]
                axis.set_title(f"{record.method}\nfar points told apart: {share:.0%}", fontsize=8)
        label = f"p(out of distribution) by {classifier} on the features"
        figure.colorbar(image, ax=axes.ravel().tolist(), label=label, pad=0.01)
        return figure

    return draw


def _outlier_flow(
    experiment: Experiment, first: dict[str, Record], records: list[Record]
) -> Figure | None:
    """The data with its outliers, the flow's boundary, and its log density."""
    record = first["Flow"]
    points, outlier = record.arrays["points"].astype(float), record.arrays["is outlier"]
    figure, axes = _new(1, 3, size=3.2)
    left, middle, right = axes[0]
    left.scatter(*points[~outlier].T, s=1, color="#4477aa", label="moons")
    left.scatter(*points[outlier].T, s=4, color="#ee6677", label="planted outliers")
    left.legend(fontsize=7, loc="upper right", markerscale=2)
    left.set_title("data with outliers")
    middle.scatter(*points.T, s=1, color="#bbbbbb")
    middle.scatter(*record.arrays["edge"].astype(float).T, s=2, color="#aa3377")
    middle.set_title("boundary drawn by the flow")
    log_density = record.arrays["map log density"].astype(float)
    image = _heat(right, log_density, _extent(experiment), -20, log_density.max(), "viridis")
    right.set_title("log density")
    figure.colorbar(image, ax=right, label="nats", pad=0.01)
    x0, x1, y0, y1 = _extent(experiment)
    left.set_xlim(x0, x1)
    left.set_ylim(y0, y1)
    return figure


def _outlier_kept(
    experiment: Experiment, first: dict[str, Record], records: list[Record]
) -> Figure | None:
    """The k most likely points."""
    record = first["Flow"]
    points, outlier = record.arrays["points"].astype(float), record.arrays["is outlier"]
    likely = record.arrays["scores"].argsort()[::-1]
    kept = experiment.options["kept"]
    figure, axes = _new(1, len(kept), size=2.6)
    for axis, k in zip(axes[0], kept, strict=True):
        own = likely[:k]
        colors = np.where(outlier[own], "#ee6677", "#4477aa")
        axis.scatter(*points[own].T, s=2, c=colors, lw=0)
        axis.set_title(f"k = {k}: {int(outlier[own].sum())} outliers among them", fontsize=8)
    x0, x1, y0, y1 = _extent(experiment)
    axes[0][0].set_xlim(x0, x1)
    axes[0][0].set_ylim(y0, y1)
    return figure


def _attack(
    experiment: Experiment, first: dict[str, Record], records: list[Record]
) -> Figure | None:
    """Where attacked points end, by their epistemic uncertainty."""
    figure, axes = _new(1, len(first), size=2.4)
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

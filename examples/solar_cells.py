"""The tutorial on solar cells: photos of defects, what is deferred, why, and what it costs.

    python -m examples.solar_cells

Writes data, numbers and figures into the folder solar_cells, in about a minute.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from benchmarks.record import markdown_table
from examples.deferring import Costs, Judged, Record, Rival
from examples.tutorial import (
    NEUTRAL,
    OURS,
    Tutorial,
    as_quote,
    cost_table,
    draw_costs,
    draw_outcomes,
    in_words,
    outcome_table,
    price_table,
    text_table,
)
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image
from reproduction.datasets.sources import fetch

from bacoun.encoders import EfficientNetLite0, encode_cached
from bacoun.tabular import TableModel, read_table
from bacoun.tabular.explanation import Nearest
from bacoun.uncertainty import auroc

COSTS = Costs(wrong=20, look=1)
TRAIN_SHARE = 0.6  # of the monocrystalline cells
LABELS = ("0", "1/3", "2/3", "1")
SURE, UNSURE = "monocrystalline, experts sure", "monocrystalline, experts unsure"
POLY, LEARNED = "polycrystalline", "others learned"
MONO, MIXED = "monocrystalline alone", "half polycrystalline"
SOURCE = "Photos: C. Buerhop-Lutz et al. 2018, ELPV data set, CC BY-NC-SA 4.0"
_ARCHIVE = "elpv_dataset/data"
_QUICK = {"train": 60, "mono": 24, "more": 24, "poly": 24}


def read_cells(quick: bool = False) -> pd.DataFrame:
    """A row for each cell: path in the archive, probability of a defect, kind, label, and use.

    60 % of the monocrystalline cells are to train on, the others to ask about; half of the
    polycrystalline ones are looked at by people and learned later, the others are asked about.
    """
    with zipfile.ZipFile(fetch("elpv") / "elpv.zip") as archive:
        table = io.BytesIO(archive.read(f"{_ARCHIVE}/labels.csv"))
    cells = pd.read_csv(table, sep=r"\s+", names=["path", "defect", "kind"])
    cells["label"] = [LABELS[round(3 * defect)] for defect in cells["defect"]]
    cells = cells.sample(frac=1, random_state=0)
    is_mono = cells["kind"] == "mono"
    cells["use"] = np.where(is_mono, "mono", "poly")
    rank, size = is_mono.groupby(is_mono).cumcount(), is_mono.map(is_mono.value_counts())
    cells.loc[is_mono & (rank < TRAIN_SHARE * size), "use"] = "train"
    cells.loc[~is_mono & (rank < size / 2), "use"] = "more"
    if quick:
        place = cells.groupby("use").cumcount()
        cells = cells[place < cells["use"].map(_QUICK)]
    return cells.sort_index()


def write_photos(cells: pd.DataFrame, folder: Path) -> pd.DataFrame:
    """The table with the place of each photo in a folder, where it is written to.

    Cells to train on are in a subfolder for each class, without those that experts are unsure of.
    """
    is_learned = cells["use"].isin(["train", "more"])
    cells = cells[~is_learned | cells["label"].isin(["0", "1"])].copy()
    verdict = np.where(cells["defect"] > 0.5, "defective", "functional")
    with zipfile.ZipFile(fetch("elpv") / "elpv.zip") as archive:
        places = []
        for path, use, label in zip(cells["path"], cells["use"], verdict, strict=True):
            inside = f"{use}/{label}" if use in ("train", "more") else use
            photo = folder / inside / Path(path).name
            photo.parent.mkdir(parents=True, exist_ok=True)
            photo.write_bytes(archive.read(f"{_ARCHIVE}/{path}"))
            places.append(str(photo.resolve()))
    return cells.assign(photo=places).reset_index(drop=True)


class Shown(NamedTuple):
    """A cell of the figure, with what the model says about it."""

    photo: str
    said: Record
    nearest: Sequence[Nearest]


def measure(folder: Path, quick: bool) -> tuple[Record, dict[str, Figure]]:
    """All numbers of the page, and its figures; the photos are written to a folder."""
    cells = write_photos(read_cells(quick), folder)
    asked = cells[cells["use"].isin(["mono", "poly"])].reset_index(drop=True)
    before = ask([folder / "train"], asked, quick)
    after = ask([folder / "train", folder / "more"], asked, quick)

    is_mono, label = (asked["kind"] == "mono").to_numpy(), asked["label"].to_numpy(str)
    is_sure = np.isin(label, ["0", "1"])
    mono, poly, learned = before.part(is_mono), before.part(~is_mono), after.part(~is_mono)
    aleatoric, epistemic = before.scored["aleatoric"], before.scored["epistemic"]
    by_label = {name: aleatoric[is_mono & (label == name)] for name in LABELS}
    by_kind = {"mono": epistemic[is_mono], "poly": epistemic[~is_mono]}
    by_kind[f"poly, {LEARNED}"] = after.scored["epistemic"][~is_mono]
    sure, unsure = is_mono & is_sure, is_mono & ~is_sure
    ood_score = before.scored["ood_score"]
    shown = choose(before, asked)
    streams = {MONO: mono, MIXED: before, f"{MIXED}, {LEARNED}": after}
    record = {
        "costs": {"wrong": COSTS.wrong, "look": COSTS.look},
        "rows": cells.groupby(["use", "label"]).size().unstack(fill_value=0).T.to_dict(),
        "fitted": in_words(before.model),
        "fitted after": in_words(after.model),
        "shown": [each.said for each in shown],
        "aleatoric": {
            name: {"cells": len(values), "mean": values.mean()} for name, values in by_label.items()
        },
        "epistemic": {name: values.mean() for name, values in by_kind.items()},
        "auroc": {
            "unsure by aleatoric": auroc(aleatoric[sure], aleatoric[unsure]),
            "unsure by max softmax": auroc(-before.confidence[sure], -before.confidence[unsure]),
            "poly by ood_score": auroc(ood_score[is_mono], ood_score[~is_mono]),
            "poly by max softmax": auroc(-mono.confidence, -poly.confidence),
        },
        "outcomes": {
            SURE: before.part(sure).outcomes(COSTS),
            UNSURE: before.part(unsure).outcomes(COSTS),
            POLY: poly.outcomes(COSTS),
            f"{POLY}, {LEARNED}": learned.outcomes(COSTS),
        },
        "compared": {name: judged.compare(COSTS) for name, judged in streams.items()},
        "at prices": mono.at_prices(COSTS.look),
    }
    return record, {
        "uncertainty": draw_uncertainty(by_label, by_kind),
        "deferred": draw_outcomes(record["outcomes"]),
        "costs": draw_costs({MONO: mono, MIXED: before}, COSTS, "cells"),
        "nearest": draw_shown(shown),
    }


def ask(folders: Sequence[Path], asked: pd.DataFrame, quick: bool) -> Judged:
    """Fit both models to the photos in some folders, and ask about cells.

    As many monocrystalline as polycrystalline ones arrive.
    """
    tables = [read_table(folder) for folder in folders]
    paths = [str(f.resolve()) + "/" + t["photo"] for f, t in zip(folders, tables, strict=True)]
    table = pd.concat(tables, ignore_index=True).assign(photo=pd.concat(paths).to_numpy())
    model = TableModel.fit(table, "class", quick=quick)
    rival = Rival.fit(vectors_of(table), table["class"].to_numpy(str))
    chance = asked["defect"].to_numpy()

    def how_wrong(answers: np.ndarray) -> np.ndarray:
        return np.where(answers == "defective", 1 - chance, chance)

    weights = 1 / asked.groupby("kind")["kind"].transform("size").to_numpy()
    return Judged.of(model, rival, asked[["photo"]], vectors_of(asked), weights, how_wrong)


def vectors_of(table: pd.DataFrame) -> np.ndarray:
    """Vectors (N, 1280) of the photos."""
    return encode_cached(EfficientNetLite0(), table["photo"].tolist())


def choose(judged: Judged, asked: pd.DataFrame) -> list[Shown]:
    """A cell of each decision, by a rule: nobody picked the ones that look best.

    Of the monocrystalline cells, the one with the least uncertainty among those accepted, and the
    one with the most aleatoric uncertainty among the ambiguous; of the polycrystalline ones, that
    with the median `ood_score` among the unfamiliar.
    """
    scored = judged.scored.assign(why=judged.reasons(COSTS), kind=asked["kind"])
    mono, poly = scored[scored["kind"] == "mono"], scored[scored["kind"] == "poly"]
    unfamiliar = poly[poly["why"] == "unfamiliar"].sort_values("ood_score")
    chosen = [
        *mono[mono["why"] == ""].nsmallest(1, "total").index,
        *mono[mono["why"] == "ambiguous"].nlargest(1, "aleatoric").index,
        *unfamiliar[len(unfamiliar) // 2 :].index[:1],
    ]
    nearest = judged.model.nearest(judged.rows.take(np.array(chosen)))
    return [
        Shown(asked["photo"][row], _said(scored.loc[row], asked.loc[row], each), each)
        for row, each in zip(chosen, nearest, strict=True)
    ]


def _said(scored: pd.Series, cell: pd.Series, nearest: Sequence[Nearest]) -> Record:
    return {
        "cell": Path(cell["photo"]).name,
        "kind": cell["kind"],
        "label": cell["label"],
        "prediction": scored["prediction"],
        "p": scored[f"p_{scored['prediction']}"],
        "aleatoric": scored["aleatoric"],
        "epistemic": scored["epistemic"],
        "reason": str(scored["why"]),
        "nearest": [str(each) for each in nearest],
    }


def draw_uncertainty(by_label: dict[str, pd.Series], by_kind: dict[str, pd.Series]) -> Figure:
    """Aleatoric by the label of the experts, epistemic by the kind of cell; a point is a cell."""
    figure = Figure(figsize=(8, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(4, 3))
    _draw_groups(left, by_label)
    left.set_xlabel("label of monocrystalline cells")
    left.set_title("aleatoric: are the experts sure?", fontsize=11)
    left.set_ylabel("nats")
    _draw_groups(right, by_kind)
    right.set_title("epistemic: is the cell familiar?", fontsize=11)
    for axes in (left, right):
        axes.set_ylim(0, np.log(2) * 1.02)
        axes.spines[["top", "right"]].set_visible(False)
    return figure


def _draw_groups(axes: Axes, groups: dict[str, pd.Series]) -> None:
    """A cloud of points and the quartiles of each group."""
    rng = np.random.default_rng(0)
    for place, values in enumerate(groups.values()):
        across = place + rng.uniform(-0.28, 0.28, len(values))
        axes.plot(across, values, ".", color=OURS, alpha=0.35, markersize=5, markeredgewidth=0)
        if len(values):
            low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
            axes.plot([place, place], [low, high], color="black", linewidth=2)
            axes.plot(place, middle, "_", color="black", markersize=26, markeredgewidth=2)
    lines = [[*name.split(", "), f"({len(each)})"] for name, each in groups.items()]
    axes.set_xticks(range(len(groups)), ["\n".join(each) for each in lines])


def draw_shown(shown: Sequence[Shown]) -> Figure:
    """Each chosen cell beside the two known ones that are nearest to it."""
    figure = Figure(figsize=(6.4, 0.4 + 2.2 * len(shown)), layout="constrained")
    for row, each in zip(figure.subplots(len(shown), 3, squeeze=False), shown, strict=True):
        thumbnails = [near.thumbnail for near in each.nearest[:2]]
        photos = [Image.open(each.photo), *(Image.open(io.BytesIO(one)) for one in thumbnails)]
        reason = each.said["reason"]
        said = f"deferred: {reason}" if reason else each.said["prediction"]
        titles = [f"{said}\n(label {each.said['label']})"]
        titles += [f"known: {near.label}" for near in each.nearest[:2]]
        for place, (axes, photo, title) in enumerate(zip(row, photos, titles, strict=True)):
            axes.imshow(photo.convert("L").resize((150, 150)), cmap="gray", vmin=0, vmax=255)
            axes.set_title(title, fontsize=9, color="black" if place == 0 else NEUTRAL)
            axes.set_axis_off()
    figure.supxlabel(SOURCE, fontsize=8, color=NEUTRAL)
    return figure


def blocks(record: Record) -> dict[str, str]:
    """The blocks of the page."""
    said = [
        [
            f"{each['kind']}, {each['label']}",
            f"{each['prediction']} ({each['p']:.2f})",
            f"{each['aleatoric']:.2f}",
            f"{each['epistemic']:.2f}",
            each["reason"] or "accept",
            ", ".join(each["nearest"]),
        ]
        for each in record["shown"]
    ]
    columns = ["cell, label", "answer", "aleatoric", "epistemic", "decision", "nearest known"]
    by_label = [
        [name, str(each["cells"]), f"{each['mean']:.2f}"]
        for name, each in record["aleatoric"].items()
    ]
    areas, means = record["auroc"], record["epistemic"]
    return {
        "fitted": as_quote(record["fitted"]),
        "shown": text_table(columns, said),
        "aleatoric": markdown_table(["label", "cells", "mean aleatoric, in nats"], by_label)
        + "\n\nThe AUROC between cells that experts were sure and unsure of is "
        f"{areas['unsure by aleatoric']:.2f}; by max softmax of logistic regression, "
        f"{areas['unsure by max softmax']:.2f}.",
        "epistemic": f"Its mean is {means['mono']:.2f} nats for monocrystalline cells and "
        f"{means['poly']:.2f} for polycrystalline ones. The AUROC of `ood_score` between them is "
        f"{areas['poly by ood_score']:.2f}; that of max softmax, "
        f"{areas['poly by max softmax']:.2f}.",
        "outcomes": outcome_table(record["outcomes"]),
        "costs": cost_table(record["compared"][MONO]),
        "prices": price_table(record["at prices"]),
        "costs of a shift": cost_table(record["compared"][MIXED]),
        "costs after": cost_table(record["compared"][f"{MIXED}, {LEARNED}"]),
    }


TUTORIAL = Tutorial("solar-cells", measure, blocks)


def main(arguments: Sequence[str] | None = None) -> Record:
    """Run the tutorial."""
    return TUTORIAL.run(__doc__.splitlines()[0], arguments)


if __name__ == "__main__":
    main()

"""What the tutorials on deferring share: tables, figures, the command and the page."""

from __future__ import annotations

import argparse
import json
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import numpy as np
from benchmarks.record import markdown_table
from examples.deferring import OUTCOMES, PRICES, Costs, Judged, Record
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from reproduction.pages.blocks import with_block
from sklearn.exceptions import ConvergenceWarning

from bacoun.tabular import TableModel

DOCS = Path(__file__).parents[1] / "docs"
LIBRARIES = ("bacoun", "torch", "numpy", "scikit-learn", "pandas")
# Of the outcomes: legible without color vision.
COLORS = dict(zip(OUTCOMES, ("#9ecae1", "#c0392b", "#f0b429", "#7b5ea7"), strict=True))
OURS, RIVAL, NEUTRAL = "#2563a8", "#d1752f", "#777777"


# --- tables and figures ---------------------------------------------------------------------------


def text_table(header: list[str], rows: list[list[str]]) -> str:
    """Rows as a Markdown table with all columns aligned to the left."""
    cells = [[cell.replace("|", r"\|") for cell in row] for row in rows]
    return markdown_table(header, cells).replace("---:", "---")


def price_table(at_prices: Mapping[str, Mapping[str, float]]) -> str:
    """The result of `Judged.at_prices` as Markdown."""
    header = ["cost of 1,000 items, at", *(f"{n} : 1" for n in PRICES)]
    columns = zip(*(costs.values() for costs in at_prices.values()), strict=True)
    cells = zip(*(_with_bold_minimum(column) for column in columns), strict=True)
    return markdown_table(header, [[way, *row] for way, row in zip(at_prices, cells, strict=True)])


def cost_table(compared: Mapping[str, Record]) -> str:
    """The result of `Judged.compare` as Markdown."""
    costs = _with_bold_minimum([way["cost"] for way in compared.values()])
    rows = [
        [name, cost, f"{way['deferred']:,.0f}", f"{way['wrong']:,.0f}"]
        for cost, (name, way) in zip(costs, compared.items(), strict=True)
    ]
    return markdown_table(["of 1,000 items", "cost", "deferred", "wrong answers"], rows)


def _with_bold_minimum(costs: Sequence[float]) -> list[str]:
    return [f"**{cost:,.0f}**" if cost == min(costs) else f"{cost:,.0f}" for cost in costs]


def outcome_table(groups: Mapping[str, Mapping[str, float]]) -> str:
    """The outcomes of some groups of items as Markdown, in percent."""
    rows = [
        [name, *(f"{100 * share:.1f}" for share in shares.values())]
        for name, shares in groups.items()
    ]
    return markdown_table(["in %", *OUTCOMES], rows)


def in_words(model: TableModel) -> list[str]:
    """What `bacoun fit` prints about rows, quality and its rule."""
    told = model.summary()
    rule = [line.strip() for line in told["deferral"].splitlines()]
    rows = told["rows"].replace(":", " rows:", 1)
    return [f"{rows}.", f"Quality: {told['quality']}.", *rule]


def as_quote(lines: Sequence[str]) -> str:
    """Lines as a Markdown list in a quotation."""
    return "\n".join(f"> - {line}" for line in lines)


def draw_outcomes(groups: Mapping[str, Mapping[str, float]]) -> Figure:
    """A bar for each group of items, of what happens to them."""
    figure = Figure(figsize=(8, 0.9 + 0.55 * len(groups)), layout="constrained")
    axes = figure.subplots()
    for place, shares in enumerate(groups.values()):
        left = 0.0
        for name, share in shares.items():
            axes.barh(place, share, left=left, color=COLORS[name], height=0.7)
            if share >= 0.04:
                color = "white" if name in ("answered, wrong", "deferred: unfamiliar") else "black"
                middle = left + share / 2
                axes.text(
                    middle, place, f"{100 * share:.0f} %", ha="center", va="center", color=color
                )
            left += share
    axes.set_yticks(range(len(groups)), groups)
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.tick_params(axis="y", length=0)
    handles = [Patch(color=color) for color in COLORS.values()]
    figure.legend(handles, OUTCOMES, loc="outside upper center", ncols=4, frameon=False)
    return figure


def draw_costs(streams: Mapping[str, Judged], costs: Costs, what: str) -> Figure:
    """Cost against share deferred at every threshold, and the rules as points; `what` arrives."""
    figure = Figure(figsize=(3 + 4.2 * len(streams), 4.6), layout="constrained")
    each = figure.subplots(1, len(streams), squeeze=False)[0]
    for axes, (title, judged) in zip(each, streams.items(), strict=True):
        _draw_costs(axes, judged, costs)
        axes.set_title(title if len(streams) > 1 else "", fontsize=11)
    each[0].set_ylabel(f"cost of 1,000 {what}")
    handles, names = each[0].get_legend_handles_labels()
    figure.legend(handles, names, loc="outside lower center", ncols=2, frameon=False)
    return figure


def _draw_costs(axes: Axes, judged: Judged, costs: Costs) -> None:
    ours = costs.curve(judged.weights, judged.wrong, judged.scored["total"].to_numpy())
    rival = costs.curve(judged.weights, judged.rival_wrong, -judged.confidence)
    (everything, way), *others = judged.compare(costs).items()
    (_, by_limit, as_many, _, by_fit, by_costs), most = others, way["cost"]
    models = (
        ("logistic regression, by max softmax", rival, RIVAL, by_limit, as_many),
        ("bacoun, by total uncertainty", ours, OURS, by_costs, by_fit),
    )
    for title, curve, color, *rules in models:
        axes.plot(*curve, color=color, label=title)
        for marker, (name, way) in zip("os", rules, strict=True):
            place, label = (way["deferred"] / 1000, way["cost"]), name.replace("`", "")
            style = {"color": color, "markeredgecolor": "white", "markersize": 9, "zorder": 3}
            axes.plot(*place, marker, label=label, **style)
        if color == RIVAL:  # so that the legend has a column for each model
            axes.axhline(most, color=NEUTRAL, linestyle=":", linewidth=1, label=everything)
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.05 * max(ours[1].max(), rival[1].max(), most))
    axes.xaxis.set_major_formatter("{x:.0%}")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.set_xlabel("share deferred to a person")
    axes.spines[["top", "right"]].set_visible(False)


# --- the command and the page ---------------------------------------------------------------------


@dataclass(frozen=True)
class Tutorial:
    """A command that measures what its page in `docs/tutorials` says."""

    name: str
    """Of the page; the figures start with it."""
    measure: Callable[[Path, bool], tuple[Record, dict[str, Figure]]]
    """Given a folder for its files, and whether to be quick: all numbers, and the figures."""
    blocks: Callable[[Record], dict[str, str]]
    """The blocks of the page, by name."""

    @property
    def page(self) -> Path:
        """The page."""
        return DOCS / "tutorials" / f"{self.name}.md"

    @property
    def record(self) -> Path:
        """The committed numbers."""
        return Path(__file__).with_name(f"{self.name.replace('-', '_')}.json")

    def page_text(self, text: str, record: Record) -> str:
        """The page with all blocks made from a record."""
        for name, content in self.blocks(record).items():
            text = with_block(text, name, content)
        return text

    def run(self, description: str, arguments: Sequence[str] | None = None) -> Record:
        """Read the arguments, measure, print, and write what was asked for."""
        folder = self.name.replace("-", "_")
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--quick", action="store_true", help="a few items, in seconds")
        parser.add_argument(
            "--out", type=Path, default=Path(folder), help="folder for data, numbers and figures"
        )
        parser.add_argument(
            "--docs", action="store_true", help="also update the page, its figures and its record"
        )
        asked = parser.parse_args(arguments)
        if asked.quick and asked.docs:
            parser.error("--docs needs the whole run; leave out --quick.")
        asked.out.mkdir(parents=True, exist_ok=True)
        with warnings.catch_warnings():
            if asked.quick:  # its posterior is short
                warnings.simplefilter("ignore", ConvergenceWarning)
            numbers, figures = self.measure(asked.out, asked.quick)
        versions = {name: version(name) for name in LIBRARIES}
        record = {
            "command": f"python -m examples.{folder}",
            "versions": {"python": platform.python_version()} | versions,
            **_rounded(numbers),
        }
        for title, content in self.blocks(record).items():
            print(f"\n{title}\n\n{content}")
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        (asked.out / self.record.name).write_text(text)
        folders = [asked.out]
        if asked.docs:
            self.record.write_text(text)
            self.page.write_text(self.page_text(self.page.read_text(), record))
            folders.append(DOCS / "images")
        for images in folders:
            for name, figure in figures.items():
                figure.savefig(images / f"{self.name}-{name}.png", dpi=110)
        print(f"\ndata, numbers and figures: {asked.out.resolve()}")
        return record


def _rounded(value: Any) -> Any:
    """The same with four decimals, so that a record is short."""
    if isinstance(value, dict):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_rounded(each) for each in value]
    return round(float(value), 4) if isinstance(value, float | np.floating) else value

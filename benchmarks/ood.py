"""Every method on every shift of the benchmark tables; extends ood.json.

    python -m benchmarks ood         the light methods
    python -m benchmarks ood-slow    those of minutes a fit too, on SLOW_CASES alone

Tables: every class or group of `NATURAL` and `LEFT_OUT` in turn, and synthetic shifts of each
table. All methods learn from the same rows, at most 1000, as TabPFN v1 takes no more. Settings may
be chosen on the cases of `DEVELOPMENT` tables; the ranks that are reported are over all others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from reproduction.datasets.frames import load_frame
from reproduction.datasets.sources import fetch
from reproduction.datasets.tables import load_table
from rich.console import Console

from bacoun.comparison.cases import FAR_SHIFTS, Case, with_synthetic_shifts
from bacoun.comparison.methods import METHODS, OURS
from bacoun.comparison.ranking import Ranking, rank
from bacoun.comparison.run import (
    DIFFICULTY,
    difficulty_table,
    measure,
    measure_difficulty,
    quality_table,
    shift_table,
)
from benchmarks import record as records
from benchmarks.ranks import draw_ranks, friedman, interval
from benchmarks.record import Record, markdown_table, rich_table, seeds_in

RECORD = Path(__file__).with_suffix(".json")
CHART = Path(__file__).parents[1] / "docs" / "images" / "ood-ranks.png"
SEEDS = (0, 1)
MAX_TRAIN, MAX_TEST = 1000, 1000
N_LEFT_OUT = 2  # classes of each table
LIBRARIES = ("bacoun", "torch", "numpy", "pandas", "scikit-learn", "catboost", "mapie", "pyod")
TABLES = (
    *("adult", "breast-cancer", "contraceptive", "credit_card", "digits-table", "employment"),
    *("fars", "german", "haberman", "iris", "letter", "mushroom", "penbased", "penguins", "pima"),
    *("saheart", "satimage", "segment", "sklearn-wine", "splice", "texture", "vehicle"),
    "wine-quality",
)
DEVELOPMENT = (
    *("breast-cancer", "contraceptive", "german", "haberman", "letter", "penguins", "segment"),
    *("sklearn-wine", "vehicle"),
)

# --- cases ----------------------------------------------------------------------------------------

Shift = tuple[pd.DataFrame, pd.DataFrame, str]
"""Rows to learn from and be tested on, rows of the shift, and the target."""


@lru_cache(maxsize=4)
def table_of(name: str) -> tuple[pd.DataFrame, str]:
    """A table by name, scikit-learn's digits as one of 64 numbers."""
    if name == "digits-table":
        X, y, names = load_table(name)
        return pd.DataFrame(X, columns=names).assign(label=y), "label"
    return load_frame(name)


def by_value(table: str, column: str, values: tuple[object, ...]) -> Shift:
    """Rows with these values of a column are the shift; the column is no input."""
    frame, target = table_of(table)
    outside = frame[column].isin(values)
    inputs = frame.drop(columns=column)
    return inputs[~outside], inputs[outside], target


def by_age(table: str, column: str, oldest: float) -> Shift:
    """People above an age are the shift; their age is no input."""
    frame, target = table_of(table)
    inputs = frame.drop(columns=column)
    return inputs[frame[column] <= oldest], inputs[frame[column] > oldest], target


def later_employment(year: int = 2018) -> Shift:
    """Massachusetts in 2015, and three years later."""
    frame, target = table_of("employment")
    folder = fetch("tables", None)
    later = pd.read_parquet(folder / "employment_MA_analysis.parquet")
    labels = pd.read_parquet(folder / "employment_MA_analysis_target.parquet")
    later = later[later["year"] == year].merge(labels, on="id")[list(frame.columns)]
    coded = later.select_dtypes("category").columns
    return frame, later.astype(dict.fromkeys(coded, "str")), target


def red_wine() -> Shift:
    """White wine of quality 5 or 7, and red wine of the same quality."""
    frame, target = table_of("wine-quality")
    red = pd.read_csv(fetch("tables", None) / "winequality-red.csv.gz", sep=";")
    red = red[red["quality"].isin([5, 7])].rename(columns={"quality": target})
    return frame, red[list(frame.columns)], target


NATURAL: dict[str, Callable[[], Shift]] = {
    "employment, 2018": later_employment,
    "fars, Texas": lambda: by_value("fars", "CASE_STATE", ("Texas",)),
    "wine-quality, red": red_wine,
    "adult, women": lambda: by_value("adult", "sex", ("Female",)),
    "adult, over 60": lambda: by_age("adult", "age", 60),
    "credit_card, over 50": lambda: by_age("credit_card", "AGE", 50),
    "credit_card, women": lambda: by_value("credit_card", "SEX", (1,)),
    "penguins, Dream": lambda: by_value("penguins", "island", ("Dream",)),
}


def left_out(table: str, label: object) -> Shift:
    """Rows of one class are the shift."""
    frame, target = table_of(table)
    outside = frame[target] == label
    return frame[~outside], frame[outside], target


def cases() -> dict[str, Callable[[int], Case]]:
    """Every case by name, made from a seed; names begin with the table."""
    found: dict[str, Callable[[int], Case]] = {}
    for name, shift in NATURAL.items():
        found[name] = partial(_natural, name.split(", ")[1], shift)
    for table in TABLES:
        for label in left_out_labels(table):
            shift = partial(left_out, table, label)
            found[f"{table}, class {label}"] = partial(_natural, f"class {label}", shift)
    for table in TABLES:
        found[f"{table}, synthetic"] = partial(_synthetic, table)
    return found


def left_out_labels(table: str) -> list[Any]:
    """Two classes, drawn at random once, of a table with at least three of 40 rows."""
    frame, target = table_of(table)
    counts = frame[target].value_counts().sort_index()
    labels = [label for label, count in counts.items() if count >= 40]
    if len(labels) < 3:
        return []
    return [labels[k] for k in np.random.default_rng(0).permutation(len(labels))[:N_LEFT_OUT]]


@lru_cache(maxsize=2)
def _natural(name: str, shift: Callable[[], Shift], seed: int) -> Case:
    inside, outside, target = shift()
    train, test = _split(inside, target, seed)
    return Case.from_frames(train, test, {name: _sample(outside, MAX_TEST, seed)}, target)


@lru_cache(maxsize=2)
def _synthetic(table: str, seed: int) -> Case:
    frame, target = table_of(table)
    train, test = _split(frame, target, seed)
    return with_synthetic_shifts(Case.from_frames(train, test, {}, target), seed)


def _split(frame: pd.DataFrame, target: str, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    order = np.random.default_rng(seed).permutation(len(frame))
    n_test = min(MAX_TEST, round(0.3 * len(frame)))
    test, train = order[:n_test], order[n_test:][:MAX_TRAIN]
    return tuple(frame.iloc[rows].reset_index(drop=True) for rows in (train, test))  # type: ignore


def _sample(frame: pd.DataFrame, most: int, seed: int) -> pd.DataFrame:
    rows = np.random.default_rng(seed).permutation(len(frame))[:most]
    return frame.iloc[rows].reset_index(drop=True)


# --- runs -----------------------------------------------------------------------------------------

SLOW_CASES = ("segment, class", "sklearn-wine, class", "satimage, class", "wine-quality, red")
"""Beginnings of the names of those cases that slow methods are run on, with the first seed."""


def tasks(names: Mapping[str, Any], slow: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """All runs by name, one seed after the other, and within it one case after the other."""
    made = cases()
    for seed in SEEDS:
        for name in names:
            for method, how in METHODS.items():
                chosen = how.slow and slow and seed == SEEDS[0] and name.startswith(SLOW_CASES)
                if chosen or not how.slow:
                    yield (
                        f"{name}/{seed}/{method}",
                        lambda n=name, s=seed, m=method: measure(made[n](s), m, s),
                    )
            yield (
                f"{name}/{seed}/{DIFFICULTY}",
                lambda n=name, s=seed: measure_difficulty(made[n](s), s),
            )


def main(slow: bool = False) -> None:
    """Measure what the record lacks, print it all and draw the ranks."""
    record = records.resume(RECORD, dict(tasks(cases(), slow)), LIBRARIES)
    show(record)
    draw_ranks(rankings(report_half(record)), CHART)


# --- results --------------------------------------------------------------------------------------


def of_light(record: Record) -> Record:
    """The record without slow methods, which were not run on all cases."""
    light = {
        name: run
        for name, run in record["runs"].items()
        if name.endswith(f"/{DIFFICULTY}") or not METHODS[name.split("/")[2]].slow
    }
    return {**record, "runs": light}


def report_half(record: Record) -> Record:
    """Runs of light methods on tables that nothing was chosen on."""
    runs = of_light(record)["runs"].items()
    return {**record, "runs": {n: run for n, run in runs if n.split(",")[0] not in DEVELOPMENT}}


def rankings(record: Record) -> dict[str, Ranking]:
    """By AUROC and AURC over cases and shifts, and by log loss over cases."""
    return {
        name: rank(table, OURS, higher_is_better=name == "AUROC")
        for name, table in ranked_tables(record).items()
    }


def ranked_tables(record: Record) -> dict[str, pd.DataFrame]:
    """What methods are ranked by: a row for each case, a column for each score."""
    return {
        "AUROC": shift_table(record, "auroc"),
        "AURC, shifted rows count as errors": shift_table(record, "aurc"),
        "Log loss on test rows": quality_table(record, "log loss"),
    }


SHORT = (
    *("method", "rank AUROC", "rank AURC", "rank log loss", "natural", "left-out class"),
    *("synthetic", "far", "accuracy", "log loss", "fit s"),
)
KINDS = {
    "natural": lambda case, shift: case in NATURAL,
    "left-out class": lambda case, shift: shift.startswith("class "),
    "synthetic": lambda case, shift: case.endswith(", synthetic") and shift not in FAR_SHIFTS,
    "far": lambda case, shift: shift in FAR_SHIFTS,
}


def of_kind(table: pd.DataFrame, kind: str) -> pd.DataFrame:
    """The rows of a table of cases and shifts that are of one kind."""
    return table[[KINDS[kind](case, shift) for case, shift in table.index]]


def summary_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: each score with its mean ranks, means by kind of shift, and times."""
    ranked = rankings(record)
    areas, quality = shift_table(record, "auroc"), quality_table(record, "accuracy")
    losses, seconds = quality_table(record, "log loss"), quality_table(record, "fit seconds")
    risk, miss = shift_table(record, "aurc"), shift_table(record, "fpr95")
    by_kind = {kind: of_kind(areas, kind).mean() for kind in KINDS}
    rows = []
    for name in ranked["AUROC"].ranks.index:
        low, high = interval(areas[name].to_numpy())
        rows.append(
            [
                name,
                *(f"{each.ranks[name]:.2f}" for each in ranked.values()),
                f"{areas[name].mean():.3f} [{low:.3f}, {high:.3f}]",
                *(f"{by_kind[kind][name]:.3f}" for kind in KINDS),
                f"{miss[name].mean():.3f}",
                f"{risk[name].mean():.3f}",
                f"{quality[name].mean():.3f}",
                f"{losses[name].mean():.3f}",
                f"{seconds[name].mean():.1f}",
            ]
        )
    ranks = ["rank AUROC", "rank AURC", "rank log loss"]
    measures = ["FPR95", "AURC", "accuracy", "log loss", "fit s"]
    return ["method", *ranks, "AUROC [95 %]", *KINDS, *measures], rows


def test_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: Wilcoxon's p-value, after Holm, of each other score against ours."""
    ranked = rankings(record)
    names = [name for name in ranked["AUROC"].ranks.index if name != OURS]
    rows = [[name, *(f"{each.wilcoxon[name]:.1g}" for each in ranked.values())] for name in names]
    tables = ranked_tables(record).values()
    of_all = ["Friedman, all methods", *(f"{friedman(table):.1g}" for table in tables)]
    return ["against", "AUROC", "AURC", "log loss"], [of_all, *rows]


def not_first_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: shifts on which another score has a higher AUROC, with the best of them."""
    areas, at_best = shift_table(record, "auroc"), difficulty_table(record)
    rows = []
    for key, values in areas.iterrows():
        winner = values.idxmax()
        if values[winner] > values[OURS]:
            case, shift = key
            cells = [f"{values[OURS]:.3f}", winner, f"{values[winner]:.3f}", f"{at_best[key]:.3f}"]
            place = int((values > values[OURS]).sum()) + 1
            rows.append([case, shift, *cells, str(place)])
    return ["case", "shift", "bacoun", "best", "its AUROC", "difficulty", "our place"], rows


def labeled_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: class probabilities on shifts whose rows have labels of known classes."""
    columns = [shift_table(record, metric) for metric in ("accuracy", "log loss", "ece")]
    order = columns[1].mean().sort_values().index
    rows = [[name, *(f"{column[name].mean():.3f}" for column in columns)] for name in order]
    return ["method", "accuracy", "log loss", "ECE"], rows


def slow_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: all methods on the cases that slow ones were run on."""
    chosen = {name.rsplit("/", 1)[0] for name in record["runs"] if _is_slow(name)}
    runs = {n: run for n, run in record["runs"].items() if n.rsplit("/", 1)[0] in chosen}
    part = {**record, "runs": runs}
    areas, losses = shift_table(part, "auroc"), quality_table(part, "log loss")
    seconds, quality = quality_table(part, "fit seconds"), quality_table(part, "accuracy")
    rows = [
        [
            name,
            f"{areas[name].mean():.3f}",
            f"{quality[name].mean():.3f}",
            f"{losses[name].mean():.3f}",
            f"{seconds[name].mean():.1f}",
        ]
        for name in areas.mean().sort_values(ascending=False).index
    ]
    return ["method", "AUROC", "accuracy", "log loss", "fit s"], rows


def _is_slow(name: str) -> bool:
    method = name.split("/")[2]
    return method != DIFFICULTY and METHODS[method].slow


def show(record: Record) -> None:
    """Print the tables of the report half."""
    console, half = Console(width=170), report_half(record)
    console.print(rich_table("means over the report half", *summary_rows(half)))
    console.print(rich_table("p-values against bacoun", *test_rows(half)))
    console.print(rich_table("shifts on which bacoun is not first", *not_first_rows(half)))


def short_markdown(record: Record, n_methods: int = 10) -> str:
    """The best methods of the report half, for the README."""
    half = report_half(record)
    header, rows = summary_rows(half)
    kept = [header.index(name) for name in SHORT]
    best = [[row[place] for place in kept] for row in rows[:n_methods]]
    return markdown_table(list(SHORT), best) + "\n"


def markdown(record: Record) -> str:
    """The tables of the report half, and of slow methods, as Markdown."""
    half = report_half(record)
    areas = shift_table(half, "auroc")
    parts = [
        f"{len(areas)} shifts of tables that nothing was chosen on, {seeds_in(half['runs'])}:",
        markdown_table(*summary_rows(half)),
        "p-values, ours against each other, Wilcoxon's signed-rank test over shifts with Holm's "
        "correction:",
        markdown_table(*test_rows(half)),
        "Class probabilities under natural shifts that have labels of known classes "
        f"({len(shift_table(half, 'accuracy'))} of them):",
        markdown_table(*labeled_rows(half)),
        "Shifts on which another score has a higher AUROC:",
        markdown_table(*not_first_rows(half)),
    ]
    if any(map(_is_slow, record["runs"])):
        parts += ["Slow methods, one seed:", markdown_table(*slow_rows(record))]
    return "\n\n".join(parts) + "\n"

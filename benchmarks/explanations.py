"""How well the spoiled columns of a row are named; extends explanations.json.

    python -m benchmarks explanations

One, two or three columns of each test row are spoiled in three ways. A method ranks the columns of
each row, the most surprising first; its precision is the share of spoiled columns among the first m
that it names, m being the number of spoiled ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from reproduction.datasets.frames import load_frame, split_frame
from rich.console import Console

from benchmarks import record as records
from benchmarks.detectors import fit_model, numbers_in
from benchmarks.rankers import METHODS, Fitted, Ranker, Rankings
from benchmarks.record import Record, mean_of
from benchmarks.spoil import varied

RECORD = Path(__file__).with_suffix(".json")
TABLES = (
    *("breast-cancer", "sklearn-wine", "wine-quality", "pima", "vehicle", "segment"),
    *("german", "penguins"),
)
SEEDS = (0, 1, 2)
MAX_TRAIN, MAX_ROWS = 2000, 100
LIBRARIES = ("bacoun", "torch", "numpy", "pandas", "scikit-learn", "shap")

# --- spoiled rows ---------------------------------------------------------------------------------

Spoil = Callable[[np.random.Generator, pd.Series, list[str], pd.DataFrame], dict[str, Any] | None]
"""Takes a row, the columns to spoil and the training rows; returns their new values, or None if
they cannot be spoiled so that each of them changes."""


def move(
    rng: np.random.Generator, row: pd.Series, names: list[str], known: pd.DataFrame
) -> dict[str, Any] | None:
    """Numbers move up or down by 4 to 8 standard deviations, categories become another one."""
    values: dict[str, Any] = {}
    for name in names:
        if pd.api.types.is_numeric_dtype(known[name]):
            values[name] = row[name] + rng.choice([-1, 1]) * rng.uniform(4, 8) * known[name].std()
        else:
            others = sorted(set(known[name].dropna()) - {row[name]})
            values[name] = others[rng.integers(len(others))]
    return values


def take(
    rng: np.random.Generator, row: pd.Series, names: list[str], known: pd.DataFrame
) -> dict[str, Any] | None:
    """All come from one training row that differs in each of them."""
    cells = known[names]
    rows = np.flatnonzero((cells.notna() & (cells != row[names])).all(axis=1))
    return cells.iloc[rng.choice(rows)].to_dict() if len(rows) else None


def swap(
    rng: np.random.Generator, row: pd.Series, names: list[str], known: pd.DataFrame
) -> dict[str, Any] | None:
    """Each number goes to the next of the columns, and the last one to the first."""
    values = [row[name] for name in names]
    moved = values[-1:] + values[:-1]
    if any(new == old for new, old in zip(moved, values, strict=True)):
        return None
    return dict(zip(names, moved, strict=True))


def varied_numbers(known: pd.DataFrame) -> list[str]:
    """Columns of numbers that vary."""
    return [name for name in varied(known) if name in numbers_in(known)]


WAYS: dict[str, tuple[Spoil, Callable[[pd.DataFrame], list[str]], tuple[int, ...]]] = {
    "moved": (move, varied, (1, 2, 3)),
    "from another row": (take, varied, (1, 2, 3)),
    "swapped": (swap, varied_numbers, (2, 3)),
}
_TRIES = 50  # draws of columns for a row, before it is left out


def spoil(
    rng: np.random.Generator, rows: pd.DataFrame, known: pd.DataFrame, way: str, n_columns: int
) -> tuple[pd.DataFrame, list[set[str]]]:
    """Spoil `n_columns` random columns of each row, other than its gaps.

    Returns
    -------
    DataFrame of n <= N rows
        Without rows that could not be spoiled.
    list of n sets of str
        Which columns of each row are spoiled.
    """
    change, suitable, _ = WAYS[way]
    candidates = suitable(known)
    # As float64, because a moved whole number is no longer whole.
    cells = rows.astype(dict.fromkeys(numbers_in(rows), np.float64)).astype(object)
    spoiled, columns = [], []
    for _, row in cells.iterrows():
        present = [name for name in candidates if pd.notna(row[name])]
        for _ in range(_TRIES if len(present) >= n_columns else 0):
            names = [present[place] for place in rng.permutation(len(present))[:n_columns]]
            values = change(rng, row, names, known)
            if values is not None:
                spoiled.append({**row, **values})
                columns.append(set(names))
                break
    return pd.DataFrame(spoiled, columns=rows.columns).infer_objects(), columns


# --- measurement ----------------------------------------------------------------------------------


def precision(rankings: Rankings, spoiled: list[set[str]]) -> float:
    """Mean share of spoiled columns among as many that are named first."""
    hits = [
        len(columns & set(ranking[: len(columns)])) / len(columns)
        for ranking, columns in zip(rankings, spoiled, strict=True)
    ]
    return float(np.mean(hits))


def measure(
    table: str,
    seed: int,
    quick: bool = False,
    methods: Mapping[str, Callable[[Fitted], Ranker]] = METHODS,
) -> dict[str, Any]:
    """One entry of the record.

    Returns
    -------
    dict
        "precision": for each method, by "way/number of columns"; "rows per second" of each method.
    """
    frame, target = load_frame(table)
    train, test = split_frame(frame, target, n_train=MAX_TRAIN, n_test=MAX_ROWS, random_state=seed)
    known, rows = train.drop(columns=target), test.drop(columns=target)
    fitted = Fitted(known, fit_model(train, target, seed, quick), seed)
    rng = np.random.default_rng(seed)
    cases = {
        f"{way}/{n_columns}": spoil(rng, rows, known, way, n_columns)
        for way, (_, _, numbers) in WAYS.items()
        for n_columns in numbers
    }
    found: dict[str, Any] = {"precision": {}, "rows per second": {}}
    for name, method in methods.items():
        ranker = method(fitted)
        ranker(rows.head(2))  # first use of libraries
        started = time.perf_counter()
        rankings = {case: ranker(spoiled) for case, (spoiled, _) in cases.items()}
        seconds = time.perf_counter() - started
        found["rows per second"][name] = round(sum(map(len, rankings.values())) / seconds)
        found["precision"][name] = {
            case: round(precision(rankings[case], columns), 4)
            for case, (_, columns) in cases.items()
        }
    return found


def main() -> None:
    """Measure what the record lacks, and print it all."""
    show(records.resume(RECORD, records.tasks(measure, TABLES, SEEDS), LIBRARIES))


def precision_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: mean precision by way and number of columns, their mean, and the speed."""
    runs = list(record["runs"].values())
    names = list(runs[0]["precision"]) if runs else []
    rows, means = [], []
    for case in [f"{way}/{n}" for way, (_, _, numbers) in WAYS.items() for n in numbers]:
        means.append(
            [mean_of([run["precision"][name].get(case) for run in runs]) for name in names]
        )
        way, _, n_columns = case.partition("/")
        rows.append([way, n_columns, *map(as_share, means[-1])])
    of_all = [mean_of(list(column)) for column in zip(*means, strict=True)]
    speed = [mean_of([run["rows per second"][name] for run in runs]) for name in names]
    rows.append(["mean", "", *map(as_share, of_all)])
    rows.append(["rows per second", "", *(f"{value:,.0f}" for value in speed)])
    return ["way", "columns", *names], rows


def as_share(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


TITLE = "Share of spoiled columns among as many that are named first"


def show(record: Record) -> None:
    """Print the precision of every method."""
    Console(width=120).print(records.rich_table(TITLE, *precision_rows(record)))


def markdown(record: Record) -> str:
    """The same table as Markdown, under its title."""
    return f"{TITLE}:\n\n{records.markdown_table(*precision_rows(record))}\n"


if __name__ == "__main__":
    main()

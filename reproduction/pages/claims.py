"""Claims of the paper, and the records they are checked against."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from reproduction.pages.tables import lines, spread
from reproduction.results import load_records, number_at
from reproduction.schema import names, read_experiment

from bacoun.uncertainty import rank_correlation

HOLDS, FAILS, UNDECIDED, OPEN = "holds", "does not hold", "undecided", "not measured"
VERDICTS = (HOLDS, FAILS, UNDECIDED, OPEN)
PAPER, OURS = "BaCOUn, paper", "BaCOUn"  # the paper's recipe and our default
BOTH = (PAPER, OURS)

Cell = Callable[[str, str], str]
"""From a row and a column of a table to the text of its cell."""


class Results:
    """All records, indexed by experiment, method and the path of a number."""

    def __init__(self, folder: Path) -> None:
        self.records = {name: load_records(folder, read_experiment(name)) for name in names()}

    def values(self, experiment: str, method: str, path: str) -> pd.Series:
        """The value of each seed, by seed; KeyError if nothing was measured."""
        found = {
            record.seed: number_at(record, path)
            for record in self.records[experiment]
            if record.method == method
        }
        measured = pd.Series(found, dtype=float).dropna().sort_index()
        if len(measured) == 0:
            raise KeyError(f"{experiment}: no {path} of {method}")
        return measured

    def measured(self, experiment: str, methods: Iterable[str]) -> list[str]:
        """Those of the methods that there are records of."""
        known = {record.method for record in self.records[experiment]}
        return [method for method in methods if method in known]

    def show(self, experiment: str, method: str, path: str) -> str:
        """Mean ± standard deviation over seeds."""
        return spread(self.values(experiment, method, path).to_numpy())

    def rank_correlations(self, experiment: str, method: str, to: str) -> pd.Series:
        """Rank correlation of two methods' maps of total uncertainty, by seed."""
        maps = {
            (record.method, record.seed): record.arrays["map total"].astype(float).ravel()
            for record in self.records[experiment]
            if "map total" in record.arrays
        }
        seeds = sorted(seed for name, seed in maps if name == method and (to, seed) in maps)
        if not seeds:
            raise KeyError(f"{experiment}: no maps of {method} and {to}")
        return pd.Series({s: rank_correlation(maps[method, s], maps[to, s]) for s in seeds})


@dataclass(frozen=True)
class Claim:
    """A statement of the paper and how it is checked.

    Attributes
    ----------
    where : str
        Where the paper makes it.
    statement : str
        The claim.
    measured : callable
        The numbers it rests on: a sentence and a table, as Markdown.
    weigh : callable
        The verdict about one variant of BaCOUn, the paper's recipe or our default.
    remark : str
        What a reader should know besides.
    shared : bool
        Whether it is about something else, such as a baseline, so that one verdict is enough.
    """

    where: str
    statement: str
    measured: Callable[[Results], str]
    weigh: Callable[[Results, str], str]
    remark: str = ""
    shared: bool = False


def above(one: pd.Series, other: pd.Series | float) -> str:
    """Whether one number is larger than another, by more than two standard errors over seeds.

    The difference is taken seed by seed. With a single seed nothing is decided.

    Examples
    --------
    >>> above(pd.Series({0: 2.0, 1: 2.2}), 1.0), above(pd.Series({0: 0.9, 1: 1.2}), 1.0)
    ('holds', 'undecided')
    """
    difference = (one - other).dropna()
    if len(difference) < 2:
        return UNDECIDED
    mean, error = difference.mean(), difference.std() / np.sqrt(len(difference))
    if mean > 2 * error:
        return HOLDS
    return FAILS if mean < -2 * error else UNDECIDED


def below(one: pd.Series, other: pd.Series | float) -> str:
    """The same for a smaller number."""
    return above(-one, -other)


def all_of(verdicts: Iterable[str]) -> str:
    """Holds if all parts of a claim do; fails if one does."""
    found = set(verdicts)
    return next((verdict for verdict in (FAILS, UNDECIDED) if verdict in found), HOLDS)


def negated(verdict: str) -> str:
    """The verdict about the opposite."""
    return {HOLDS: FAILS, FAILS: HOLDS}.get(verdict, verdict)


def any_of(verdicts: Iterable[str]) -> str:
    """Holds if one of them does; fails if all do."""
    return negated(all_of(map(negated, verdicts)))


def told(lead: str, corner: str, rows: Iterable[str], columns: Iterable[str], cell: Cell) -> str:
    """A sentence and a table; a cell that was not measured is "-". KeyError if none was."""
    names = list(columns)
    body, missing = [], ""
    for row in rows:
        body.append([row])
        for column in names:
            try:
                body[-1].append(cell(row, column))
            except KeyError as error:
                body[-1].append("-")
                missing = error.args[0]
    if all(text == "-" for _, *cells in body for text in cells):
        raise KeyError(missing)
    return "\n".join([lead, "", *lines([corner, *names], body, 1)])


def by_method(
    r: Results, lead: str, experiment: str, methods: Iterable[str], columns: Mapping[str, str]
) -> str:
    """A sentence and a table of numbers, from the heading of each to its path in the records."""
    return told(
        lead, "method", methods, columns, lambda m, name: r.show(experiment, m, columns[name])
    )

"""check_table: what is different about a table, before it is scored."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from itertools import product
from typing import Any, NamedTuple

import pandas as pd
from scipy.stats import binom

from bacoun.columns.cells import Cells, as_numbers, equals
from bacoun.columns.checks.comparing import Difference, compare
from bacoun.columns.checks.content import STRIKING, ColumnCheck
from bacoun.columns.checks.findings import Finding, Severity, most_serious_first
from bacoun.columns.column import Column
from bacoun.columns.frames import as_pandas
from bacoun.columns.profile import TableProfile
from bacoun.columns.reading import listed
from bacoun.files.text import percent

_ALPHA = 1e-4  # probability of any false alarm among the columns of a table
_SIMILAR_NAME = 0.75
_MIN_ROWS_TO_MATCH = 20  # with fewer, many columns look alike
_CHECKED_ROWS = 2000  # that suffice to see whether a column looks like another one


def check_table(profile: TableProfile, frame: Any, target: str | None = None) -> list[Finding]:
    """Say what is different about a table, most serious first.

    Serious is what makes the scores of many rows meaningless, or scoring impossible: a column that
    is missing, renamed, retyped, swapped or has another unit, decimal commas, codes for missing
    values in at least 1 % of the rows, gaps in more than 5 % of the rows where training had none,
    new categories or values out of range in more than 20 % of the rows, and a mean that moved by
    more than a standard deviation. All else is a note: columns in another order or not used, a few
    new categories, a mild shift, copies of training rows.

    A shift is reported if it matters and is not due to chance, so that a random sample of the
    training distribution has no findings, whatever its size.

    Parameters
    ----------
    profile : TableProfile
        The training table.
    frame : DataFrame of N rows
        Any table; its cells may all be text.
    target : str, optional
        Name of the column with the labels, which the table may have.

    Examples
    --------
    >>> table = pd.DataFrame({"height": [1.6, 1.7, 1.8, 1.75, 1.65] * 20})
    >>> profile = TableProfile.of(table, {"height": "number"})
    >>> for finding in check_table(profile, 100 * table):
    ...     print(finding.kind, "-", finding.message)
    unit - 'height' has another unit: in training it was mostly from 1.65 to 1.75, now \
from 165 to 175, which x 100 (m as cm, or a fraction as percent) \
explains. Convert it back.
    """
    frame = as_pandas(frame)
    frame = frame.set_axis([str(name) for name in frame.columns], axis=1)
    findings = list(_repeated_names(frame))
    frame = frame.loc[:, ~frame.columns.duplicated()]
    findings += _names(profile, frame, target)
    if len(frame) == 0:
        findings.append(Finding("serious", None, "empty", "the table has no rows."))
        return most_serious_first(findings)
    used = [column for column in profile.used if column.name in frame]
    cells = {
        column.name: Cells.read(frame[column.name], column.kind, column.date_format)
        for column in used
    }
    alpha = _ALPHA / max(len(used), 1)
    moved = _moved(used, frame, cells, alpha)
    findings += _moved_findings(profile, moved)
    for column in used:
        name = column.name
        if name not in moved:
            findings += ColumnCheck(column, frame[name], cells[name], alpha).findings()
    compared = Compared(profile, frame, cells)
    for check in TABLE_CHECKS.values():
        findings += check(compared)
    return most_serious_first(findings)


class Compared(NamedTuple):
    """A new table beside the training table: what a check of a whole table is given."""

    profile: TableProfile
    frame: pd.DataFrame
    cells: Mapping[str, Cells]  # of the columns that the model uses, by name


def _repeated_names(frame: pd.DataFrame) -> Iterator[Finding]:
    for name in frame.columns[frame.columns.duplicated()].unique():
        message = f"'{name}' occurs more than once; rename the others."
        yield Finding("serious", name, "repeated column", message)


def _names(profile: TableProfile, frame: pd.DataFrame, target: str | None) -> Iterator[Finding]:
    """Columns that are missing, renamed, not known, or in another order."""
    absent = [column for column in profile.used if column.name not in frame]
    extra = [str(name) for name in frame if name not in profile.names and name != target]
    if absent and len(absent) == len(profile.used) and (unread := list(_header(extra))):
        yield from unread  # that all columns are missing goes without saying
        return
    renamed = _renamed(absent, frame[extra])
    for name in (column.name for column in absent):
        if name in renamed:
            now, why = renamed[name]
            message = f"'{name}' is missing; '{now}' {why}. Rename it if it is the same."
            yield Finding("serious", name, "renamed column", message)
        else:
            message = f"'{name}' is missing; the model needs it."
            yield Finding("serious", name, "missing column", message)
    if unused := [name for name in extra if name not in {now for now, _ in renamed.values()}]:
        message = f"columns that training did not have are not used: {listed(unused)}."
        yield Finding("note", None, "extra column", message)
    common = [name for name in profile.names if name in frame]
    if common != [name for name in frame if name in common]:
        message = "the columns are in another order than in training; they are found by name."
        yield Finding("note", None, "reordered", message)


def _header(names: list[str]) -> Iterator[Finding]:
    if len(names) == 1 and (mark := re.search(r"[|:;\t ]", names[0].strip())):
        message = f"the table has one column, '{names[0][:60]}'; its delimiter may be {mark[0]!r}."
        yield Finding("serious", None, "delimiter", message)
    numbers = as_numbers(pd.Series(names, dtype=object)) if names else None
    if numbers is not None and (numbers == numbers).mean() > 0.2:
        message = f"the header seems to be missing; the first row is {listed(names, most=3)}."
        yield Finding("serious", None, "no header", message)


def _renamed(absent: list[Column], extra: pd.DataFrame) -> dict[str, tuple[str, str]]:
    """From a missing column to the extra one that it may have become, and why."""
    sample, scored = _Sample(extra), []
    for column, name in product(absent, map(str, extra)):
        likeness, difference = _likeness(column.name, name), sample.compare(column, name)
        size, pair = difference.size, (column.name, name)
        if likeness >= _SIMILAR_NAME:
            scored.append((2 + likeness - size, *pair, "has a similar name"))
        elif len(extra) >= _MIN_ROWS_TO_MATCH and difference.fits:
            scored.append((1 - size, *pair, "has the same distribution"))
    result: dict[str, tuple[str, str]] = {}
    for _, before, now, why in sorted(scored, reverse=True):
        if before not in result and now not in {taken for taken, _ in result.values()}:
            result[before] = now, why
    return result


def _likeness(one: str, other: str) -> float:
    """From 0 to 1, how similar two names are, whatever their case and the order of their words."""
    a, b = (" ".join(sorted(re.findall(r"[^\W_]+", name.casefold()))) for name in (one, other))
    return SequenceMatcher(None, a, b, autojunk=False).ratio()


class _Sample:
    """Some rows of a table, whose columns are compared with the profiles of others."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.rows = frame.iloc[:: -(-len(frame) // _CHECKED_ROWS) or 1]
        self.read: dict[tuple[str, str, str | None], Cells] = {}

    def compare(self, column: Column, name: str) -> Difference:
        """How different the column `name` is from another one in training."""
        key = name, column.kind, column.date_format
        if key not in self.read:
            self.read[key] = Cells.read(self.rows[name], column.kind, column.date_format)
        cells = self.read[key]
        return compare(column, cells) if len(cells.present) else Difference(1.0, 0.0)


def _moved(
    used: list[Column], frame: pd.DataFrame, cells: Mapping[str, Cells], alpha: float
) -> dict[str, str]:
    """From a column that is not what it was to the one whose values it seems to hold.

    Only swapped columns, and three or more neighbors that moved by one place, are recognized.
    """
    if len(frame) < _MIN_ROWS_TO_MATCH:
        return {}
    now = {column.name: compare(column, cells[column.name]) for column in used}
    strange = [c for c in used if now[c.name].p < alpha and now[c.name].size >= STRIKING]
    sample = _Sample(frame)
    place = {column.name: i for i, column in enumerate(used)}
    fits = {
        (here.name, there.name): difference.size
        for here in strange
        for there in used
        if here is not there and (difference := sample.compare(there, here.name)).fits
    }
    moved: dict[str, str] = {}
    for here, there in sorted(fits, key=lambda pair: fits[pair]):
        if (there, here) in fits and not {here, there} & moved.keys():
            moved |= {here: there, there: here}
    for step in (-1, 1):
        run = {a: b for a, b in fits if place[b] - place[a] == step and a not in moved}
        if len(run) >= 3:
            moved |= run
    return moved


def _moved_findings(profile: TableProfile, moved: Mapping[str, str]) -> Iterator[Finding]:
    for here, there in moved.items():
        if moved.get(there) != here:
            message = f"'{here}' seems to hold the values of '{there}'; values are one column off."
            yield Finding("serious", here, "off by one", message)
        elif profile.names.index(here) < profile.names.index(there):
            message = f"'{here}' and '{there}' seem to be swapped."
            yield Finding("serious", here, "swapped", message)


def _constants(compared: Compared) -> Iterator[Finding]:
    profile, frame, _ = compared
    for column in profile.columns:
        if not column.dropped or column.name not in frame or len(column.counts) != 1:
            continue
        (value,) = column.counts
        now = frame[column.name]
        changed = now[~equals(now, value)]
        if len(changed):
            share = len(changed) / len(now)
            message = (
                f"'{column.name}' was always '{value}' in training; {percent(share)} of the rows "
                f"differ, such as '{str(changed.iloc[0])[:40]}'."
            )
            severity: Severity = "serious" if share > 0.05 else "note"
            yield Finding(severity, column.name, "constant changed", message)


def _copies(compared: Compared) -> Iterator[Finding]:
    """Copies of training rows, if there are more than among the training rows themselves."""
    (profile, _, cells), n_rows = compared, len(compared.frame)
    if len(cells) < len(profile.used):
        return
    known = profile.copies(cells[column.name] for column in profile.used)
    before = max((column.n_rows for column in profile.columns), default=0)
    expected = max(profile.repeated, 0.1 / max(before, 1)) * profile.hashed
    if known and binom.sf(known - 1, n_rows, expected) < 1e-3:
        share = percent(min(1.0, known / n_rows / profile.hashed))
        message = f"{share} of the rows are copies of training rows; scores on them look too good."
        yield Finding("note", None, "duplicates", message)


TABLE_CHECKS: dict[str, Callable[[Compared], Iterable[Finding]]] = {
    "constants": _constants,
    "copies": _copies,
}

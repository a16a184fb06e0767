"""What is different about one column: its content, its gaps, its categories, its distribution."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bacoun.columns import dates
from bacoun.columns.cells import Cells
from bacoun.columns.checks import units
from bacoun.columns.checks.comparing import Difference, compare, extreme_p, share_p, unseen_p
from bacoun.columns.checks.findings import Finding, Severity, most_serious_first, percent
from bacoun.columns.checks.spelling import MISSING_WORDS, explain_categories, explain_cells
from bacoun.columns.column import Column
from bacoun.columns.reading import listed

STRIKING = 0.3  # distance from which a column is not what it was
_RELEVANT = 0.1  # distance from which a shift is worth a note
_MANY = 0.2  # share of rows from which new categories and values out of range are serious
_GAPS = 0.05  # share of rows, more than in training
_UNLIKELY = 1e-3  # for single rows with something that training did not have
_MISSING_CODES = (-1, -9, -99, -999, -9999, -99999, 0, 9, 99, 999, 9999, 99999, 999999)


@dataclass(frozen=True)
class ColumnCheck:
    """A column of a new table beside the same column in training.

    Attributes
    ----------
    training : Column
        The column in training.
    column : Series
        The column now.
    cells : Cells
        The same, read as the kind that it had in training.
    alpha : float
        Significance level of each test.
    """

    training: Column
    column: pd.Series
    cells: Cells
    alpha: float

    def findings(self) -> Iterator[Finding]:
        """All that is different, most important first."""
        found = list(self._unreadable())
        if not found:
            is_category = self.training.kind in ("category", "boolean")
            found = list(self._categories() if is_category else self._numbers())
        yield from found
        if not any(finding.kind == "missing code" for finding in found):  # these are the gaps
            yield from self._gaps()

    def _found(self, severity: Severity | bool, kind: str, message: str) -> Finding:
        if isinstance(severity, bool):
            severity = "serious" if severity else "note"
        return Finding(severity, self.training.name, kind, message)

    def _unreadable(self) -> Iterator[Finding]:
        """Cells that are no number, no date, or neither true nor false; these are refused."""
        if not self.cells.bad.any():
            return
        kind, why = explain_cells(self.training, self.column[self.cells.bad])
        wanted = {"number": "numbers", "boolean": "true or false", "date": "dates"}
        share = percent(float(self.cells.bad.mean()))
        yield self._found(
            "serious",
            kind,
            f"'{self.training.name}' held {wanted[self.training.kind]} in training; {share} of the "
            f"rows do not: {why}.",
        )

    def _gaps(self) -> Iterator[Finding]:
        before, now = self.training.missing, float(self.cells.missing.mean())
        name = f"'{self.training.name}'"
        if before == 0 and now > 0:
            what = "is empty" if now == 1 else f"has gaps in {percent(now)} of the rows"
            p = unseen_p(int(self.cells.missing.sum()), len(self.column), self.training.n_rows)
            serious = now > _GAPS and p < _UNLIKELY
            yield self._found(serious, "gaps", f"{name} {what}; it had none in training.")
            return
        counts = np.array([self.training.n_missing]), np.array([self.cells.missing.sum()])
        p = share_p(counts[0], self.training.n_rows, counts[1], len(self.column))[0]
        if p < self.alpha and abs(now - before) >= _GAPS:
            hint = "" if now > before else "; they may have been filled before"
            yield self._found(
                now - before >= 2 * _MANY,
                "gaps",
                f"{name} has gaps in {percent(now)} of the rows; {percent(before)} in training"
                f"{hint}.",
            )

    # --- categories and booleans ------------------------------------------------------------------

    def _categories(self) -> Iterator[Finding]:
        counts, known = self.cells.counts if len(self.cells.labels) else {}, self.training.counts
        new = {name: count for name, count in counts.items() if name not in known}
        if self.training.kind == "category" and new:
            yield self._new_categories(new)
            return
        found = compare(self.training, self.cells)
        if found.p >= self.alpha or found.size < _RELEVANT:
            return
        if self.training.kind == "boolean":
            found, before = found._replace(where="true"), self.training.mean
            now = float(self.cells.present.mean())
        else:
            before = known.get(found.where, 0) / self.training.n_present
            now = counts.get(found.where, 0) / len(self.cells.present)
        yield self._found(
            found.size >= 0.5,
            "shift",
            f"'{self.training.name}' is '{found.where}' in {percent(now)} of the rows; "
            f"{percent(before)} in training.",
        )

    def _new_categories(self, new: dict[str, int]) -> Finding:
        n_new, n_rows = sum(new.values()), max(len(self.cells.present), 1)
        once = sum(count == 1 for count in self.training.counts.values())
        p = unseen_p(n_new, n_rows, self.training.n_present, once)
        serious = n_new > _MANY * n_rows and p < _UNLIKELY
        why = explain_categories(self.training.counts, new)
        kind = "recoded" if why else "new category"
        if all(name.strip().lower() in MISSING_WORDS for name in new):
            kind, why = "missing code", "it may stand for a missing value; leave the cell empty"
        return self._found(
            serious,
            kind,
            f"'{self.training.name}' has categories that training did not have, in "
            f"{percent(n_new / n_rows)} of the rows: {listed(new, most=3)}"
            + (f"; {why}." if why else f"; it had {listed(self.training.counts, most=3)}."),
        )

    # --- numbers and dates ------------------------------------------------------------------------

    def _numbers(self) -> Iterator[Finding]:
        values = self.cells.present
        if np.isinf(values).any():
            share = percent(float(np.isinf(values).mean()))
            name = self.training.name
            yield self._found(
                "serious", "infinite", f"'{name}' is infinite in {share} of the rows."
            )
            values = values[np.isfinite(values)]
        if len(values) == 0 or not self.training.quantiles:
            return
        codes = self._missing_codes(values)
        if codes:
            is_code = np.isin(values, codes)
            yield self._code_finding(codes, float(is_code.mean()))
            values = values[~is_code]
        if len(values):
            yield from self._distribution(values)

    def _missing_codes(self, values: np.ndarray) -> list[float]:
        """Codes outside the range of training that are too frequent, or too far, to be values."""
        if self.training.kind == "date":
            return []
        low, high = self.training.low, self.training.high
        outside = [code for code in _MISSING_CODES if not low <= code <= high]
        found = []
        for code in outside:
            count = int((values == code).sum())
            far = max(low - code, code - high) > high - low
            often = extreme_p(count, len(values), self.training.n_present) < self.alpha
            others = values[(values != code) & ((values < low) | (values > high))]
            if count and (far or often) and len(others) <= count:
                found.append(float(code))
        return found

    def _code_finding(self, codes: list[float], share: float) -> Finding:
        written = " and ".join(f"{code:g}" for code in codes)
        return self._found(
            share >= 0.01,
            "missing code",
            f"'{self.training.name}' is {written} in {percent(share)} of the rows; in training it "
            f"was from {self._written(self.training.low)} to "
            f"{self._written(self.training.high)}. {written} may stand for a missing value; "
            "leave the cell empty.",
        )

    def _distribution(self, values: np.ndarray) -> Iterator[Finding]:
        cells = Cells(values, np.zeros(len(values), bool), np.zeros(len(values), bool))
        found = compare(self.training, cells)
        out_of_range = self._out_of_range(values)
        shifted = found.p < self.alpha and found.size >= _RELEVANT
        if (shifted and found.size >= STRIKING) or out_of_range is not None:
            conversion = units.explain(self.training, values, found)
            if conversion:
                yield self._unit(values, conversion)
                return
        different = [self._shift(values, found)] if shifted else []
        different += [out_of_range] if out_of_range is not None else []
        yield from most_serious_first(different)[:1]  # two ways to say the same
        if not different:
            yield from self._other_values(values)

    def _unit(self, values: np.ndarray, conversion: str) -> Finding:
        before = np.quantile(self.training.quantiles, [0.25, 0.75])
        now = np.quantile(values, [0.25, 0.75])
        return self._found(
            "serious",
            "unit",
            f"'{self.training.name}' has another unit: in training it was mostly from "
            f"{self._written(before[0])} to {self._written(before[1])}, now from "
            f"{self._written(now[0])} to {self._written(now[1])}, which {conversion} explains. "
            "Convert it back.",
        )

    def _shift(self, values: np.ndarray, found: Difference) -> Finding:
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(np.nan_to_num(values.mean()))
        moved = abs(mean - self.training.mean) / (self.training.sd or np.inf)
        is_date = self.training.kind == "date"  # new rows are later than old ones
        in_sd = "" if is_date else f", {moved:.1f} standard deviations away"
        return self._found(
            found.size >= 0.4 and moved >= 1 and not is_date,
            "shift",
            f"'{self.training.name}' is distributed differently: its mean was "
            f"{self._written(self.training.mean)} in training and is {self._written(mean)} now"
            f"{in_sd}.",
        )

    def _out_of_range(self, values: np.ndarray) -> Finding | None:
        """Values outside the range of training, if they are too many or too far for chance."""
        low, high = self.training.low, self.training.high
        before, now = self.training.n_present, len(values)
        with np.errstate(over="ignore", invalid="ignore"):
            width = np.float64(high) - low or abs(high) or 1.0
            beyond = np.maximum(low - values, values - high) / width
        n_out = [int((values < low).sum()), int((values > high).sum())]
        many = min(extreme_p(count, now, before) for count in n_out) < self.alpha / 2
        # Even with tails as heavy as a t-distribution of two degrees of freedom.
        farthest = min(max(float(beyond.max()), 0.0), 1e100)
        far = 2 * now / (before * (1 + farthest) ** 2) < self.alpha
        share = sum(n_out) / now
        if not (far or (many and share >= 0.01)):
            return None
        worst = float(values[beyond.argmax()])
        return self._found(
            share > _MANY and self.training.kind != "date",
            "out of range",
            f"'{self.training.name}' was from {self._written(low)} to {self._written(high)} in "
            f"training; {percent(share)} of the rows are outside, such as {self._written(worst)}.",
        )

    def _other_values(self, values: np.ndarray) -> Iterator[Finding]:
        """Values that training did not have, though they are within its range."""
        known, name = np.array(self.training.distinct), self.training.name
        whole, n_whole = (
            round(self.training.whole_share * self.training.n_present),
            values == values.round(),
        )
        p = share_p(
            np.array([whole]), self.training.n_present, np.array([n_whole.sum()]), len(values)
        )[0]
        if p < self.alpha and abs(n_whole.mean() - self.training.whole_share) >= _RELEVANT:
            yield self._found(
                "note",
                "rounding",
                f"'{name}' holds whole numbers in {percent(float(n_whole.mean()))} of the rows; "
                f"{percent(self.training.whole_share)} in training.",
            )
        elif len(known):
            new = values[~np.isin(values, known)]
            once = self.training.distinct_counts.count(1)
            n_before = self.training.n_present
            if len(new) and unseen_p(len(new), len(values), n_before, once) < self.alpha:
                yield self._found(
                    "note",
                    "new value",
                    f"'{name}' had only {len(known)} different values in training; "
                    f"{percent(len(new) / len(values))} of the rows have others, such as "
                    f"{self._written(float(new[0]))}.",
                )

    def _written(self, value: float) -> str:
        if self.training.kind != "date":
            return f"{value:.4g}"
        try:
            return dates.as_text(round(value))
        except (OverflowError, ValueError, OSError):
            return f"day {value:.0f}"

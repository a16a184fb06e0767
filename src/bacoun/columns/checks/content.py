"""What is different about one column: its content, its gaps, its categories, its distribution."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

from bacoun.columns import dates
from bacoun.columns.cells import Cells
from bacoun.columns.checks import units
from bacoun.columns.checks.comparing import Difference, compare, extreme_p, share_p, unseen_p
from bacoun.columns.checks.findings import Finding, Severity, most_serious_first
from bacoun.columns.checks.items import item_findings
from bacoun.columns.checks.spelling import MISSING_WORDS, explain_categories, explain_cells
from bacoun.columns.column import Column
from bacoun.columns.reading import listed
from bacoun.files.text import percent

STRIKING = 0.3  # distance from which a column is not what it was
_RELEVANT = 0.1  # distance from which a shift is worth a note
_MANY = 0.2  # share of rows from which new categories and values out of range are serious
_GAPS = 0.05  # share of rows, more than in training
_UNLIKELY = 1e-3  # for single rows with something that training did not have
_MISSING_CODES = (-1, -9, -99, -999, -9999, -99999, 0, 9, 99, 999, 9999, 99999, 999999)


@dataclass(frozen=True)
class ColumnCheck:
    """A column of a new table beside the same column in training."""

    training: Column
    column: pd.Series
    cells: Cells  # of the column now, read as the kind that it had in training
    alpha: float  # significance level of each test

    def findings(self) -> Iterator[Finding]:
        """All that is different, most important first."""
        differences = list(self._unreadable())
        if self.training.embedding is not None:
            differences = list(item_findings(self.training, self.cells, self.alpha))
        elif not differences:
            is_category = self.training.kind in ("category", "boolean")
            differences = list(self._categories() if is_category else self._numbers())
        yield from differences
        # Codes for missing values are the gaps.
        if not any(finding.kind == "missing code" for finding in differences):
            yield from self._gaps()

    def _finding(self, is_serious: bool, kind: str, message: str) -> Finding:
        severity: Severity = "serious" if is_serious else "note"
        return Finding(severity, self.training.name, kind, f"'{self.training.name}' {message}")

    def _unreadable(self) -> Iterator[Finding]:
        """Cells that are no number, no date, or neither true nor false; these are refused."""
        if not self.cells.bad.any():
            return
        kind, why = explain_cells(self.training, self.column[self.cells.bad])
        wanted = {"number": "numbers", "boolean": "true or false", "date": "dates"}
        share = percent(float(self.cells.bad.mean()))
        held = f"held {wanted[self.training.kind]} in training"
        yield self._finding(True, kind, f"{held}; {share} of the rows do not: {why}.")

    def _gaps(self) -> Iterator[Finding]:
        n_missing, n_rows = int(self.cells.missing.sum()), len(self.column)
        before, now = self.training.n_missing / max(self.training.n_rows, 1), n_missing / n_rows
        if before == 0 and now > 0:
            what = "is empty" if now == 1 else f"has gaps in {percent(now)} of the rows"
            p = unseen_p(n_missing, n_rows, self.training.n_rows)
            serious = now > _GAPS and p < _UNLIKELY
            yield self._finding(serious, "gaps", f"{what}; it had none in training.")
            return
        p = share_p(self.training.n_missing, self.training.n_rows, n_missing, n_rows)
        if p < self.alpha and abs(now - before) >= _GAPS:
            hint = "" if now > before else "; they may have been filled before"
            message = f"has gaps in {percent(now)} of the rows; {percent(before)} in training"
            yield self._finding(now - before >= 2 * _MANY, "gaps", f"{message}{hint}.")

    def _categories(self) -> Iterator[Finding]:
        known = self.training.counts
        counts = self.cells.counts if self.training.kind == "category" else {}
        new = {name: count for name, count in counts.items() if name not in known}
        if new:
            yield self._new_categories(new)
            return
        size, p, value = compare(self.training, self.cells)
        if p >= self.alpha or size < _RELEVANT:
            return
        if self.training.kind == "boolean":
            value, before, now = "true", self.training.mean, float(self.cells.present.mean())
        else:
            before = known.get(value, 0) / self.training.n_present
            now = counts.get(value, 0) / len(self.cells.present)
        message = f"is '{value}' in {percent(now)} of the rows; {percent(before)} in training."
        yield self._finding(size >= 0.5, "shift", message)

    def _new_categories(self, new: dict[str, int]) -> Finding:
        n_new, n_rows = sum(new.values()), max(len(self.cells.present), 1)
        known = self.training.counts
        p = unseen_p(n_new, n_rows, self.training.n_present, list(known.values()).count(1))
        why = explain_categories(known, new)
        kind = "recoded" if why else "new category"
        if all(name.strip().lower() in MISSING_WORDS for name in new):
            kind, why = "missing code", "it may stand for a missing value; leave the cell empty"
        return self._finding(
            n_new > _MANY * n_rows and p < _UNLIKELY,
            kind,
            f"has categories that training did not have, in {percent(n_new / n_rows)} of the "
            f"rows: {listed(new, most=3)}; {why or f'it had {listed(known, most=3)}'}.",
        )

    def _numbers(self) -> Iterator[Finding]:
        values = self.cells.present
        if np.isinf(values).any():
            share = percent(float(np.isinf(values).mean()))
            yield self._finding(True, "infinite", f"is infinite in {share} of the rows.")
            values = values[np.isfinite(values)]
        if len(values) == 0 or not self.training.quantiles:
            return
        if codes := self._missing_codes(values):
            is_code = np.isin(values, codes)
            written = " and ".join(f"{code:g}" for code in codes)
            often = float(is_code.mean())
            message = (
                f"is {written} in {percent(often)} of the rows; in training it was from "
                f"{self._range()}. {written} may stand for a missing value; leave the cell empty."
            )
            yield self._finding(often >= 0.01, "missing code", message)
            values = values[~is_code]
        if len(values):
            yield from self._distribution(values)

    def _missing_codes(self, values: np.ndarray) -> list[float]:
        """Codes outside the range of training that are too frequent, or too far, to be values."""
        if self.training.kind == "date":
            return []
        low, high = self.training.low, self.training.high
        outside = values[(values < low) | (values > high)]

        def is_code(code: int) -> bool:
            count = int((outside == code).sum())
            far = max(low - code, code - high) > high - low
            often = extreme_p(count, len(values), self.training.n_present) < self.alpha
            return count > 0 and (far or often) and len(outside) <= 2 * count

        return [float(code) for code in _MISSING_CODES if is_code(code)]

    def _distribution(self, values: np.ndarray) -> Iterator[Finding]:
        nowhere = np.zeros(len(values), dtype=bool)
        difference = compare(self.training, Cells(values, nowhere, nowhere))
        out_of_range = self._out_of_range(values)
        shifted = difference.p < self.alpha and difference.size >= _RELEVANT
        is_striking = (shifted and difference.size >= STRIKING) or out_of_range is not None
        if is_striking and (conversion := units.explain(self.training, values, difference)):
            yield self._unit(values, conversion)
            return
        both = (self._shift(values, difference) if shifted else None, out_of_range)
        findings = most_serious_first(finding for finding in both if finding is not None)
        yield from findings[:1] or self._other_values(values)  # two ways to say the same

    def _unit(self, values: np.ndarray, conversion: str) -> Finding:
        before, now = (
            " to ".join(map(self._written, np.quantile(numbers, [0.25, 0.75])))
            for numbers in (self.training.quantiles, values)
        )
        message = (
            f"has another unit: in training it was mostly from {before}, now from {now}, which "
            f"{conversion} explains. Convert it back."
        )
        return self._finding(True, "unit", message)

    def _shift(self, values: np.ndarray, difference: Difference) -> Finding:
        with np.errstate(over="ignore", invalid="ignore"):
            mean = float(np.nan_to_num(values.mean()))
        moved = abs(mean - self.training.mean) / (self.training.sd or np.inf)
        is_date = self.training.kind == "date"  # new rows are later than old ones
        in_sd = "" if is_date else f", {moved:.1f} standard deviations away"
        return self._finding(
            difference.size >= 0.4 and moved >= 1 and not is_date,
            "shift",
            f"is distributed differently: its mean was {self._written(self.training.mean)} in "
            f"training and is {self._written(mean)} now{in_sd}.",
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
        message = (
            f"was from {self._range()} in training; {percent(share)} of the rows are outside, "
            f"such as {self._written(float(values[beyond.argmax()]))}."
        )
        is_serious = share > _MANY and self.training.kind != "date"
        return self._finding(is_serious, "out of range", message)

    def _other_values(self, values: np.ndarray) -> Iterator[Finding]:
        """Values that training did not have, though they are within its range."""
        known, n_before, n_now = self.training.distinct, self.training.n_present, len(values)
        before, n_whole = self.training.whole_share, int((values == values.round()).sum())
        p = share_p(round(before * n_before), n_before, n_whole, n_now)
        if p < self.alpha and abs(n_whole / n_now - before) >= _RELEVANT:
            share = percent(n_whole / n_now)
            message = f"holds whole numbers in {share} of the rows; {percent(before)} in training."
            yield self._finding(False, "rounding", message)
        elif known:
            new = values[~np.isin(values, known)]
            once = self.training.distinct_counts.count(1)
            if len(new) and unseen_p(len(new), n_now, n_before, once) < self.alpha:
                message = (
                    f"had only {len(known)} different values in training; "
                    f"{percent(len(new) / n_now)} of the rows have others, such as "
                    f"{self._written(float(new[0]))}."
                )
                yield self._finding(False, "new value", message)

    def _range(self) -> str:
        return f"{self._written(self.training.low)} to {self._written(self.training.high)}"

    def _written(self, value: float) -> str:
        if self.training.kind != "date":
            return f"{value:.4g}"
        try:
            return dates.as_text(round(value))
        except (OverflowError, ValueError, OSError):
            return f"day {value:.0f}"

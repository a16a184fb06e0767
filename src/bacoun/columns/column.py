"""Column: one column of the training table, described once; the whole package works from this."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Self

import numpy as np
import pandas as pd

from bacoun.columns import dates
from bacoun.columns.cells import ITEMS, Cells, as_text, is_missing
from bacoun.columns.embedding import Embedding, reason_in
from bacoun.columns.photo_files import short_name
from bacoun.columns.writing_style import WritingStyle
from bacoun.encoders import HasSpec, unreadable_photos

MAX_CATEGORIES = 1000
NO_INPUT = "no input"  # why a column is dropped that the user names as group or time
_LEVELS = np.linspace(0, 1, 41)
USUAL_LEVELS = np.linspace(0.01, 0.99, 9)
_MAX_USUAL = 20  # levels, the most frequent
_MAX_DISTINCT = 20
_PARTS = {"month": (dates.month, 12), "weekday": (dates.weekday, 7)}  # of a date, from 1


@dataclass(frozen=True)
class Column:
    """One column in training: what it holds, how it is distributed, and how it is encoded.

    The numbers from `quantiles` to `distinct_counts` are empty for categories, texts and photos.
    """

    name: str
    # "number", "boolean", "category", "date", "text", "photo"; "dropped" if it is not used
    kind: str
    n_rows: int
    n_missing: int = 0
    date_format: str | None = None  # as in `strptime`; None: timestamps
    quantiles: tuple[float, ...] = ()  # 41 at even levels from 0 to 1; dates: days since 1970
    cdf: tuple[float, ...] = ()  # fraction of the values at or below each of `cuts`
    usual: tuple[float, ...] = ()  # nine quantiles, at even levels from 1 to 99 %
    mean: float = 0.0
    sd: float = 0.0
    fill: float = 0.0  # the median, in place of a gap in a continuous column
    whole_share: float = 0.0  # fraction of the values that are integers
    distinct: tuple[float, ...] = ()  # all values, sorted, if there are at most 20
    distinct_counts: tuple[int, ...] = ()  # number of rows for each of them
    counts: Mapping[str, int] = field(default_factory=dict)  # the 1000 most frequent categories
    parts: tuple[str, ...] = ()  # "month" and "weekday" of a date, if training had all of them
    dropped: str = ""  # why the model does not use it: "id", "constant", "empty", or "no input"
    embedding: Embedding | None = None  # of texts and photos

    @classmethod
    def of(cls, name: str, cells: Cells, encoder: HasSpec | None = None) -> Self:
        """Describe a training column that has been read; the `encoder` is for texts and photos."""
        present, n_rows = cells.present, len(cells.values)
        described = partial(cls, name, cells.kind, n_rows, n_rows - len(present))
        if encoder is not None:
            items = cells.content[~cells.missing].tolist()
            style = WritingStyle.of(items) if cells.kind == "text" else None
            return described(embedding=Embedding.of(encoder, items, style))
        if cells.kind == "category":
            return described(counts=dict([*cells.counts.items()][:MAX_CATEGORIES]))
        numbers = _describe_numbers(present[np.isfinite(present)])
        if cells.kind == "date":
            is_full = {p: len(np.unique(of(present))) == n for p, (of, n) in _PARTS.items()}
            numbers["parts"] = tuple(part for part in _PARTS if is_full[part])
        return described(cells.date_format, **numbers)

    @classmethod
    def without_use(cls, column: pd.Series, dropped: str) -> Self:
        """Describe a column that is no input: by its value, if that is always the same."""
        texts = set() if is_missing(column).any() else set(as_text(column))
        counts = {text: len(column) for text in texts} if len(texts) == 1 else {}
        return cls(str(column.name), "dropped", len(column), counts=counts, dropped=dropped)

    @property
    def n_present(self) -> int:
        """Number of values that are not missing."""
        return self.n_rows - self.n_missing

    @property
    def gaps(self) -> bool:
        """Whether training had gaps."""
        return self.n_missing > 0

    @property
    def low(self) -> float:
        """The smallest value; NaN without values."""
        return self.quantiles[0] if self.quantiles else float("nan")

    @property
    def high(self) -> float:
        """The largest value; NaN without values."""
        return self.quantiles[-1] if self.quantiles else float("nan")

    @property
    def whole(self) -> bool:
        """Whether all its values are whole numbers, and more than two."""
        return self.whole_share == 1 and not self.levels

    @cached_property
    def cuts(self) -> np.ndarray:
        """Values (c,) between the quantiles, at which distributions are compared.

        Between, so that rounding cannot move a value across; the first is just below the smallest
        value, the last just above the largest.
        """
        return _between(np.array(self.quantiles))

    @cached_property
    def levels(self) -> list[Any]:
        """Sorted values of a category, a boolean, or a number that takes only two values.

        They are encoded as 0, 1, ...; a gap is one more, if training had any. Empty: the column is
        continuous.
        """
        if self.kind == "category":
            return sorted(self.counts)
        if self.kind == "boolean":
            return [0.0, 1.0]
        return list(self.distinct) if len(self.distinct) <= 2 else []

    @property
    def _counts(self) -> dict[Any, int]:
        """Number of rows by category, or by distinct number."""
        return dict(self.counts) or dict(zip(self.distinct, self.distinct_counts, strict=True))

    @cached_property
    def shares(self) -> dict[str, float]:
        """Fraction of the rows of each level and of gaps, as text, the most frequent first."""
        counts = {self.as_text(value): number for value, number in self._counts.items()}
        counts |= {self.as_text(None): self.n_missing} if self.gaps else {}
        ordered = sorted(counts.items(), key=lambda pair: -pair[1])
        return {text: number / self.n_rows for text, number in ordered}

    @property
    def features(self) -> dict[str, bool]:
        """Names of the features it becomes, and whether each is a category."""
        if self.levels:
            return {self.name: True}
        numbers = [self.name]
        if self.embedding is not None:
            numbers = [f"{self.name} {i + 1}" for i in range(len(self.embedding.center))]
        named = dict.fromkeys(numbers, False) | {f"{self.name} {p}": True for p in self.parts}
        return named | ({f"{self.name} missing": True} if self.gaps else {})

    def read(self, frame: pd.DataFrame) -> Cells:
        """Its cells (N,) in a table; one that is not of its kind raises a ValueError."""
        return Cells.read(frame[self.name], self.kind, self.date_format, strict=True)

    def encode(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Features (N, d), and which rows (N,) have a value or a gap that training did not have."""
        missing = pd.isna(values)
        if self.levels:
            codes = pd.Index(self.levels).get_indexer(pd.Index(values)).astype(np.float64)
            codes[missing] = len(self.levels) if self.gaps else -1
            return codes[:, None], codes < 0
        if self.embedding is not None:
            return self._embed(self.embedding, values, missing)
        filled, width = np.where(missing, self.fill, values), self.high - self.low
        impossible = (filled < self.low - width) | (filled > self.high + width)
        features = [filled, *(_PARTS[part][0](filled) - 1 for part in self.parts)]
        features += [missing] if self.gaps else []
        unseen = impossible | (missing & (not self.gaps))
        return np.column_stack(features).astype(np.float64), unseen

    def _embed(
        self, embedding: Embedding, values: np.ndarray, missing: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        features = np.tile(np.array(embedding.center), (len(values), 1))
        rows, unseen = np.flatnonzero(~missing), missing & (not self.gaps)
        if len(rows):
            features[rows], unreadable = embedding.encode(values[rows].tolist())
            unseen[rows[[*unreadable]]] = True
        return np.column_stack([features, missing]) if self.gaps else features, unseen

    def unseen_in(self, values: np.ndarray) -> dict[int, str]:
        """Rows that have a value or a gap that training did not have, and what it had instead."""
        missing = pd.isna(values)
        rows = np.flatnonzero(
            missing & (not self.gaps) if self.embedding else self.encode(values)[1]
        )
        words = {int(k): "never in training" if missing[k] else self.in_training for k in rows}
        if self.kind == "photo":
            present = np.flatnonzero(~missing)
            reasons = unreadable_photos(values[present].tolist())
            words |= {
                int(present[i]): f"cannot be read: it {reason_in(why)}"
                for i, why in reasons.items()
            }
        return words

    @cached_property
    def usual_features(self) -> np.ndarray:
        """Features (m, d) of usual values: of some quantiles, or of the most frequent levels."""
        if not self.levels:
            return self.encode(np.array(self.usual))[0]
        counts = self._counts
        numbers = np.array([counts.get(level, 0) for level in self.levels])
        ranked = np.argsort(-numbers, kind="stable")[:_MAX_USUAL]
        return ranked[numbers[ranked] > 0, None].astype(np.float64)

    def decode(self, features: np.ndarray) -> Any:
        """The value that features (d,) of one row stand for; None is a gap, or what is unseen.

        In a column of whole numbers it is rounded.
        """
        if self.levels:
            code = int(features[0])
            return self.levels[code] if 0 <= code < len(self.levels) else None
        if self.gaps and features[-1] == 1:
            return None
        return float(np.round(features[0]) if self.whole else features[0])

    @property
    def in_training(self) -> str:
        """What a value that training did not have is compared with, in words."""
        if self.levels:
            return "not seen in training"
        return f"{self.as_text(self.low)} to {self.as_text(self.high)} in training"

    def as_text(self, value: Any) -> str:
        """A value, as it is shown to people."""
        if pd.isna(value):
            return "missing"
        if self.kind == "date":
            return dates.as_text(float(value))
        if self.kind == "boolean":
            return "true" if value == 1 else "false"
        if self.kind in ITEMS:
            return quoted(value) if self.kind == "text" else short_name(value)
        return str(value) if self.kind == "category" else f"{value:.6g}"

    def as_cell(self, value: Any) -> Any:
        """A value, as it is written in a table; None is a gap."""
        if pd.isna(value):
            return None
        if self.kind == "boolean":
            return bool(value)
        if self.kind == "date":
            if self.date_format in (None, dates.ISO):
                return dates.as_text(float(value))
            moment = pd.Timestamp(0) + pd.Timedelta(days=float(value))
            return moment.strftime(str(self.date_format))
        if self.kind == "number" and float(value).is_integer() and abs(value) < 2**53:
            return int(value)
        return value


def quoted(text: str, width: int = 60) -> str:
    """A text in one line, in quotes, and cut."""
    line = " ".join(text.split())
    return f"'{line}'" if len(line) <= width else f"'{line[: width - 1]}…'"


def _describe_numbers(present: np.ndarray) -> dict[str, Any]:
    """The fields of a column that describe finite numbers (n,)."""
    if len(present) == 0:
        return {}
    ordered = np.sort(present)
    quantiles = np.quantile(ordered, _LEVELS, method="inverted_cdf")
    distinct, counts = np.unique(ordered, return_counts=True)
    few = len(distinct) <= _MAX_DISTINCT
    arrays = {
        "quantiles": quantiles,
        "cdf": np.searchsorted(ordered, _between(quantiles), side="right") / len(ordered),
        "usual": ordered[np.round(USUAL_LEVELS * (len(ordered) - 1)).astype(int)],
        "distinct": distinct if few else distinct[:0],
        "distinct_counts": counts if few else counts[:0],
    }
    with np.errstate(over="ignore", invalid="ignore"):
        moments = {"mean": present.mean(), "sd": present.std(), "fill": np.median(present)}
    numbers = moments | {"whole_share": np.mean(present == np.floor(present))}
    return {name: tuple(array.tolist()) for name, array in arrays.items()} | {
        name: float(np.nan_to_num(number)) for name, number in numbers.items()
    }


def _between(quantiles: np.ndarray) -> np.ndarray:
    if len(quantiles) == 0:
        return quantiles
    values = np.unique(quantiles)
    low, high = values[0], values[-1]
    margin = 1e-6 * ((high / 2 - low / 2) or abs(low) or 1.0)
    below = min(low - margin, np.nextafter(low, -np.inf))
    above = max(high + margin, np.nextafter(high, np.inf))
    return np.array([below, *(values[:-1] / 2 + values[1:] / 2), above])

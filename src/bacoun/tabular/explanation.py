"""Why a row is deferred: the columns that make it unlikely, or that stand between two classes."""

from dataclasses import dataclass
from typing import NamedTuple

from bacoun.columns.column import quoted

MAX_REPAIRS = 3
_QUOTED = 40  # characters of a known text


class Unseen(NamedTuple):
    """Something in a row that training did not have."""

    column: str
    """Where it is; "missing values" for their number in the row."""
    value: str
    """What the row has."""
    training: str
    """What training had, such as "not seen in training"."""

    def __str__(self) -> str:
        return f"{self.column} = {self.value} ({self.training})"


class Surprise(NamedTuple):
    """A column of a row that is unlike what the others suggest."""

    column: str
    value: str
    expected: str
    """The likeliest value given the other columns; of texts and photos, a known one."""
    nats: float
    """How much the log density of the row grows with the expected value."""

    def __str__(self) -> str:
        return f"{self.column} = {self.value} (expected {self.expected}, {self.nats:.3g} nats)"


class Pull(NamedTuple):
    """A column of a row whose value speaks for one of two classes."""

    column: str
    value: str
    label: str
    """The class."""
    log_odds: float
    """By how much it changes the log-odds of the two classes, compared with usual values."""

    def __str__(self) -> str:
        return f"{self.column} = {self.value} speaks for {self.label}"


class Nearest(NamedTuple):
    """A training text or photo whose vector is among the nearest to that of a row."""

    column: str
    label: str
    """Its class."""
    similarity: float
    """Cosine of the angle between the two vectors; 1 for the same text or photo."""
    text: str
    """The text, cut to 300 characters; of a photo, the name of its file."""
    thumbnail: bytes | None = None
    """A small JPEG of a photo; None for a text."""

    @property
    def kind(self) -> str:
        """What it is: "text" or "photo"."""
        return "text" if self.thumbnail is None else "photo"

    def __str__(self) -> str:
        return f"{quoted(self.text, _QUOTED) if self.kind == 'text' else self.text} ({self.label})"


@dataclass(frozen=True)
class Explanation:
    """Why a row is deferred."""

    reason: str
    """As decided by the model's rule: "unfamiliar" or "ambiguous"; "" if the row is accepted."""
    surprises: tuple[Surprise, ...] = ()
    """All columns, the most surprising first; those that were replaced come before others.

    Empty for an ambiguous row, and if nothing but what is `unseen` is unusual.
    """
    n_repairs: int = 0
    """How many columns, at most three, have to be replaced until the row is familiar.

    0 if three are not enough, or if `surprises` is empty.
    """
    unseen: tuple[Unseen, ...] = ()
    """What was never seen in training, such as a new category."""
    classes: tuple[tuple[str, float], ...] = ()
    """The two most likely classes of an ambiguous row, and their probabilities."""
    pulls: tuple[Pull, ...] = ()
    """The columns of an ambiguous row that change these most, the strongest first."""
    rows_like_this: float | None = None
    """Expected number of training rows that are at least as unusual; None without doubt."""
    nearest: tuple[Nearest, ...] = ()
    """Of each text and photo of the row, the three nearest ones in training, nearest first."""

    def __str__(self) -> str:
        """One line, as in the column `because` of a scored table; "" if the row is accepted."""
        return self.in_words()

    def in_words(self, with_nearest: bool = True) -> str:
        """The same, which can do without what is `nearest`, where that is shown beside it."""
        if self.reason == "ambiguous":
            either = " or ".join(f"{label} ({p:.2f})" for label, p in self.classes)
            pulls = self.pulls[:MAX_REPAIRS]
            known = [self._nearest_to(pull.column) for pull in pulls if with_nearest]
            return "; ".join([either, *map(str, pulls), *filter(None, known)])
        if self.reason != "unfamiliar":
            return ""
        repaired = {each.column: each for each in self.surprises[: self.n_repairs or MAX_REPAIRS]}
        told = []
        for each in self.unseen[:MAX_REPAIRS]:
            also = repaired.pop(each.column, None)
            more = f"; expected {also.expected}, {also.nats:.3g} nats)" if also else ")"
            told.append(str(each).removesuffix(")") + more)
        if len(self.unseen) > MAX_REPAIRS:
            told.append(f"{len(self.unseen) - MAX_REPAIRS} more not seen in training")
        if len(self.unseen) <= MAX_REPAIRS:
            told += [self._told(each, with_nearest) for each in repaired.values()]
        if self.n_repairs == 0 and not self.unseen:
            told.append(f"no {MAX_REPAIRS} columns explain it")
        return "; ".join(told)

    def _told(self, surprise: Surprise, with_nearest: bool) -> str:
        """A surprise; a text or photo is not expected to be a certain other one."""
        known = self._nearest_to(surprise.column)
        if not known:
            return str(surprise)
        kind = next(each.kind for each in self.nearest if each.column == surprise.column)
        unlike = f"unlike the known {kind}s, {surprise.nats:.3g} nats"
        told = f"{surprise.column} = {surprise.value} ({unlike})"
        return f"{told}; {known}" if with_nearest else told

    def _nearest_to(self, column: str) -> str:
        """The items that are nearest to that in a column, in words; "" if it is another column."""
        known = [str(each) for each in self.nearest if each.column == column]
        return f"nearest known: {', '.join(known)}" if known else ""

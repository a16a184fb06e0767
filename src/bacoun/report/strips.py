"""Strips: small pictures of where a row's value lies among those of the training rows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pandas as pd

from bacoun.columns import dates
from bacoun.columns.cells import Cells
from bacoun.columns.column import USUAL_LEVELS, Column
from bacoun.report.formats import percent
from bacoun.report.plots import Axis, Mark

_LEVELS = (0.01, 0.25, 0.5, 0.75, 0.99)
_MARGIN = 0.15  # of the width between the outer quantiles, drawn beyond each of them
_SEGMENTS = 12  # most frequent categories, each with its own segment
_SPOKEN = 5  # categories in a description
_CHARACTER = 5.6  # width of a letter
_LEFT, _RIGHT, _MIDDLE, _THICK = 8.0, 212.0, 9.0, 10.0


@dataclass(frozen=True)
class Strip:
    """A picture of a column: its training rows, a row's value and what was expected."""

    marks: list[Mark]
    description: str

    width: ClassVar[float] = _LEFT + _RIGHT
    height: ClassVar[float] = 28.0


def draw(column: Column, value: str, expected: str | None = None) -> Strip:
    """Draw a column of a row: the value that it has, and the one that was expected instead.

    A value that is a gap or an unseen category is not marked.
    """
    wanted = {"expected": expected, "value": value}  # the value lies on top
    shown = {kind: text for kind, text in wanted.items() if text is not None}
    marks = _draw_category(column, shown) if column.levels else _draw_number(column, shown)
    likelier = "" if expected is None else f", expected {expected}"
    return Strip(list(marks), f"{column.name} = {value}{likelier}; {in_words(column)}")


def in_words(column: Column) -> str:
    """How a column is distributed among the training rows."""
    if not column.levels:
        low, first, median, third, high = (_written(column, value) for value in _ends(column))
        return (
            f"98 % of the training rows have {low} to {high}, half of them {first} to {third}; "
            f"the median is {median}"
        )
    spoken = list(column.shares.items())[:_SPOKEN]
    shares = ", ".join(f"{name} {percent(share)}" for name, share in spoken)
    more = len(column.shares) - len(spoken)
    return f"training rows have {shares}" + (f", and {more} more" if more else "")


def _ends(column: Column) -> list[float]:
    """Values at 1, 25, 50, 75 and 99 %."""
    return [float(end) for end in np.interp(_LEVELS, USUAL_LEVELS, column.usual)]


def _written(column: Column, value: float) -> str:
    return column.as_text(np.floor(value) if column.kind == "date" else value)


def _draw_number(column: Column, shown: Mapping[str, str]) -> Iterator[Mark]:
    low, first, median, third, high = _ends(column)
    reach = (high - low) or abs(high) or 1.0
    axis = Axis(low - _MARGIN * reach, high + _MARGIN * reach)

    def across(value: float) -> float:
        return _LEFT + float(axis.position(value)) * (_RIGHT - _LEFT)

    yield Mark("path", {"class": "axis", "d": f"M{_LEFT} {_MIDDLE}H{_RIGHT}"})
    yield _bar("band", across(low), across(high))
    yield _bar("band half", across(first), across(third))
    tick = f"M{across(median):.1f} {_MIDDLE - _THICK / 2}v{_THICK}"
    yield Mark("path", {"class": "median", "d": tick})
    for end, anchor in ((low, "start"), (high, "end")):
        yield _text(across(end), _written(column, end), anchor)
    numbers = Cells.read(pd.Series([*shown.values()]), column.kind, dates.ISO).values
    for kind, number in zip(shown, numbers, strict=True):  # NaN: the text shows none
        if axis.outside(number):
            yield _arrow(kind, -1 if number < axis.low else 1)
        elif not np.isnan(number):
            yield _dot(kind, across(number))


def _draw_category(column: Column, shown: Mapping[str, str]) -> Iterator[Mark]:
    """Segments as wide as the share of each category, the most frequent first."""
    left, dots = _LEFT, []
    for place, (name, share) in enumerate(column.shares.items()):
        if place >= _SEGMENTS and name not in shown.values():
            continue
        width = share * (_RIGHT - _LEFT)
        kind = "band half" if name == shown["value"] else "band"
        yield _bar(kind, left, left + width, f"{name}: {percent(share)}")
        if (len(name) + 1) * _CHARACTER < width:
            yield _text(left + width / 2, name, "middle")
        dots += [_dot(kind, left + width / 2) for kind, text in shown.items() if text == name]
        left += width
    if _RIGHT - left > 1:
        yield _bar("band", left, _RIGHT, f"others: {percent((_RIGHT - left) / (_RIGHT - _LEFT))}")
    yield from dots


def _bar(kind: str, left: float, right: float, tooltip: str = "") -> Mark:
    wide = max(right - left - (1.0 if tooltip else 0.0), 0.5)  # a gap between segments
    place = {"class": kind, "x": f"{left:.1f}", "y": _MIDDLE - _THICK / 2}
    return Mark("rect", place | {"width": f"{wide:.1f}", "height": _THICK}, tooltip=tooltip)


def _dot(kind: str, x: float) -> Mark:
    radius = 5.0 if kind == "expected" else 3.8
    return Mark("circle", {"class": kind, "cx": f"{x:.1f}", "cy": _MIDDLE, "r": radius})


def _arrow(kind: str, direction: int) -> Mark:
    """A triangle that points beyond the edge."""
    tip = _RIGHT + 6 if direction > 0 else _LEFT - 6
    path = f"M{tip} {_MIDDLE}l{-9 * direction} -5v10z"
    return Mark("path", {"class": f"{kind} arrow", "d": path})


def _text(x: float, text: str, anchor: str) -> Mark:
    return Mark("text", {"x": f"{x:.1f}", "y": Strip.height - 3, "text-anchor": anchor}, text)

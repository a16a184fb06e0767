"""What the page is made of: markup, numbers in words, tables, and charts as inline SVG.

Text from outside (names of columns, labels, cells) is escaped on its way into a tag, whatever it
holds; only `Html`, which `tag` and `joined` make, goes in as it is. Colours live in `page.css`.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import stats

# One unit is about a pixel where two charts stand side by side, and 0.8 on a phone.
_WIDTH = 440.0
_RIGHT, _TOP, _BOTTOM = 22.0, 12.0, 46.0


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, *inside: object, **attributes: object) -> Html:
    """An element around what is inside; `class_` is class, `aria_label` is aria-label.

    Examples
    --------
    >>> tag("p", "a < b", tag("b", "!"), class_="note")
    '<p class="note">a &lt; b<b>!</b></p>'
    """
    words = [name]
    for key, value in attributes.items():
        if value is not None:
            words.append(f'{key.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"')
    return Html(f"<{' '.join(words)}>{joined(inside)}</{name}>")


def joined(parts: Iterable[object]) -> Html:
    """Parts one after the other, escaped unless they are markup."""
    return Html("".join(p if isinstance(p, Html) else html.escape(str(p)) for p in parts))


# --- numbers and tables --------------------------------------------------------------------------


def percent(share: float) -> str:
    r"""A share, never rounded to none or all; its space does not break.

    Examples
    --------
    >>> [percent(share).replace("\xa0", " ") for share in (0.974, 1.0, 0.9999, 0.0)]
    ['97.4 %', '100 %', 'over 99.9 %', '0 %']
    """
    if share in (0, 1):
        return f"{100 * share:.0f}\N{NO-BREAK SPACE}%"
    if not 0.0005 <= share < 0.9995:
        return ("over 99.9" if share > 0.5 else "under 0.1") + "\N{NO-BREAK SPACE}%"
    return f"{100 * share:.1f}\N{NO-BREAK SPACE}%"


def small(value: float) -> str:
    """A number of nats or the like, to three digits."""
    if not math.isfinite(value):
        return "infinite"
    if abs(value) < 1e-4:
        return "under 0.0001" if value else "0"
    return f"{value:#.3g}"


def of(part: float, whole: int, what: str = "row") -> str:
    """3 of 171 rows."""
    return f"{int(part):,} of {rows(whole, what)}"


def rows(count: int, what: str = "row") -> str:
    """171 rows, 1 row."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def exact(name: str, value: float, shown: str) -> Html:
    """A number as shown, with all its digits for programs."""
    return tag("data", shown, id=name, value=repr(float(value)))


def between(right: int, count: int) -> str:
    """The share that would be seen on more such rows: a 95 % interval."""
    low, high = stats.binomtest(right, count).proportion_ci(method="wilson")
    return f"{percent(max(low, 0.0))} to {percent(min(high, 1.0))}"


class Figure(NamedTuple):
    """A number worth a box of its own, with what it means in plain words."""

    key: str
    name: str
    value: float | None
    shown: str
    why: str


def boxes(*figures: Figure) -> Html:
    """Numbers side by side."""
    return tag("dl", *map(_box, figures), class_="figures")


def _box(figure: Figure) -> Html:
    value = figure.value
    shown: object = "not defined"
    if value is not None:
        shown = exact(figure.key, value, figure.shown)
    return tag(
        "div",
        tag("dt", figure.name),
        tag("dd", shown, class_="value"),
        tag("dd", figure.why, class_="why"),
    )


def table(
    heads: Sequence[str],
    lines: Iterable[Sequence[object]],
    *,
    numeric: Iterable[int] = (),
    long: int = -1,
    caption: str = "",
    last_is_sum: bool = False,
    cards: bool = False,
) -> Html:
    """A table whose first cells name their lines; where it is too wide it scrolls by itself.

    Parameters
    ----------
    numeric : columns of numbers, set to the right
    long : a column of words
    last_is_sum : whether the last line sums up the others
    cards : whether each line becomes a list on a phone
    """
    kinds = {long: "long"} | dict.fromkeys(numeric, "num")
    lines = [list(line) for line in lines]
    body = []
    for number, (first, *cells) in enumerate(lines, start=1):
        row = [tag("th", first, scope="row", class_=kinds.get(0))]
        row += [
            tag("td", cell, class_=kinds.get(i), data_head=heads[i] if cards else None)
            for i, cell in enumerate(cells, start=1)
        ]
        body.append(tag("tr", *row, class_="sum" if last_is_sum and number == len(lines) else None))
    head = (tag("th", name, scope="col", class_=kinds.get(i)) for i, name in enumerate(heads))
    whole = tag(
        "table",
        tag("caption", caption) if caption else "",
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
        class_="cards" if cards else None,
    )
    label = caption or ", ".join(heads)
    return tag("div", whole, class_="scroll", tabindex=0, role="region", aria_label=label)


def facts(values: Mapping[str, object]) -> Html:
    """A table of names and values."""
    lines = (tag("tr", tag("th", key, scope="row"), tag("td", v)) for key, v in values.items())
    return tag("table", tag("tbody", *lines), class_="facts")


def folded(summary: str, inside: Html) -> Html:
    """What is shown on demand, and on paper."""
    return tag("details", tag("summary", summary), inside)


def bullets(items: Iterable[object]) -> Html:
    """A list."""
    return tag("ul", *(tag("li", item) for item in items))


# --- charts --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Axis:
    """Where values lie between the ends of an axis; those beyond are drawn at the end.

    Attributes
    ----------
    label : str
    low, high : float
    log : bool
        Equal ratios, not equal differences, are equally long.
    bend : float
        If not 0, the axis is about linear up to this distance from 0, and logarithmic beyond.
    percent : bool
        Ticks are shares.
    blank : bool
        No ticks: the numbers mean nothing by themselves.
    """

    label: str
    low: float
    high: float
    log: bool = False
    bend: float = 0.0
    percent: bool = False
    blank: bool = False

    @classmethod
    def nats(cls, label: str, values: Iterable[np.ndarray], highest: float) -> Axis:
        """A logarithmic axis for uncertainties, from a power of ten up to `highest`."""
        lowest = min((float(np.quantile(each, 0.01)) for each in values), default=0.0)
        decade = math.floor(math.log10(min(max(lowest, 1e-5), highest / 10)))
        return cls(label, 10.0**decade, highest, log=True)

    @classmethod
    def scores(cls, label: str, values: Iterable[np.ndarray], bend: float) -> Axis:
        """An axis for scores on both sides of 0, up to a hundred times `bend`."""
        known = np.concatenate([each[np.isfinite(each)] for each in values])
        high = min(max(float(known.max(initial=0)), 2 * bend), 100 * bend)
        return cls(label, max(float(known.min(initial=0)), -10 * bend), high, bend=bend)

    def place(self, values: object) -> np.ndarray:
        """Positions between 0 and 1."""
        given = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        low, high = self._bent(np.array([self.low, self.high], dtype=np.float64))
        return (self._bent(given) - low) / (high - low)

    def _bent(self, values: np.ndarray) -> np.ndarray:
        if self.bend:
            return np.arcsinh(values / self.bend)
        return np.log(values) if self.log else values

    def bins(self, count: int) -> np.ndarray:
        """Edges (count + 1,) of bins that are equally wide on the page."""
        low, high = self._bent(np.array([self.low, self.high], dtype=np.float64))
        edges = np.linspace(low, high, count + 1)
        if self.bend:
            edges = self.bend * np.sinh(edges)
        elif self.log:
            edges = np.exp(edges)
        edges[[0, -1]] = self.low, self.high
        return edges

    def beyond(self, values: np.ndarray) -> np.ndarray:
        """Which values lie outside its ends."""
        return (values < self.low) | (values > self.high)

    def ticks(self) -> list[tuple[float, str]]:
        """Round values along the axis, and how they are written."""
        if self.blank:
            return []
        if self.log:
            decades = range(round(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)
            return [(10.0**d, np.format_float_positional(10.0**d, trim="-")) for d in decades]
        if self.bend:
            first, last = (math.floor(math.log10(each)) for each in (self.bend, self.high))
            sizes = [10.0**d for d in range(first, last + 1)]
            values = [0.0, *sizes, *(-size for size in sizes)]
            return [(v, f"{v:.4g}") for v in values if self.low <= v <= self.high]
        step = _round_step(self.high - self.low)
        first = math.ceil(self.low / step - 1e-9)
        values = [k * step for k in range(first, math.floor(self.high / step + 1e-9) + 1)]
        return [(v, f"{100 * v:.4g} %" if self.percent else f"{v:.4g}") for v in values]


class Plot:
    """A frame with two axes, to which marks are added in the order in which they are drawn.

    Parameters
    ----------
    title : str
        What is shown; read aloud in place of the picture.
    x, y : Axis
    height : float
    """

    def __init__(self, title: str, x: Axis, y: Axis, height: float = 300.0) -> None:
        self.title = title
        self.x = x
        self.y = y
        self.height = height
        self._left = 28.0 + 7.6 * max((len(words) for _, words in y.ticks()), default=0)
        self._marks: list[Html] = []

    def dots(self, x: np.ndarray, y: np.ndarray, kind: str) -> None:
        """A dot at each place: round, or square, or as `page.css` says of this kind."""
        places = dict.fromkeys(f"M{a} {b}h0" for a, b in self._places(x, y))
        if places:
            self._add("path", class_=f"dots {kind}", d="".join(places))

    def crosses(self, x: np.ndarray, y: np.ndarray, kind: str, names: Sequence[str]) -> None:
        """A cross at each place, which tells its name when pointed at."""
        for (a, b), name in zip(self._places(x, y), names, strict=True):
            path = f"M{a - 3:.1f} {b - 3:.1f}l6 6m0 -6l-6 6"
            self._add("path", tag("title", name), class_=f"cross {kind}", d=path)

    def bubbles(self, x: np.ndarray, y: np.ndarray, area: np.ndarray, kind: str) -> None:
        """A circle at each place; `area` is a share of the largest."""
        for (a, b), size in zip(self._places(x, y), area, strict=True):
            self._add("circle", class_=kind, cx=a, cy=b, r=f"{2.5 + 8 * math.sqrt(size):.1f}")

    def line(self, x: object, y: object, kind: str) -> None:
        """Straight lines from place to place."""
        places = [f"{a} {b}" for a, b in self._places(np.asarray(x), np.asarray(y))]
        self._add("path", class_=f"line {kind}", d="M" + "L".join(places))

    def steps(self, x: np.ndarray, y: np.ndarray, kind: str) -> None:
        """A staircase: y holds from its x up to the next."""
        self.line(np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1], kind)

    def bars(self, edges: np.ndarray, heights: np.ndarray, floor: float, kind: str) -> None:
        """A bar for each pair of neighbouring edges, from `floor` up by its height."""
        base = self._down(floor)
        for left, right, height in zip(edges[:-1], edges[1:], heights, strict=True):
            a, b, top = self._across(left), self._across(right), self._down(floor + height)
            if height > 0:
                box = {"x": f"{a:.1f}", "width": f"{max(b - a - 0.8, 0.5):.1f}"}
                tall = max(base - top, 0.8)
                self._add("rect", class_=kind, y=f"{base - tall:.1f}", height=f"{tall:.1f}", **box)

    def vertical(self, x: float, kind: str) -> None:
        """A line from bottom to top at x."""
        self.line([x, x], [self.y.low, self.y.high], kind)

    def text(self, x: float, y: float, words: str, *, anchor: str = "start") -> None:
        """Words at a place."""
        ((a, b),) = self._places(np.array([x]), np.array([y]))
        self._add("text", words, x=a, y=b, text_anchor=anchor, class_="over")

    def svg(self) -> Html:
        """The whole picture."""
        return tag(
            "svg",
            *self._frame(),
            *self._marks,
            viewBox=f"0 0 {_WIDTH:g} {self.height:g}",
            role="img",
            aria_label=self.title,
        )

    def _add(self, name: str, *inside: object, **attributes: object) -> None:
        self._marks.append(tag(name, *inside, **attributes))

    def _across(self, x: float) -> float:
        return self._left + float(self.x.place(x)) * (_WIDTH - self._left - _RIGHT)

    def _down(self, y: float) -> float:
        return self.height - _BOTTOM - float(self.y.place(y)) * (self.height - _TOP - _BOTTOM)

    def _places(self, x: np.ndarray, y: np.ndarray) -> list[tuple[float, float]]:
        across = self._left + self.x.place(x) * (_WIDTH - self._left - _RIGHT)
        down = self.height - _BOTTOM - self.y.place(y) * (self.height - _TOP - _BOTTOM)
        return list(zip(across.round(1).tolist(), down.round(1).tolist(), strict=True))

    def _frame(self) -> list[Html]:
        """Grid lines, ticks and the names of the axes."""
        bottom, middle = self.height - _BOTTOM, (self.height - _BOTTOM + _TOP) / 2
        parts = []
        for value, words in self.x.ticks():
            a = round(self._across(value), 1)
            parts.append(tag("path", class_="grid", d=f"M{a} {_TOP}V{bottom}"))
            parts.append(tag("text", words, x=a, y=bottom + 16, text_anchor="middle"))
        for value, words in self.y.ticks():
            b = round(self._down(value), 1)
            parts.append(tag("path", class_="grid", d=f"M{self._left} {b}H{_WIDTH - _RIGHT}"))
            parts.append(tag("text", words, x=self._left - 6, y=b + 4, text_anchor="end"))
        parts.append(
            tag("path", class_="axis", d=f"M{self._left} {_TOP}V{bottom}H{_WIDTH - _RIGHT}")
        )
        center = (self._left + _WIDTH - _RIGHT) / 2
        below = {"x": center, "y": self.height - 8, "text_anchor": "middle", "class_": "name"}
        parts.append(tag("text", self.x.label, **below))
        turn = f"translate(13 {middle:g}) rotate(-90)"
        parts.append(tag("text", self.y.label, transform=turn, text_anchor="middle", class_="name"))
        return parts


def chart(
    plot: Plot, caption: str, legend: Iterable[tuple[Html, str]] = (), *, aside: object = None
) -> Html:
    """A plot with its title above, legend and caption below, and what helps to read it beside."""
    items = [tag("li", mark, tag("span", words)) for mark, words in legend]
    figure = tag(
        "figure",
        tag("strong", plot.title),
        plot.svg(),
        tag("ul", *items, class_="legend") if items else "",
        tag("figcaption", caption),
    )
    if aside is None:
        return figure
    return tag("div", figure, tag("div", aside, class_="aside"), class_="pair")


def swatch(kind: str, shape: str = "dot") -> Html:
    """The mark of a legend: a dot, a cross, a bar or a line of this kind."""
    mark = {
        "dot": tag("path", class_=f"dots {kind}", d="M10 7h0"),
        "cross": tag("path", class_=f"cross {kind}", d="M7 4l6 6m0 -6l-6 6"),
        "bar": tag("rect", class_=kind, x=4, y=2, width=12, height=10),
        "ring": tag("circle", class_=kind, cx=10, cy=7, r=4.5),
        "line": tag("path", class_=f"line {kind}", d="M1 7h18"),
    }[shape]
    return tag("svg", mark, viewBox="0 0 20 14", class_="swatch", aria_hidden="true")


def _round_step(length: float, wanted: int = 5) -> float:
    """1, 2 or 5 times a power of ten, so that about `wanted` of it make the length."""
    rough = length / wanted
    power = 10.0 ** math.floor(math.log10(rough))
    return power * min((1.0, 2.0, 5.0, 10.0), key=lambda factor: abs(factor * power - rough))

"""The geometry of a chart: axes, ticks and marks, in the units of its SVG.

`templates/chart.html.j2` draws a `Plot`; `page.css` says how each kind of mark looks.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

Scale = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Axis:
    """The ends of an axis, its ticks and its scale; values beyond an end are drawn there."""

    low: float
    high: float
    # round values, and how they are written
    ticks: list[tuple[float, str]] = field(default_factory=list)
    scale: Scale = np.asarray  # from values to lengths along the axis
    unscale: Scale = np.asarray  # and back

    def position(self, values: ArrayLike) -> np.ndarray:
        """Where values lie along the axis, from 0 to 1."""
        inside = np.clip(np.asarray(values, dtype=np.float64), self.low, self.high)
        low, high = self.scale(np.array([self.low, self.high]))
        return (self.scale(inside) - low) / (high - low)

    def bins(self, number: int) -> np.ndarray:
        """Edges (number + 1,) of bins that are equally wide in the chart."""
        low, high = self.scale(np.array([self.low, self.high]))
        edges = self.unscale(np.linspace(low, high, number + 1))
        edges[[0, -1]] = self.low, self.high
        return edges

    def outside(self, values: np.ndarray) -> np.ndarray:
        """Which values lie beyond the ends."""
        return (values < self.low) | (values > self.high)


def percent_axis(high: float = 1.0) -> Axis:
    """A linear axis of shares from 0, with about five ticks in percent."""
    power = 10.0 ** math.floor(math.log10(high / 5))
    step = power * min((1, 2, 5, 10), key=lambda factor: abs(factor * power - high / 5))
    values = [k * step for k in range(math.floor(high / step + 1e-9) + 1)]
    return Axis(0.0, high, [(value, f"{100 * value:.4g} %") for value in values])


def log_axis(values: Iterable[np.ndarray], high: float) -> Axis:
    """A logarithmic axis for uncertainties, from a power of ten up to `high`."""
    lowest = min(float(np.quantile(each, 0.01)) for each in values)
    first = math.floor(math.log10(min(max(lowest, 1e-5), high / 10)))
    powers = [10.0**decade for decade in range(first, math.floor(math.log10(high)) + 1)]
    ticks = [(power, np.format_float_positional(power, trim="-")) for power in powers]
    return Axis(10.0**first, high, ticks, np.log, np.exp)


def symlog_axis(values: Iterable[np.ndarray], linear: float) -> Axis:
    """An axis for scores of both signs: about linear up to `linear`, and logarithmic beyond."""
    finite = np.concatenate([each[np.isfinite(each)] for each in values])
    low = max(float(finite.min(initial=0)), -10 * linear)
    high = min(max(float(finite.max(initial=0)), 2 * linear), 100 * linear)
    first, last = (math.floor(math.log10(each)) for each in (linear, high))
    powers = [10.0**decade for decade in range(first, last + 1)]
    round_values = [0.0, *powers, *(-power for power in powers)]
    ticks = [(value, f"{value:.4g}") for value in round_values if low <= value <= high]
    return Axis(low, high, ticks, lambda x: np.arcsinh(x / linear), lambda x: linear * np.sinh(x))


class Mark(NamedTuple):
    """An SVG element: its name, attributes, text, and the tooltip that it shows."""

    element: str
    attributes: Mapping[str, object]
    text: str = ""
    tooltip: str = ""


@dataclass(frozen=True)
class Plot:
    """A frame with two axes and the marks in it, in drawing order.

    One unit is about a pixel where two charts stand side by side, and 0.8 pixels on a phone.
    """

    x: Axis
    y: Axis
    height: int = 300
    marks: list[Mark] = field(default_factory=list)

    width: ClassVar[int] = 440
    top: ClassVar[int] = 12
    right: ClassVar[int] = width - 22

    @property
    def bottom(self) -> int:
        """Where the x axis lies."""
        return self.height - 46

    @property
    def left(self) -> float:
        """Where the y axis lies: its labels must fit beside it."""
        return round(28 + 7.6 * max((len(text) for _, text in self.y.ticks), default=0), 1)

    def dots(self, x: np.ndarray, y: np.ndarray, kind: str) -> None:
        """A dot at each point, all in one path; equal points are drawn once."""
        points = dict.fromkeys(f"M{a} {b}h0" for a, b in self._points(x, y))
        if points:
            self._add("path", f"dots {kind}", d="".join(points))

    def crosses(self, x: np.ndarray, y: np.ndarray, kind: str, names: Sequence[str]) -> None:
        """A cross at each point, with its name as a tooltip."""
        for (a, b), name in zip(self._points(x, y), names, strict=True):
            path = f"M{a - 3:.1f} {b - 3:.1f}l6 6m0 -6l-6 6"
            self._add("path", f"cross {kind}", tooltip=name, d=path)

    def circles(self, x: ArrayLike, y: ArrayLike, area: ArrayLike, kind: str) -> None:
        """A circle at each point; `area` is relative to the largest."""
        for (a, b), size in zip(self._points(x, y), np.asarray(area).tolist(), strict=True):
            self._add("circle", kind, cx=a, cy=b, r=f"{2.5 + 8 * math.sqrt(size):.1f}")

    def line(self, x: ArrayLike, y: ArrayLike, kind: str) -> None:
        """Straight lines from point to point."""
        path = "L".join(f"{a} {b}" for a, b in self._points(x, y))
        self._add("path", f"line {kind}", d=f"M{path}")

    def steps(self, x: np.ndarray, y: np.ndarray, kind: str) -> None:
        """A step function: y holds from its x up to the next."""
        self.line(np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1], kind)

    def vertical(self, x: float, kind: str) -> None:
        """A line from bottom to top."""
        self.line([x, x], [self.y.low, self.y.high], kind)

    def bars(self, edges: np.ndarray, heights: np.ndarray, base: float, kind: str) -> None:
        """A bar between each pair of neighboring edges, from `base` up by its height."""
        across, bottom = self.across(edges), float(self.down(base))
        lengths = bottom - self.down(base + heights)
        for (left, right), length in zip(pairwise(across), lengths, strict=True):
            if length > 0:
                tall, wide = max(length, 0.8), max(right - left - 0.8, 0.5)
                y, height = f"{bottom - tall:.1f}", f"{tall:.1f}"
                self._add("rect", kind, y=y, height=height, x=f"{left:.1f}", width=f"{wide:.1f}")

    def text(self, x: float, y: float, text: str) -> None:
        """Text that starts at a point."""
        ((a, b),) = self._points([x], [y])
        self._add("text", "over", text, x=a, y=b)

    def _add(
        self, element: str, kind: str, text: str = "", tooltip: str = "", **geometry: str | float
    ) -> None:
        self.marks.append(Mark(element, {"class": kind, **geometry}, text, tooltip))

    def _points(self, x: ArrayLike, y: ArrayLike) -> list[tuple[float, float]]:
        across, down = self.across(x).round(1), self.down(y).round(1)
        return list(zip(across.tolist(), down.tolist(), strict=True))

    def across(self, x: ArrayLike) -> np.ndarray:
        """Where values of x lie in the picture, from its left."""
        return self.left + self.x.position(x) * (self.right - self.left)

    def down(self, y: ArrayLike) -> np.ndarray:
        """Where values of y lie in the picture, from its top."""
        return self.bottom - self.y.position(y) * (self.bottom - self.top)

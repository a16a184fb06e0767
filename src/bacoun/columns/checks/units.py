"""Conversions of units, and which of them explains why numbers differ from training."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from bacoun.columns.checks.comparing import Difference, distance, ks_p
from bacoun.columns.column import Column

_FEW = 5  # with fewer rows, many conversions would explain them; only powers of ten are tried
_MUCH_CLOSER = 0.5  # a conversion must at least halve the distance
_NOISE = 0.3  # by which distances vary, in units of their standard error

_HINTS = {  # of powers of ten
    1: ("cm as mm", "mm as cm"),
    2: ("m as cm, or a fraction as percent", "cm as m, or percent as a fraction"),
    3: ("m as mm, or kg as g", "mm as m, or g as kg"),
}
# What was multiplied by this; the inverse is added for each.
_FACTORS = {
    2.54: ("inch as cm", "cm as inch"),
    25.4: ("inch as mm", "mm as inch"),
    2.2046: ("kg as pounds", "pounds as kg"),
    28.35: ("ounces as g", "g as ounces"),
    1.609: ("miles as km", "km as miles"),
    3.2808: ("m as feet", "feet as m"),
    3.6: ("m/s as km/h", "km/h as m/s"),
    7: ("weeks as days", "days as weeks"),
    12: ("years as months", "months as years"),
    24: ("days as hours", "hours as days"),
    60: ("hours as minutes, or minutes as seconds", "minutes as hours, or seconds as minutes"),
    365.25: ("years as days", "days as years"),
    3600: ("hours as seconds", "seconds as hours"),
    18.016: ("glucose, mmol/L as mg/dL", "glucose, mg/dL as mmol/L"),
    38.67: ("cholesterol, mmol/L as mg/dL", "cholesterol, mg/dL as mmol/L"),
    88.42: ("creatinine, mg/dL as µmol/L", "creatinine, µmol/L as mg/dL"),
}
_OFFSETS_OF_DATES = {1462.0: "dates of Excel from 1900 and from 1904", 36525.0: "another century"}


class Conversion(NamedTuple):
    """What may have been done to the numbers: a monotone function, and its name."""

    label: str
    convert: Callable[[np.ndarray], np.ndarray]
    increasing: bool = True


def explain(training: Column, values: np.ndarray, difference: Difference) -> str:
    """The conversion that makes training values look like `values` (n,), or "" if none does.

    `difference` is how different they are without any conversion.
    """
    ordered = np.sort(values)
    powers = _distances(training, ordered, _powers())
    others = _distances(training, ordered, _others(training)) if len(values) >= _FEW else {}
    best = min({**powers, **others}.values(), default=1.0)
    p = ks_p(best, training.n_present, len(values))
    if best > _MUCH_CLOSER * difference.size or not Difference(best, p).fits:
        return ""
    # A power of ten is the likeliest mistake, if it is as good up to sampling noise.
    noise = _NOISE * np.sqrt(1 / training.n_present + 1 / len(values))
    closest = min(powers, key=lambda label: powers[label], default="")
    if closest and powers[closest] <= best + noise:
        return closest
    equal = sorted(others, key=lambda label: others[label])
    return " or ".join([label for label in equal if others[label] <= best + noise][:3])


def _distances(
    training: Column, ordered: np.ndarray, conversions: Iterator[Conversion]
) -> dict[str, float]:
    """The distance that is left after each conversion that is defined for all training values."""
    left = {}
    for label, convert, increasing in conversions:
        with np.errstate(all="ignore"):
            cuts = convert(training.cuts)
        if np.isfinite(cuts).all():
            left[label] = distance(training, ordered, cuts, increasing)
    return left


def _powers() -> Iterator[Conversion]:
    for exponent in range(1, 7):
        yield from _both_ways(10**exponent, *_HINTS.get(exponent, ("", "")))


def _others(training: Column) -> Iterator[Conversion]:
    if training.kind == "date":
        for days, hint in _OFFSETS_OF_DATES.items():
            yield Conversion(f"+ {days:.0f} days ({hint})", partial(np.add, days))
            yield Conversion(f"- {days:.0f} days ({hint})", partial(np.add, -days))
        return
    for factor, hints in _FACTORS.items():
        yield from _both_ways(factor, *hints)
    yield Conversion("the opposite sign", lambda x: -x, increasing=False)
    yield Conversion("Celsius as Fahrenheit", lambda x: 1.8 * x + 32)
    yield Conversion("Fahrenheit as Celsius", lambda x: (x - 32) / 1.8)
    yield Conversion("Celsius as Kelvin", lambda x: x + 273.15)
    yield Conversion("Kelvin as Celsius", lambda x: x - 273.15)
    yield Conversion("log10", np.log10)
    yield Conversion("the natural logarithm", np.log)
    yield Conversion("log(1 + x)", np.log1p)
    width = training.high - training.low
    if width > 0 and training.sd > 0:
        center, sd = training.mean, training.sd
        yield Conversion("standardization to mean 0 and sd 1", lambda x: (x - center) / sd)
        yield Conversion("scaling to 0..1", lambda x: (x - training.low) / width)


def _both_ways(factor: float, forth: str, back: str) -> Iterator[Conversion]:
    forth, back = (f" ({hint})" if hint else "" for hint in (forth, back))
    yield Conversion(f"x {factor}{forth}", lambda x: x * factor)
    yield Conversion(f"/ {factor}{back}", lambda x: x / factor)

"""Numbers as text: the filters of the templates."""

import math

import numpy as np
from scipy import stats


def percent(share: float) -> str:
    """A share with one decimal; only exactly 0 and 1 are shown as 0 % and 100 %.

    The space before the sign does not break.
    """
    number = f"{100 * share:.1f}"
    if share in (0, 1):
        number = f"{100 * share:.0f}"
    elif not 0.0005 <= share < 0.9995:
        number = "over 99.9" if share > 0.5 else "under 0.1"
    return f"{number}\N{NO-BREAK SPACE}%"


def digits(value: float) -> str:
    """A score or a number of nats, to three significant digits."""
    if not math.isfinite(value):
        return "infinite"
    if abs(value) < 1e-4:
        return "under 0.0001" if value else "0"
    return f"{value:#.3g}"


def nats(value: float) -> str:
    """A surprise, whose size is all that matters."""
    if value >= 1000:
        return "over 1,000 nats"
    return "under 0.1 nats" if value < 0.05 else f"{value:.1f} nats"


def plain(value: float) -> str:
    """A number to two significant digits, never with an exponent."""
    return np.format_float_positional(value, precision=2, fractional=False, trim="-")


def count(number: int) -> str:
    """A count with a comma between thousands."""
    return f"{number:,}"


def rows(number: int, what: str = "row") -> str:
    """A count of rows, or of something else."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def interval(right: int, number: int) -> str:
    """The 95 % confidence interval (Wilson) of the share that `right` of `number` estimates."""
    low, high = stats.binomtest(right, number).proportion_ci(method="wilson")
    return f"{percent(max(low, 0.0))} to {percent(min(high, 1.0))}"


FILTERS = {each.__name__: each for each in (count, digits, interval, percent, plain, rows)}

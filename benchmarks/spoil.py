"""Accidents that happen to tables between the training of a model and its use.

Each takes a random generator, test rows and training rows, both without the target, and returns the
spoiled rows, with the same columns and index; or None if the table has no column that it could
happen to. Most happen to one column, drawn at random among those that are suitable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
import pandas as pd
from reproduction.datasets.frames import load_frame

from benchmarks.detectors import categories_in, dates_in, numbers_in

Generator = np.random.Generator
Accident = Callable[[Generator, pd.DataFrame, pd.DataFrame], pd.DataFrame | None]
Change = Callable[[Generator, pd.Series, pd.Series], pd.Series]
"""Takes a column of the test rows, and the same column of the training rows."""

DONORS = ("breast-cancer", "iris", "sklearn-wine", "wine-quality")  # none of them needs a file


def changed_rows(before: pd.DataFrame, after: pd.DataFrame) -> np.ndarray:
    """Which rows (N,) differ in some cell; a gap equals a gap, and 5 equals 5.0."""
    old, new = before.astype(object).to_numpy(), after.astype(object).to_numpy()
    return ((old != new) & ~(pd.isna(old) & pd.isna(new))).any(axis=1)


# --- suitable columns -----------------------------------------------------------------------------


def measurements(known: pd.DataFrame) -> list[str]:
    """Columns of numbers with more than two values: the others are flags rather than measured."""
    return [name for name in numbers_in(known) if known[name].nunique() > 2]


def with_decimals(known: pd.DataFrame) -> list[str]:
    """Measurements that are not all whole numbers."""
    return [name for name in measurements(known) if (known[name].dropna() % 1 != 0).any()]


def varied(known: pd.DataFrame) -> list[str]:
    """Columns of any kind with more than one value."""
    return [name for name in known if known[name].nunique() > 1]


def varied_categories(known: pd.DataFrame) -> list[str]:
    """Columns of categories with more than one value."""
    return [name for name in categories_in(known) if known[name].nunique() > 1]


def long_categories(known: pd.DataFrame) -> list[str]:
    """Columns of categories of which some are longer than one letter."""
    return [name for name in varied_categories(known) if (known[name].str.len() > 1).any()]


def in_one(suitable: Callable[[pd.DataFrame], list[str]], change: Change) -> Accident:
    """The accident that `change` happens to one of the suitable columns."""

    def accident(rng: Generator, rows: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame | None:
        names = suitable(known)
        if not names:
            return None
        name = names[rng.integers(len(names))]
        return rows.assign(**{name: change(rng, rows[name], known[name])})

    return accident


# --- one column -----------------------------------------------------------------------------------


def shift_decimal_points(rng: Generator, values: pd.Series, known: pd.Series) -> pd.Series:
    """Each number is ten times too large or too small."""
    return values * rng.choice([10.0, 0.1], len(values))


def shuffle(rng: Generator, values: pd.Series, known: pd.Series) -> pd.Series:
    """The values belong to other rows."""
    return values.iloc[rng.permutation(len(values))].set_axis(values.index)


def constant(rng: Generator, values: pd.Series, known: pd.Series) -> pd.Series:
    """The sensor is stuck at the median of training."""
    return pd.Series(known.median(), index=values.index)


def mark_missing(rng: Generator, values: pd.Series, known: pd.Series) -> pd.Series:
    """Half of the cells are -999, which stands for missing."""
    return values.mask(some_of(rng, values, 0.5), -999)


def add_noise(rng: Generator, values: pd.Series, known: pd.Series) -> pd.Series:
    """Gaussian noise of three standard deviations of the column."""
    return values + 3 * known.std() * rng.standard_normal(len(values))


def write_decimal_commas(rng: Generator, values: pd.Series, known: pd.Series) -> pd.Series:
    """Numbers as text, with a comma instead of the point."""
    return values.map(lambda value: str(value).replace(".", ","), na_action="ignore")


def recode(rng: Generator, values: pd.Series, known: pd.Series) -> pd.Series:
    """Each category stands for another one."""
    names = rng.permutation(sorted(known.dropna().unique()))
    meaning = dict(zip(names.tolist(), np.roll(names, 1).tolist(), strict=True))
    return values.map(lambda value: meaning.get(value, value), na_action="ignore")


def gaps(share: float) -> Change:
    """A share of the cells is empty."""
    return lambda rng, values, known: values.mask(some_of(rng, values, share))


def each(change: Callable[[pd.Series], pd.Series]) -> Change:
    """A change that depends on the values alone."""
    return lambda rng, values, known: change(values)


def each_text(change: Callable[[str], str]) -> Change:
    """A change of each text that depends on it alone."""
    return each(lambda values: values.map(change, na_action="ignore"))


def some_of(rng: Generator, values: pd.Series, share: float) -> np.ndarray:
    """A mask (N,) that is True in a share of random rows, rounded up."""
    mask = np.zeros(len(values), dtype=bool)
    mask[rng.permutation(len(values))[: int(np.ceil(share * len(values)))]] = True
    return mask


def rewrite_date(text: str) -> str:
    """Day.month.year instead of year-month-day."""
    return ".".join(reversed(text.split("-")))


# --- several columns ------------------------------------------------------------------------------


def swap_columns(rng: Generator, rows: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame | None:
    """Two columns of numbers have each other's values."""
    names = measurements(known)
    if len(names) < 2:
        return None
    first, second = (names[place] for place in rng.permutation(len(names))[:2])
    return rows.assign(**{first: rows[second], second: rows[first]})


def move_columns(rng: Generator, rows: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame | None:
    """Every column has the values of the one to its left, the first those of the last."""
    return rows[np.roll(rows.columns, 1)].set_axis(rows.columns, axis=1)


def scale_all(rng: Generator, rows: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame | None:
    """All numbers are one and a half times as large."""
    names = numbers_in(known)
    return rows.assign(**{name: 1.5 * rows[name] for name in names}) if names else None


def empty_rows(rng: Generator, rows: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame | None:
    """No cell has a value."""
    return rows.mask(np.ones(rows.shape, dtype=bool))


def copy_training_rows(
    rng: Generator, rows: pd.DataFrame, known: pd.DataFrame
) -> pd.DataFrame | None:
    """Rows that were trained on come again: strange to a person, familiar to a model."""
    return known.iloc[rng.integers(len(known), size=len(rows))].set_axis(rows.index)


def mix_rows(rng: Generator, rows: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame | None:
    """Half of the columns come from another row, as after a join by the wrong key."""
    names = rng.permutation(rows.columns)[: rows.shape[1] // 2]
    other = rows.iloc[np.roll(np.arange(len(rows)), 1)].set_axis(rows.index)
    return rows.assign(**{name: other[name] for name in names})


def put_other_table(rng: Generator, rows: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame | None:
    """The numbers are those of another table, from its first column on, and again if it has few."""
    names = numbers_in(known)
    if not names:
        return None
    others = [donor for donor in map(donor_numbers, DONORS) if set(donor) != set(names)]
    donor = others[rng.integers(len(others))]
    cells = donor.to_numpy()[rng.integers(len(donor), size=len(rows))]
    return rows.assign(**{name: cells[:, i % donor.shape[1]] for i, name in enumerate(names)})


@lru_cache
def donor_numbers(name: str) -> pd.DataFrame:
    """A table of numbers alone."""
    frame, target = load_frame(name)
    return frame.drop(columns=target)


ACCIDENTS: dict[str, Accident] = {
    "unit: x 1000": in_one(measurements, each(lambda values: values * 1000)),
    "unit: x 2.54": in_one(measurements, each(lambda values: values * 2.54)),
    "unit: Fahrenheit": in_one(measurements, each(lambda values: values * 1.8 + 32)),
    "sign flipped": in_one(measurements, each(lambda values: -values)),
    "decimal point shifted": in_one(measurements, shift_decimal_points),
    "two columns swapped": swap_columns,
    "column shuffled": in_one(varied, shuffle),
    "stuck at the median": in_one(measurements, constant),
    "all zero": in_one(measurements, each(lambda values: values * 0)),
    "-999 for missing": in_one(measurements, mark_missing),
    "gaps in 10 %": in_one(varied, gaps(0.1)),
    "gaps in 50 %": in_one(varied, gaps(0.5)),
    "gaps in 100 %": in_one(varied, gaps(1.0)),
    "empty rows": empty_rows,
    "new category": in_one(varied_categories, each_text(lambda text: "brand-new")),
    "categories recoded": in_one(varied_categories, recode),
    "other case": in_one(varied_categories, each_text(str.swapcase)),
    "text truncated": in_one(long_categories, each_text(lambda text: text[: (len(text) + 1) // 2])),
    "dates as day.month.year": in_one(dates_in, each_text(rewrite_date)),
    "dates a century early": in_one(dates_in, each_text(lambda text: f"19{text[2:]}")),
    "numbers of another table": put_other_table,
    "half of another row": mix_rows,
    "copy of a training row": copy_training_rows,
    "off by one column": move_columns,
    "rounded to integers": in_one(with_decimals, each(lambda values: values.round())),
    "all numbers x 1.5": scale_all,
    "noise of 3 sd": in_one(measurements, add_noise),
    "decimal commas": in_one(with_decimals, write_decimal_commas),
}

"""Detectors of rows unlike the training rows: ours and its rivals, each from a table to flags (N,).

The rivals share what scikit-learn's guide calls the usual preprocessing: gaps are filled by the
median or the most frequent value, numbers standardized, categories one-hot encoded. What is not
readable as a number raises ValueError, as it would in a pipeline.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
import pandas as pd
from pandas.api import types
from sklearn.model_selection import train_test_split

from bacoun.comparison.detectors import (
    isolation_forest,
    knn_distance,
    local_outlier_factor,
    mahalanobis,
)
from bacoun.deferral import conformal_threshold
from bacoun.tabular import TableModel

FALSE_ALARM = 0.05
CALIBRATION_SHARE = 0.2
_ISO_DATE = r"\d{4}-\d{2}-\d{2}"

Detector = Callable[[pd.DataFrame], np.ndarray]
"""Takes N rows; returns which of them (N,) are flagged."""


# --- columns --------------------------------------------------------------------------------------


def is_date(column: pd.Series) -> bool:
    """Whether a column holds ISO dates as text."""
    if types.is_numeric_dtype(column):
        return False
    present = column.dropna().astype(str)
    return len(present) > 0 and bool(present.str.fullmatch(_ISO_DATE).all())


def numbers_in(frame: pd.DataFrame) -> list[str]:
    """Names of the columns of numbers."""
    return [name for name in frame if types.is_numeric_dtype(frame[name])]


def dates_in(frame: pd.DataFrame) -> list[str]:
    """Names of the columns of dates."""
    return [name for name in frame if is_date(frame[name])]


def categories_in(frame: pd.DataFrame) -> list[str]:
    """Names of the columns of text that are no dates."""
    others = {*numbers_in(frame), *dates_in(frame)}
    return [name for name in frame if name not in others]


def as_numbers(column: pd.Series, *, date: bool, errors: str = "raise") -> np.ndarray:
    """Values (N,) as float64, dates as days; ValueError, or NaN if `errors` is "coerce"."""
    if not date:
        return pd.to_numeric(column, errors=errors).to_numpy(dtype=np.float64, na_value=np.nan)
    days = pd.to_datetime(column, format="%Y-%m-%d", errors=errors) - pd.Timestamp(0)
    return (days / pd.Timedelta(days=1)).to_numpy(dtype=np.float64)


class Preprocessing:
    """Impute, standardize and one-hot encode a mixed table.

    Attributes
    ----------
    column_of_ : list of str
        Name of the column that each of the D features comes from.
    """

    def fit(self, frame: pd.DataFrame) -> Self:
        """Learn the medians, the most frequent categories, and the scale of all numbers."""
        self.dates_ = dates_in(frame)
        self.numbers_ = numbers_in(frame) + self.dates_
        self.categories_ = categories_in(frame)
        numbers, text = self._read(frame, "raise")
        self.medians_ = numbers.median()
        filled = numbers.fillna(self.medians_)
        self.means_, self.scales_ = filled.mean(), filled.std(ddof=0).replace(0.0, 1.0)
        self.modes_ = {name: text[name].mode()[0] for name in text}
        self.known_ = {name: np.array(sorted(set(text[name].dropna())), object) for name in text}
        self.column_of_ = [*self.numbers_]
        for name, values in self.known_.items():
            self.column_of_ += [name] * len(values)
        return self

    def transform(self, frame: pd.DataFrame, errors: str = "raise") -> np.ndarray:
        """Points (N, D); what is unreadable raises ValueError, or is filled if "coerce"."""
        numbers, text = self._read(frame, errors)
        standard = (numbers.fillna(self.medians_) - self.means_) / self.scales_
        filled = text.fillna(self.modes_)
        one_hot = [filled[name].to_numpy()[:, None] == self.known_[name] for name in text]
        return np.concatenate([standard.to_numpy(), *one_hot], axis=1).astype(np.float64)

    def _read(self, frame: pd.DataFrame, errors: str) -> tuple[pd.DataFrame, pd.DataFrame]:
        """The numbers as float64, and the categories as text."""
        numbers = {
            name: as_numbers(frame[name], date=name in self.dates_, errors=errors)
            for name in self.numbers_
        }
        text = {
            name: frame[name].astype(object).map(str, na_action="ignore").astype(object)
            for name in self.categories_
        }
        return pd.DataFrame(numbers, index=frame.index), pd.DataFrame(text, index=frame.index)


# --- rivals ---------------------------------------------------------------------------------------


RIVALS = {
    "isolation forest": isolation_forest,
    "kNN": knn_distance,
    "LOF": local_outlier_factor,
    "Mahalanobis": mahalanobis,
}
NAMES = ("bacoun", *RIVALS, "schema")


def fit_rivals(train: pd.DataFrame, labels: pd.Series, seed: int) -> dict[str, Detector]:
    """The rivals, fitted on four fifths of the training rows and calibrated on the same rest.

    Parameters
    ----------
    train : DataFrame of N rows
        Without the target.
    labels : Series of N
        To stratify the split.
    seed : int
        Of the split and the forest.
    """
    fitting, calibration = train_test_split(
        train, test_size=CALIBRATION_SHARE, stratify=labels, random_state=seed
    )
    preprocessing = Preprocessing().fit(fitting)
    points, held_out = preprocessing.transform(fitting), preprocessing.transform(calibration)
    one_class = np.zeros(len(points))  # one Gaussian for all rows: no rival here knows the labels

    def detector(fit: Callable[..., Any]) -> Detector:
        score = fit(points, one_class, seed).score
        threshold = conformal_threshold(score(held_out), FALSE_ALARM)
        return lambda frame: score(preprocessing.transform(frame)) > threshold

    return {name: detector(fit) for name, fit in RIVALS.items()}


def fit_schema(train: pd.DataFrame) -> Detector:
    """A schema check by pandera: kinds of values, ranges, categories and gaps as in training.

    It has no threshold, so its false alarm is what it is.
    """
    import pandera.pandas as pandera  # installed for the benchmark alone, and slow to import

    schema = pandera.DataFrameSchema({name: _column_schema(train[name]) for name in train})

    def flags(frame: pd.DataFrame) -> np.ndarray:
        try:
            schema.validate(frame, lazy=True)
        except pandera.errors.SchemaErrors as errors:
            return _failed_rows(frame, errors.failure_cases)
        return np.zeros(len(frame), dtype=bool)

    return flags


def _failed_rows(frame: pd.DataFrame, cases: pd.DataFrame) -> np.ndarray:
    """Which rows (N,) of `frame` are among the failure cases; all if a column fails as a whole."""
    named = cases["index"].notna()
    # An unreadable value also fails the column's other checks as a whole; its row is named already.
    if not cases.loc[~named, "column"].isin(cases.loc[named, "column"]).all():
        return np.ones(len(frame), dtype=bool)
    return frame.index.isin(cases.loc[named, "index"])


def _column_schema(column: pd.Series) -> Any:
    import pandera.pandas as pandera

    known, nullable = column.dropna(), bool(column.isna().any())
    if types.is_numeric_dtype(column):
        checks = [pandera.Check.in_range(known.min(), known.max())]
        if (known % 1 == 0).all():
            checks.append(pandera.Check(lambda values: values % 1 == 0, name="whole numbers"))
        return pandera.Column(float, checks, nullable=nullable, coerce=True)
    if is_date(column):
        checks = [
            pandera.Check.str_matches(f"^{_ISO_DATE}$"),
            pandera.Check.in_range(known.min(), known.max()),  # as text, ISO dates are in order
        ]
    else:
        checks = [pandera.Check.isin(known.unique().tolist())]
    return pandera.Column(checks=checks, nullable=nullable)


# --- ours -----------------------------------------------------------------------------------------


def fit_model(train: pd.DataFrame, target: str, seed: int, quick: bool = False) -> TableModel:
    """Our model, with default settings."""
    return TableModel.fit(train, target, random_state=seed, quick=quick)


def of_model(model: TableModel) -> Detector:
    """Which rows the model calls unfamiliar."""
    return lambda frame: (model.score(frame)["reason"] == "unfamiliar").to_numpy()


def fit_all(
    train: pd.DataFrame, target: str, seed: int, quick: bool = False
) -> dict[str, Detector]:
    """Every detector by name, fitted on the rows of `train`."""
    inputs = train.drop(columns=target)
    return {
        "bacoun": of_model(fit_model(train, target, seed, quick)),
        **fit_rivals(inputs, train[target], seed),
        "schema": fit_schema(inputs),
    }


# --- rows that are outside ------------------------------------------------------------------------


class Outside:
    """Rows that lie outside the training rows beyond dispute, whichever detector is asked.

    A row is outside if its fifth nearest training row is farther than that of any training row, or
    if it has an impossible value: an unseen category, a gap in a column without gaps, what is not
    readable, or a number beyond the training range by more than the range's width.
    """

    def __init__(self, train: pd.DataFrame) -> None:
        self.train = train
        self.preprocessing = Preprocessing().fit(train)
        points = self.preprocessing.transform(train)
        self.distance = knn_distance(points, np.zeros(len(points)), 0)

    def __call__(self, frame: pd.DataFrame) -> np.ndarray:
        """Which rows (N,) are outside."""
        points = self.preprocessing.transform(frame, errors="coerce")
        far = self.distance.score(points) > self.distance.known.max()
        return np.any([far, *(self.impossible(frame[name]) for name in self.train)], axis=0)

    def impossible(self, column: pd.Series) -> np.ndarray:
        """Which values (N,) of one column are impossible."""
        known = self.train[column.name]
        gap = column.isna().to_numpy()
        new_gap = gap & (not known.isna().any())
        if column.name in self.preprocessing.categories_:
            return new_gap | (~gap & ~column.astype(object).isin(known.astype(object)).to_numpy())
        date = column.name in self.preprocessing.dates_
        values = as_numbers(column, date=date, errors="coerce")
        low, high = (f(as_numbers(known, date=date)) for f in (np.nanmin, np.nanmax))
        beyond = (values < low - (high - low)) | (values > high + (high - low))
        return new_gap | (~gap & np.isnan(values)) | beyond

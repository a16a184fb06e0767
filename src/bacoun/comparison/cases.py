"""A case: training rows, test rows like them, and rows of one or more shifts.

Natural shifts come from a table: a class, a group or a period that is left out of training.
Synthetic ones are made from the test rows.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
import pandas as pd
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict

from bacoun.tabular.encoding import TableEncoder, find_ids
from bacoun.tabular.items import ItemColumns
from bacoun.tabular.splitting import find_groups, read_times, split
from bacoun.uncertainty import auroc

TEST_SHARE = 0.3
LATE_SHARE = 0.3  # of a table with times: the latest rows, which are the shift
MAX_LEFT_OUT = 5  # classes or groups, the largest ones
_MIN_ROWS = 5  # of a class in training, and of a shift
_MAX_FOREIGN = 500


Frames = Mapping[str, pd.DataFrame]


@dataclass(frozen=True)
class Rows:
    """Encoded rows of a table."""

    points: np.ndarray  # (N, D), categories as 0, 1, ...; -1 is one that training does not have
    labels: np.ndarray | None  # (N,), class indices; None if training does not have these classes
    unseen: np.ndarray  # (N,), which rows hold a value that the encoder calls impossible

    def __len__(self) -> int:
        return len(self.points)

    @property
    def truth(self) -> np.ndarray:
        """The labels (N,), which must be known."""
        if self.labels is None:
            raise ValueError("these rows must have labels of known classes; they have others.")
        return self.labels


@dataclass(frozen=True)
class Case:
    """What all methods are fitted on and judged by.

    The rows `train` and `test` are labeled and from one distribution, `shifts` by name from others.
    """

    train: Rows
    test: Rows
    categorical: list[int]  # which columns of the points are categories
    n_classes: int  # in training
    shifts: dict[str, Rows] = field(default_factory=dict)

    @property
    def numbers(self) -> np.ndarray:
        """Columns (d,) of the points that are no categories."""
        return np.setdiff1d(np.arange(self.train.points.shape[1]), self.categorical)

    @classmethod
    def from_frames(
        cls,
        train: pd.DataFrame,
        test: pd.DataFrame,
        shifts: Frames,
        target: str,
        items: ItemColumns | None = None,
    ) -> Self:
        """Encode tables that have the target among their columns, as `bacoun fit` would.

        `items` are their columns of texts and photos, if any.
        """
        counts = train[target].value_counts()
        known = sorted(counts.index[counts >= _MIN_ROWS])
        train, test = (part[part[target].isin(known)] for part in (train, test))
        items = items or ItemColumns()
        ids = {name: why for name, why in find_ids(train).items() if name not in items.kinds}
        encoder = TableEncoder().fit(train.drop(columns=target), ids=ids, items=items)

        def encode(frame: pd.DataFrame) -> Rows:
            points, unseen = encoder.transform_with_unseen(frame.drop(columns=target))
            is_known = frame[target].isin(known).all()
            labels = np.searchsorted(np.array(known), frame[target]) if is_known else None
            return Rows(points, labels, unseen)

        categorical = encoder.categorical_features_
        encoded = {name: encode(frame) for name, frame in shifts.items()}
        return cls(encode(train), encode(test), categorical, len(known), encoded)


def difficulty(inside: Rows, outside: Rows, seed: int) -> float:
    """AUROC of a classifier that may learn from both sides, by cross-validation.

    About 0.5: nothing could tell these rows apart, so missing them is held against no method.
    """
    points = np.concatenate([inside.points, outside.points])
    is_outside = np.repeat([0, 1], [len(inside), len(outside)])
    judge = HistGradientBoostingClassifier(random_state=seed, max_iter=50)
    chances = cross_val_predict(judge, points, is_outside, cv=3, method="predict_proba")[:, 1]
    return auroc(chances[is_outside == 0], chances[is_outside == 1])


# --- synthetic shifts -----------------------------------------------------------------------------


def one_number_times_ten(case: Case, rng: np.random.Generator) -> np.ndarray | None:
    """In each row one number, not 0, is multiplied by ten: a slip of the decimal point."""
    numbers, points = case.numbers, case.test.points.copy()
    chance = rng.random((len(points), len(numbers))) * (points[:, numbers] != 0)
    rows = np.flatnonzero(chance.any(axis=1))
    if len(rows) == 0:
        return None
    points[rows, numbers[chance[rows].argmax(axis=1)]] *= 10
    return points[rows]


def all_numbers_times_three(case: Case, rng: np.random.Generator) -> np.ndarray | None:
    """All numbers in other units."""
    points = case.test.points.copy()
    points[:, case.numbers] *= 3
    return points if len(case.numbers) else None


def shuffled_columns(case: Case, rng: np.random.Generator) -> np.ndarray | None:
    """Each column is shuffled on its own: the same margins, no dependence."""
    return rng.permuted(case.test.points, axis=0)


def foreign_rows(case: Case, rng: np.random.Generator) -> np.ndarray | None:
    """Rows of another table, each number with the mean and sd of ours; categories at random."""
    points, numbers = case.train.points, case.numbers
    if len(numbers) == 0:
        return None
    tables = [load(return_X_y=True)[0] for load in (load_breast_cancer, load_wine)]
    foreign = next(table for table in tables if table.shape[1] != points.shape[1])
    rows = foreign[rng.permutation(len(foreign))[: min(_MAX_FOREIGN, len(case.test))]]
    chosen = rows[:, rng.permutation(np.resize(np.arange(rows.shape[1]), len(numbers)))]
    standard = (chosen - chosen.mean(axis=0)) / chosen.std(axis=0).clip(1e-12)
    made = rng.permuted(points, axis=0)[np.resize(np.arange(len(points)), len(rows))]
    made[:, numbers] = points[:, numbers].mean(axis=0) + standard * points[:, numbers].std(axis=0)
    return made


def uniform_box(case: Case, rng: np.random.Generator) -> np.ndarray | None:
    """Uniform between the least and the largest value of each column; categories too."""
    low, high = case.train.points.min(axis=0), case.train.points.max(axis=0)
    made = rng.uniform(low, high, size=case.test.points.shape)
    codes = case.categorical
    made[:, codes] = rng.integers(low[codes], high[codes] + 1, size=(len(made), len(codes)))
    return made


Shift = Callable[[Case, np.random.Generator], np.ndarray | None]
"""Makes rows (N, D) of a case; None if its columns do not allow it."""


def _gaussian_at(distance: float) -> Shift:
    def gaussian(case: Case, rng: np.random.Generator) -> np.ndarray | None:
        numbers, train = case.numbers, case.train.points
        if len(numbers) == 0:
            return None
        shape = (len(case.test), len(numbers))
        sides = rng.choice([-1.0, 1.0], size=shape)
        mean, spread = train[:, numbers].mean(axis=0), train[:, numbers].std(axis=0)
        made = case.test.points.copy()
        made[:, numbers] = mean + spread * (distance * sides + rng.normal(size=shape))
        return made

    gaussian.__doc__ = f"Every number is off by {distance:g} standard deviations, and noise."
    return gaussian


SYNTHETIC: dict[str, Shift] = {
    "one number x 10": one_number_times_ten,
    "all numbers x 3": all_numbers_times_three,
    "columns shuffled": shuffled_columns,
    "foreign rows": foreign_rows,
    "uniform box": uniform_box,
    "Gaussian at 1 sd": _gaussian_at(1),
    "Gaussian at 3 sd": _gaussian_at(3),
    "Gaussian at 10 sd": _gaussian_at(10),
}
FAR_SHIFTS = ("Gaussian at 10 sd",)


def with_synthetic_shifts(case: Case, seed: int) -> Case:
    """The case with each shift of `SYNTHETIC` that its columns allow.

    What was made of encoded rows cannot be marked as unseen by the encoder, so ours has no
    advantage from it here.
    """
    shifts = {}
    for number, (name, make) in enumerate(SYNTHETIC.items()):
        points = make(case, np.random.default_rng([seed, number]))
        if points is not None:
            shifts[name] = Rows(points, None, np.zeros(len(points), dtype=bool))
    return replace(case, shifts=case.shifts | shifts)


# --- a user's table -------------------------------------------------------------------------------


def cases_of(
    frame: pd.DataFrame,
    target: str,
    *,
    seed: int,
    time: str | None = None,
    group: str | None = None,
    max_train: int = 2000,
    max_test: int = 1000,
    photo_folder: str = "",
) -> Iterator[tuple[str, Callable[[], Case]]]:
    """The cases that a table offers, by name, each made when it is called.

    Of a column `time` of dates or numbers, the latest rows are a shift; of a column `group`, each
    value in turn is left out. Both are no inputs. `max_train` and `max_test` rows are drawn at
    random if there are more. Texts and photos become vectors, as by `bacoun fit`; paths of photos
    are relative to `photo_folder`.
    """
    no_inputs = [name for name in (time, group) if name is not None]
    items = ItemColumns.find(frame, {target, *no_inputs})
    frame = items.without_unreadable(frame, photo_folder).reset_index(drop=True)
    times = None if time is None else read_times(frame, time)
    if group is not None:
        find_groups(frame, group)  # refuses a column that is missing or has gaps
    inputs = frame.drop(columns=no_inputs)

    def made(known: np.ndarray, shifts: Mapping[str, np.ndarray]) -> Case:
        train, test = _split(inputs[known], target, seed, items)
        rng = np.random.default_rng(seed)
        train, test = _sample(train, max_train, rng), _sample(test, max_test, rng)
        outside = {name: _sample(inputs[rows], max_test, rng) for name, rows in shifts.items()}
        case = Case.from_frames(train, test, outside, target, items)
        return case if shifts else with_synthetic_shifts(case, seed)

    left_out = {}
    if times is not None:
        left_out["later"] = pd.Series(times).rank(pct=True).to_numpy() > 1 - LATE_SHARE
    for word, column, at_least in ((group, group, 2), ("class", target, 3)):
        if column is not None:
            for value in _largest(frame[column], at_least):
                left_out[f"{word} {value}"] = (frame[column] == value).to_numpy()
    yield "synthetic", partial(made, np.ones(len(frame), dtype=bool), {})
    for name, rows in left_out.items():
        yield name, partial(made, ~rows, {name: rows})


def _largest(column: pd.Series, at_least: int) -> list[object]:
    """The most frequent values of a column; none if there are fewer than `at_least`."""
    counts = column.value_counts()
    counts = counts[counts >= _MIN_ROWS]
    return list(counts.index[:MAX_LEFT_OUT]) if len(counts) >= at_least else []


def _split(
    frame: pd.DataFrame, target: str, seed: int, items: ItemColumns
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and test rows, stratified by class; identical rows are on one side."""
    counts = frame[target].value_counts()
    kept = frame[frame[target].isin(counts.index[counts >= 2 * _MIN_ROWS])]
    if kept[target].nunique() < 2:
        raise ValueError(
            f"'{target}' must have two classes of at least {2 * _MIN_ROWS} rows besides what is "
            "left out; it has fewer. Add rows."
        )
    ids = [name for name in find_ids(kept) if name not in items.kinds]
    groups = find_groups(items.by_content(kept.drop(columns=[target, *ids])), None)
    train, test = split(kept[target].to_numpy(), groups, TEST_SHARE, seed)
    return kept.iloc[train], kept.iloc[test]


def _sample(frame: pd.DataFrame, most: int, rng: np.random.Generator) -> pd.DataFrame:
    return frame.iloc[rng.permutation(len(frame))[:most]].reset_index(drop=True)

"""The split of a table into training and calibration rows; rows of a group stay together."""

from __future__ import annotations

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from bacoun.columns.cells import Cells
from bacoun.columns.type_inference import find_kind

_FEWEST_OTHERS, _SHARE_OF_OTHERS = 5, 0.02  # rows whose label is not that of most identical rows


def find_groups(table: pd.DataFrame, column: str | None) -> np.ndarray:
    """Which rows (N,) belong together, as integers: those of one group, or identical ones.

    Parameters
    ----------
    table : DataFrame of N rows
        Without columns that only identify rows: copies may differ in those.
    column : str or None
        Column that names the group of each row. None: identical rows are a group.
    """
    return pd.factorize(hash_groups(table, column))[0]


def are_events(labels: np.ndarray, groups: np.ndarray) -> bool:
    """Whether identical rows are different events that look alike, rather than copies of one.

    Copies of an event have its label. Events that look alike are told by labels that differ: those
    of more than 2 % of the repeated rows, and of at least five.
    """
    rows = pd.DataFrame({"group": groups, "label": labels})
    repeated = rows[rows["group"].duplicated(keep=False)]
    most_frequent = repeated.value_counts().groupby(level="group").max()
    n_others = len(repeated) - int(most_frequent.sum())
    return n_others >= _FEWEST_OTHERS and n_others > _SHARE_OF_OTHERS * len(repeated)


def hash_groups(table: pd.DataFrame, column: str | None) -> np.ndarray:
    """A hash (N,), uint64, that is the same for rows that belong together; see `find_groups`."""
    if column is None:
        return pd.util.hash_pandas_object(table, index=False).to_numpy()
    if column not in table:
        raise ValueError(f"group must be a column of the table; '{column}' is not. Check its name.")
    if table[column].isna().any():
        raise ValueError(f"the group column '{column}' must have no missing values. Fill them.")
    return pd.util.hash_pandas_object(table[column], index=False).to_numpy()


def read_times(table: pd.DataFrame, column: str) -> np.ndarray:
    """Times (N,) of the rows, as float64: dates as days since 1970, or numbers."""
    if column not in table:
        raise ValueError(f"time must be a column of the table; '{column}' is not. Check its name.")
    kind, date_format = find_kind(table[column])
    if kind not in ("date", "number"):
        raise ValueError(
            f"the time column '{column}' must hold dates or numbers; it holds text. Write dates as "
            "2021-04-03."
        )
    times = Cells.read(table[column], kind, date_format, strict=True).values
    if not np.isfinite(times).all():
        raise ValueError(f"the time column '{column}' must have no missing values. Fill them.")
    return times


def split_by_time(
    labels: np.ndarray, groups: np.ndarray, times: np.ndarray, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """Indices of earlier training rows and of held-out rows, the latest ones; both sorted.

    Of a group with training rows, later rows are left out; of another, its first one is held out.

    Parameters
    ----------
    labels, groups, times : array of shape (N,)
        Class, group and time of each row.
    share : float
        Fraction of the rows to hold out.
    """
    order = np.argsort(times, kind="stable")
    n_train = len(order) - round(share * len(order))
    train, later = order[:n_train], order[n_train:]
    fresh = later[~np.isin(groups[later], groups[train])]
    held_out = fresh[np.sort(np.unique(groups[fresh], return_index=True)[1])]
    if min(len(np.unique(labels[side])) for side in (train, held_out)) < len(np.unique(labels)):
        raise ValueError(
            "the time split must leave rows of each class on both sides; the latest "
            f"{share:.0%} of the rows do not. Raise calibration_share, or split at random."
        )
    return np.sort(train), np.sort(held_out)


def split(
    labels: np.ndarray, groups: np.ndarray, share: float, random_state: int
) -> tuple[np.ndarray, np.ndarray]:
    """Indices of training and held-out rows, both sorted and with rows of each class.

    A group is on one side, because a copy of a training row says nothing about new rows; of a
    held-out group one row is kept, because the guarantees count independent rows.

    Parameters
    ----------
    labels, groups : array of shape (N,)
        Class and group of each row.
    share : float
        Fraction of the groups to hold out.
    random_state : int
        Seed of the split.
    """
    n_rows, n_classes = len(labels), len(np.unique(labels))
    one_each = np.arange(n_rows)
    if len(np.unique(groups)) < n_rows:
        order = np.random.default_rng(random_state).permutation(n_rows)
        one_each = order[np.unique(groups[order], return_index=True)[1]]
    n_held_out = round(share * len(one_each))
    too_few = ValueError(
        f"calibration_share must leave rows of each class on both sides; {share:g} of {n_rows} "
        f"rows, {len(one_each)} of them distinct, does not, with {n_classes} classes. Try 0.2, or "
        "add rows."
    )
    if (
        not n_classes <= n_held_out <= len(one_each) - n_classes
        or n_rows - n_held_out < 2 * n_classes
    ):
        raise too_few
    try:
        _, held_out = train_test_split(
            one_each, test_size=n_held_out, stratify=labels[one_each], random_state=random_state
        )
    except ValueError:  # a class with one row, or one group
        raise too_few from None
    train = np.flatnonzero(~np.isin(groups, groups[held_out]))
    if min(len(np.unique(labels[side])) for side in (train, held_out)) < n_classes:
        raise too_few
    return train, np.sort(held_out)

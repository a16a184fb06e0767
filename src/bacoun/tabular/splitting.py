"""The split of a table into training and calibration rows; rows of a group stay together."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from bacoun.columns import dates
from bacoun.columns.cells import Cells
from bacoun.columns.type_inference import find_kind
from bacoun.deferral.checks import as_share
from bacoun.tabular.encoding import TableEncoder, find_ids
from bacoun.tabular.items import ItemColumns

_FEWEST_OTHERS, _SHARE_OF_OTHERS = 5, 0.02  # rows whose label is not that of most identical rows


@dataclass(frozen=True)
class Sampled:
    """What is known about all rows, if a table is a sample of more than fit into memory."""

    n_train: int  # rows of the sample to train on, the first ones; the others are to calibrate on
    ids: Mapping[str, str]  # columns that only identify rows, as from find_ids
    facts: Mapping[str, Any]  # about all rows, in place of those about the sample
    # fits a classifier to all rows, given encoder, sampled points, their labels and a checkpoint
    fit_classifier: Callable[..., None]


@dataclass(frozen=True)
class Split:
    """Which rows of a table train a classifier, and which calibrate its deferral rule."""

    train: np.ndarray  # rows (n,) to train on
    held_out: np.ndarray  # rows (m,) to calibrate on
    ids: Mapping[str, str]  # columns that only identify rows, as from find_ids
    n_copies: int  # rows that repeat others
    repeats: str  # how these count: "copies" of one event, "events" of their own, or "none"
    calibrated_on: str = "random rows"  # the held-out rows, in words
    in_order: np.ndarray | None = None  # places of these in the order of time, if that decided

    @classmethod
    def of(
        cls,
        table: pd.DataFrame,
        labels: np.ndarray,
        share: float,
        random_state: int,
        group: str | None,
        time: str | None,
        impute: bool,
        sampled: Sampled | None,
        items: ItemColumns,
    ) -> Self:
        """Split a table without its target; `TableModel.fit` explains the settings."""
        known_ids = find_ids(table) if sampled is None else sampled.ids
        others = {group, time, *items.kinds}
        ids = {name: why for name, why in known_ids.items() if name not in others}
        groups = find_groups(items.by_content(table.drop(columns=list(ids))), group)
        n_copies = len(table) - len(np.unique(groups))
        repeats = "copies" if n_copies else "none"
        if group is None and are_events(labels, groups):
            repeats, groups = "events", np.arange(len(table))
        times = None if time is None else read_times(table, time)
        try:
            if sampled is not None:
                train, held_out = np.split(np.arange(len(table)), [sampled.n_train])
                return cls(train, held_out, ids, n_copies, repeats)
            if times is None:
                return cls(*split(labels, groups, share, random_state), ids, n_copies, repeats)
            train, held_out = split_by_time(labels, groups, times, share)
        except ValueError:
            inputs = table.drop(columns=split_columns(group, time))
            # If the columns are the problem, they are named.
            TableEncoder().fit(inputs, impute, items=items)
            raise
        latest, is_date = times[held_out], find_kind(table[time])[0] == "date"
        write = dates.as_text if is_date else "{:.15g}".format
        first, last = write(latest.min()), write(latest.max())
        period = f"the latest rows, {time} from {first} to {last}"
        in_order = np.argsort(latest, kind="stable")
        return cls(train, held_out, ids, n_copies, repeats, period, in_order)


def check_settings(random_state: int, max_error: Any, **shares: float) -> None:
    """Refuse numbers that `TableModel.fit` cannot use."""
    for name, share in shares.items():
        as_share(name, share)
    if max_error is not None and max_error != "auto":
        as_share("max_error", max_error)
    if not 0 <= random_state < 2**32:
        raise ValueError(f"random_state must be from 0 to {2**32 - 1}; got {random_state}.")


def split_columns(group: str | None, time: str | None) -> list[str]:
    """The columns that say how to split, and are no inputs."""
    return [name for name in (group, time) if name is not None]


def find_groups(table: pd.DataFrame, column: str | None) -> np.ndarray:
    """Which rows (N,) belong together, as integers: those of one group, or identical ones.

    The table has no columns that only identify rows, in which copies may differ.
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
    """
    order = np.argsort(times, kind="stable")
    n_train = len(order) - round(share * len(order))
    train, later = order[:n_train], order[n_train:]
    fresh = later[~np.isin(groups[later], groups[train])]
    held_out = fresh[np.sort(np.unique(groups[fresh], return_index=True)[1])]
    if not _have_all(labels, train, held_out):
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
    """
    from sklearn.model_selection import train_test_split  # slow to import, and only fits need it

    n_rows, n_classes = len(labels), len(np.unique(labels))
    one_each = np.arange(n_rows)
    if len(np.unique(groups)) < n_rows:
        order = np.random.default_rng(random_state).permutation(n_rows)
        one_each = order[np.unique(groups[order], return_index=True)[1]]
    n_held_out = round(share * len(one_each))
    is_enough = n_rows - n_held_out >= 2 * n_classes
    try:
        _, held_out = train_test_split(
            one_each, test_size=n_held_out, stratify=labels[one_each], random_state=random_state
        )
        train = np.flatnonzero(~np.isin(groups, groups[held_out]))
        is_enough &= _have_all(labels, train, held_out)
    except ValueError:  # a side with fewer rows than classes, or a class with one row, or one group
        is_enough = False
    if not is_enough:
        raise ValueError(
            f"calibration_share must leave rows of each class on both sides; {share:g} of {n_rows} "
            f"rows, {len(one_each)} of them distinct, does not, with {n_classes} classes. Try 0.2, "
            "or add rows."
        )
    return train, np.sort(held_out)


def _have_all(labels: np.ndarray, *sides: np.ndarray) -> bool:
    """Whether the rows on each side have labels of each class."""
    return all(len(np.unique(labels[side])) == len(np.unique(labels)) for side in sides)

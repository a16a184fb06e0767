"""Sketch: what one pass over a table larger than memory keeps of it, merged from its chunks.

It holds a uniform sample of the training rows, the rows that show what a column can hold, and rows
to calibrate on. Which row goes where depends only on the row, the seed and its number, so the
result does not depend on how the table is divided among workers.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pandas as pd

from bacoun.columns.cells import holds_numbers
from bacoun.columns.column import MAX_CATEGORIES
from bacoun.columns.dates import as_days, is_timestamps
from bacoun.columns.frames import check_values
from bacoun.engine.randomness import mix_bits
from bacoun.tabular.labels import label_values
from bacoun.tabular.splitting import hash_groups


@dataclass(frozen=True)
class Sampling:
    """Which rows of a table are drawn, and which are held out for calibration."""

    target: str  # column with the labels
    group: str | None  # column of rows that stay on one side; None: identical rows do
    ids: tuple[str, ...]  # columns in which identical rows may differ
    share: float  # fraction of the groups to hold out
    rate: float  # probability of a training row to be drawn
    most_held_out: int  # groups to calibrate on
    seed: int  # another one draws and holds out other rows

    def hashes(self, frame: pd.DataFrame) -> np.ndarray:
        """A hash (N,), uint64, of the group of each row."""
        salt = mix_bits(np.array([self.seed], dtype=np.uint64))
        inputs = frame.drop(columns=[self.target, *self.ids])
        return mix_bits(hash_groups(inputs, self.group) ^ salt)

    def is_held_out(self, hashes: np.ndarray) -> np.ndarray:
        """Which rows (N,) are held out, by the hashes (N,) of their groups."""
        return hashes < np.uint64(int(self.share * 2.0**64))


@dataclass(frozen=True)
class Sketch:
    """Some rows of a table, and counts of all of them."""

    sampling: Sampling
    labels: Counter[Any]  # number of rows by label
    n_training: int  # rows that are not held out
    digest: int  # sum of the hashes of all rows, modulo 2**64
    sample: pd.DataFrame  # training rows that were drawn; the index is the number of the row
    witnesses: pd.DataFrame  # training rows with an extreme, a category or a gap of some column
    held_out: pd.DataFrame  # one row of each group with the smallest hashes, the first index

    @classmethod
    def of(cls, frame: pd.DataFrame, sampling: Sampling) -> Self:
        """Sketch a chunk of a table; the index of `frame` is the number of the row."""
        labels = label_values(frame, sampling.target)
        hashes = sampling.hashes(frame)
        held_out = sampling.is_held_out(hashes)
        draws = np.random.default_rng([sampling.seed, int(frame.index[0])]).random(len(frame))
        digest = pd.util.hash_pandas_object(frame, index=False).to_numpy().sum()
        calibration = frame[held_out].set_index([hashes[held_out], draws[held_out]])
        train, sample = frame[~held_out], frame[~held_out & (draws < sampling.rate)]
        counts = Counter(labels.tolist())
        return cls.merge(
            [cls(sampling, counts, len(train), int(digest), sample, train, calibration)]
        )

    @classmethod
    def merge(cls, sketches: list[Self]) -> Self:
        """The sketch of all rows of several sketches."""
        sampling = sketches[0].sampling
        witnesses = pd.concat([each.witnesses for each in sketches])
        held_out = pd.concat([each.held_out for each in sketches]).sort_index()
        first = ~held_out.index.get_level_values(0).duplicated()  # one of each group, at random
        return cls(
            sampling,
            sum((each.labels for each in sketches), Counter()),
            sum(each.n_training for each in sketches),
            sum(each.digest for each in sketches) % 2**64,
            pd.concat([each.sample for each in sketches]),
            witnesses.iloc[_witnesses(witnesses.drop(columns=sampling.target))],
            held_out[first].head(sampling.most_held_out),
        )

    @property
    def train(self) -> pd.DataFrame:
        """The sample with the witnesses, in the order of the table."""
        inputs = self.witnesses.drop(columns=self.sampling.target)
        rows = pd.concat([self.sample, self.witnesses.iloc[_witnesses(inputs, is_final=True)]])
        return rows[~rows.index.duplicated()].sort_index()


def _witnesses(frame: pd.DataFrame, is_final: bool = False) -> np.ndarray:
    """Places of rows that show what each column can hold; those of these rows show the same.

    They have the smallest and the largest number, one between, a gap, each text, and the most gaps
    in a row. So an encoder fitted to them knows the whole table. A column with more than 1000 texts
    has no categories; finally it is left out.
    """
    if len(frame) == 0:
        return np.empty(0, dtype=int)
    missing = frame.isna().to_numpy()
    found = [np.array([missing.sum(axis=1).argmax()])]
    for place, name in enumerate(frame):
        column, gaps = frame[name], missing[:, place]
        found.append(np.flatnonzero(gaps)[:1])
        if gaps.all():
            continue
        if holds_numbers(column):
            found.append(_ends(column.to_numpy(np.float64, na_value=np.nan), str(name)))
        elif is_timestamps(column):
            found.append(_ends(as_days(column), str(name)))
        else:
            texts = np.flatnonzero(~column.duplicated() & ~gaps)
            if len(texts) > MAX_CATEGORIES:  # a choice that does not depend on the order of merging
                hashes = pd.util.hash_array(column.iloc[texts].to_numpy(object))
                texts = texts[hashes.argsort()[: 0 if is_final else MAX_CATEGORIES + 1]]
            found.append(texts)
    return np.unique(np.concatenate(found))


def _ends(values: np.ndarray, name: str) -> np.ndarray:
    """Places of the smallest and the largest number, and of one between if there is any."""
    check_values({name: values})
    ends = [np.nanargmin(values), np.nanargmax(values)]
    between = ~np.isnan(values) & ~np.isin(values, values[ends])
    return np.concatenate([ends, np.flatnonzero(between)[:1]])

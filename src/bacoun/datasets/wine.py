"""White wine, classes 5 and 7 to learn from, the others and an artificial set as unknown."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

_KNOWN, _HELD_OUT, _BETWEEN = (5, 7), (3, 4, 8, 9), 6


@dataclass(frozen=True)
class Wine:
    """A split of the white wines.

    Attributes
    ----------
    train_points, train_labels : ndarray of shape (2476, 11) and (2476,)
        1238 wines of each class; class 7 is drawn with replacement up to the size of class 5.
    test_labels : ndarray of shape (351,)
        Of the region "in".
    regions : dict of ndarray of shape (n, 11)
        "in": test wines of classes 5 and 7; "held-out": classes 3, 4, 8, 9; "6": class 6; "ood":
        the test wines with N(10, 1) training standard deviations added to the first column.
    feature_names : list of str
    """

    train_points: np.ndarray
    train_labels: np.ndarray
    test_labels: np.ndarray
    regions: dict[str, np.ndarray]
    feature_names: list[str]


def load_wine(random_state: int = 0) -> Wine:
    """The paper's Wine task: a stratified split of 85 to 15, seeded."""
    with (files("bacoun.datasets") / "data" / "winequality-white.csv.gz").open("rb") as file:
        table = pd.read_csv(file, sep=";", compression="gzip")
    quality = table.pop("quality").to_numpy()
    points = table.to_numpy(dtype=np.float64)
    known = np.isin(quality, _KNOWN)
    train, test, train_labels, test_labels = train_test_split(
        points[known],
        quality[known],
        test_size=0.15,
        stratify=quality[known],
        random_state=random_state,
    )
    rng = np.random.default_rng(random_state)
    few = np.flatnonzero(train_labels == _KNOWN[1])
    missing = (train_labels == _KNOWN[0]).sum() - len(few)
    rows = np.concatenate([np.arange(len(train)), rng.choice(few, missing)])
    ood = test.copy()
    ood[:, 0] += train[:, 0].std() * rng.normal(10, 1, len(test))
    regions = {
        "in": test,
        "held-out": points[np.isin(quality, _HELD_OUT)],
        "6": points[quality == _BETWEEN],
        "ood": ood,
    }
    return Wine(train[rows], train_labels[rows], test_labels, regions, list(table.columns))

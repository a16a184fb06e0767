"""White wine, classes 5 and 7 to learn from, the others and an artificial set as unknown."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from reproduction.datasets.dataset import Dataset

_KNOWN, _HELD_OUT, _BETWEEN = (5, 7), (3, 4, 8, 9), 6


def load_wine(random_state: int = 0) -> Dataset:
    """The paper's Wine task: a stratified split of 85 to 15, seeded.

    Returns
    -------
    Dataset
        2476 points, 1238 of each class: class 7 is drawn with replacement up to the size of
        class 5. 351 test points. Regions "in": the test points; "in, unseen": those of them that
        are no duplicate of a training point; "held-out": classes 3, 4, 8, 9; "6": class 6; "ood":
        the test points with N(10, 1) training standard deviations added to the first column.
    """
    table = read_wine_quality()
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
        "in, unseen": test[~occurs_in(train, test)],
        "held-out": points[np.isin(quality, _HELD_OUT)],
        "6": points[quality == _BETWEEN],
        "ood": ood,
    }
    return Dataset(
        points=train[rows],
        labels=train_labels[rows],
        test_points=test,
        test_labels=test_labels,
        regions=regions,
        feature_names=list(table.columns),
    )


def read_wine_quality() -> pd.DataFrame:
    """All 4898 white wines: eleven measurements, and "quality" as a whole number, last."""
    with (files("reproduction.datasets") / "data" / "winequality-white.csv.gz").open("rb") as file:
        return pd.read_csv(file, sep=";", compression="gzip")


def occurs_in(known: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Whether each of `rows` (n, D) is also a row of `known` (N, D)."""
    seen = {row.tobytes() for row in known}
    return np.array([row.tobytes() in seen for row in rows])

"""What every loader returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Dataset:
    """Points to learn from, points to be tested on, and named sets of points to ask about.

    Attributes
    ----------
    points, labels : ndarray of shape (N, D) and (N,)
        To fit.
    test_points, test_labels : ndarray of shape (n, D) and (n,)
        From the same distribution, for accuracy and calibration.
    regions : dict of ndarray of shape (m, D)
        Points known to be inside the data, outside it, or between classes, by name.
    feature_names : list of str
        Of the D columns.
    """

    points: np.ndarray
    labels: np.ndarray
    test_points: np.ndarray
    test_labels: np.ndarray
    regions: dict[str, np.ndarray]
    feature_names: list[str]

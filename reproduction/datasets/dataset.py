"""What every loader returns."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Dataset:
    """Points to learn from, points to be tested on, and named sets of points to ask about.

    Points are rows (N, D) of a table, or images (N, H, W).

    Attributes
    ----------
    points, labels : ndarray of shape (N, ...) and (N,)
        To fit.
    test_points, test_labels : ndarray of shape (n, ...) and (n,)
        From the same distribution, for accuracy and calibration.
    regions : dict of ndarray of shape (m, ...)
        Points known to be inside the data, outside it, or between classes, by name.
    region_labels : dict of ndarray of shape (m,)
        What the points of a region are, where that is known.
    feature_names : list of str
        Of the D columns.
    """

    points: np.ndarray
    labels: np.ndarray
    test_points: np.ndarray
    test_labels: np.ndarray
    regions: dict[str, np.ndarray]
    feature_names: list[str]
    region_labels: dict[str, np.ndarray] = field(default_factory=dict)

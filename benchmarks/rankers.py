"""Methods that say which columns make a row strange: ours and its rivals.

Each is fitted on training rows, and ranks the columns of new rows, the most surprising first.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pandas as pd
from sklearn.ensemble import IsolationForest

from bacoun.tabular import TableModel
from benchmarks.detectors import Preprocessing, categories_in

Rankings = list[list[str]]
"""For each row, names of columns, the most surprising first."""
Ranker = Callable[[pd.DataFrame], Rankings]


@dataclass(frozen=True)
class Fitted:
    """What a method may learn from: the training rows without the target, and our fitted model."""

    known: pd.DataFrame
    model: TableModel
    seed: int


def ours(model: TableModel, frame: pd.DataFrame) -> Rankings:
    """The model's own explanation of each row, whether it is flagged as unfamiliar or not."""
    every_row = replace(model, rule=replace(model.rule, ood_threshold=-math.inf))
    return [[each.column for each in why.surprises] for why in every_row.explain(frame)]


def by_model(fitted: Fitted) -> Ranker:
    """Our explanation."""
    return lambda frame: ours(fitted.model, frame)


def by_z_score(fitted: Fitted) -> Ranker:
    """Distance from the mean in standard deviations; for a category, that of its 0/1 column."""
    known, categories = fitted.known, set(categories_in(fitted.known))

    def surprise(column: pd.Series) -> np.ndarray:
        seen = known[column.name]
        if column.name in categories:
            share = share_of_category(column, seen)
            return np.sqrt((1 - share) / share)
        return np.abs(z_scores(column, seen))

    return by_column(surprise)


def by_tail(fitted: Fitted) -> Ranker:
    """ECOD: minus the log of the empirical probability of a value as far out or farther."""
    known, categories = fitted.known, set(categories_in(fitted.known))

    def surprise(column: pd.Series) -> np.ndarray:
        seen = known[column.name]
        if column.name in categories:
            return -np.log(share_of_category(column, seen))
        ordered = np.sort(seen.dropna().to_numpy(np.float64))
        values = column.to_numpy(np.float64)
        below = np.searchsorted(ordered, values, side="right")
        above = len(ordered) - np.searchsorted(ordered, values, side="left")
        tail = (np.minimum(below, above) + 1) / (len(ordered) + 1)
        return np.where(np.isnan(values), 0.0, -np.log(tail))

    return by_column(surprise)


def by_density_gradient(fitted: Fitted, times_deviation: bool = False) -> Ranker:
    """Slope of the model's log density per standard deviation of a column.

    By central differences of the whole model, because its flow is evaluated without gradients. A
    category has no slope: how much the density changes with the most frequent one counts instead.
    With `times_deviation`, the slope is multiplied by the z-score, as in "gradient x input".
    """
    known, categories = fitted.known, set(categories_in(fitted.known))
    step = 0.01  # in standard deviations

    def log_density(frame: pd.DataFrame) -> np.ndarray:
        return fitted.model.score(frame)["log_density"].to_numpy(np.float64)

    def change(frame: pd.DataFrame, here: np.ndarray, name: str) -> np.ndarray:
        column, seen = frame[name], known[name]
        if name in categories:
            usual = column.where(column.isna(), seen.mode()[0])
            return log_density(frame.assign(**{name: usual})) - here
        width = step * (seen.std() or 1.0)
        up, down = (log_density(frame.assign(**{name: column + d})) for d in (width, -width))
        slope = (up - down) / (2 * step)
        return slope * z_scores(column, seen) if times_deviation else slope

    def rank(frame: pd.DataFrame) -> Rankings:
        here = log_density(frame)
        return ranked(pd.DataFrame({name: np.abs(change(frame, here, name)) for name in frame}))

    return rank


def by_tree_shap(fitted: Fitted) -> Ranker:
    """TreeSHAP on an isolation forest: by how much a column shortens the paths."""
    import shap  # slow to import, and only needed here

    preprocessing = Preprocessing().fit(fitted.known)
    forest = IsolationForest(random_state=fitted.seed).fit(preprocessing.transform(fitted.known))
    explainer = shap.TreeExplainer(forest)

    def rank(frame: pd.DataFrame) -> Rankings:
        values = pd.DataFrame(explainer.shap_values(preprocessing.transform(frame)))
        shortened = -values.T.groupby(np.array(preprocessing.column_of_)).sum().T
        return ranked(shortened)

    return rank


def by_chance(fitted: Fitted) -> Ranker:
    """A random order."""
    rng, names = np.random.default_rng(fitted.seed), np.array(fitted.known.columns)
    return lambda frame: [rng.permutation(names).tolist() for _ in range(len(frame))]


METHODS: dict[str, Callable[[Fitted], Ranker]] = {
    "bacoun": by_model,
    "z-score": by_z_score,
    "ECOD": by_tail,
    "density gradient": by_density_gradient,
    "gradient x deviation": partial(by_density_gradient, times_deviation=True),
    "TreeSHAP": by_tree_shap,
    "chance": by_chance,
}


def by_column(surprise: Callable[[pd.Series], np.ndarray]) -> Ranker:
    """Rank columns by a score of each column by itself."""
    return lambda frame: ranked(pd.DataFrame({name: surprise(frame[name]) for name in frame}))


def ranked(surprise: pd.DataFrame) -> Rankings:
    """Names of the columns of each row, the largest value first; NaN counts as minus infinity."""
    scores = surprise.fillna(-np.inf).to_numpy()
    names = np.array(surprise.columns, dtype=object)
    return [names[order].tolist() for order in np.argsort(-scores, axis=1, kind="stable")]


def z_scores(column: pd.Series, seen: pd.Series) -> np.ndarray:
    """Distance (N,) from the mean of the training rows, in their standard deviations."""
    return ((column - seen.mean()) / (seen.std() or 1.0)).to_numpy(np.float64)


def share_of_category(column: pd.Series, seen: pd.Series) -> np.ndarray:
    """Share (N,) of training rows with the category of each row, which counts as one of them."""
    counts = column.map(seen.value_counts()).fillna(0).to_numpy(np.float64)
    share = (counts + 1) / (len(seen) + 1)
    return np.where(column.isna(), 1.0, share)  # a gap is no surprise

"""Accuracy of default settings on benchmark tables, beside eight rivals; extends accuracy.json.

    python -m benchmarks accuracy

For each table and seed, every method learns from the same training rows, at most 3000, with its
default settings; `LARGE` tables once more from 10,000 rows, with one seed. The record has accuracy,
log loss and expected calibration error on the same test rows, and the seconds of fit and
prediction. All run on one thread. Settings were chosen on other
tables, named in `DEVELOPMENT`; docs/accuracy.md says what was seen of these before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from reproduction.datasets.frames import Frame, load_frame, split_frame
from reproduction.datasets.tables import load_table
from rich.console import Console
from scipy.stats import rankdata
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.neural_network import MLPClassifier

from bacoun import BaCOUnClassifier
from bacoun.baselines import BNN, NLM, DeepEnsemble
from bacoun.comparison.methods import one_thread
from bacoun.comparison.run import quality as quality_of
from bacoun.tabular.encoding import TableEncoder
from benchmarks import record as records
from benchmarks.detectors import Preprocessing, categories_in
from benchmarks.record import Record, markdown_table, mean_of, rich_table, seeds_in

RECORD = Path(__file__).with_suffix(".json")
SEEDS = (0, 1, 2, 3, 4)
MAX_TRAIN, MAX_TEST = 3000, 5000
TABLES = (
    *("adult", "breast-cancer", "contraceptive", "credit_card", "digits-table", "employment"),
    *("fars", "german", "haberman", "iris", "letter", "mushroom", "penbased", "penguins", "pima"),
    *("saheart", "satimage", "sklearn-wine", "splice", "texture", "wine-quality"),
)
ROWS_OF_LARGE = 10_000
LARGE_METHODS = ("bacoun", "forest", "boosting", "mlp")
LARGE = (
    *("adult", "credit_card", "employment", "fars", "letter", "mushroom", "penbased"),
    *("satimage", "texture"),
)
DEVELOPMENT = (  # of KEEL, besides segment and vehicle, and one with steps made for this
    *("australian", "bands", "banana", "breast", "bupa", "chess", "crx", "hayes-roth", "heart"),
    *("ionosphere", "led7digit", "magic"),
    *("mammographic", "marketing", "monk-2", "movement_libras", "optdigits", "phoneme", "ring"),
    *("sonar", "spambase", "tae", "tic-tac-toe", "titanic", "twonorm", "vowel"),
)
OURS = "bacoun"
LIBRARIES = ("bacoun", "torch", "numpy", "pandas", "scikit-learn", "catboost")
_MIN_TRAIN = 5  # rows of a class, without which no model is fitted to it

# --- tables ---------------------------------------------------------------------------------------


def load(table: str, seed: int, n_train: int = MAX_TRAIN) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Training rows, test rows and the name of the target, without classes of hardly any rows."""
    frame, target = _frame(table)
    train, test = split_frame(frame, target, n_train=n_train, n_test=MAX_TEST, random_state=seed)
    counts = train[target].value_counts()
    known = counts.index[counts >= _MIN_TRAIN]
    train, test = (part[part[target].isin(known)].reset_index(drop=True) for part in (train, test))
    return train, test, target


def _frame(table: str) -> Frame:
    if table != "digits-table":
        return load_frame(table)
    X, y, names = load_table(table)
    return pd.DataFrame(X, columns=names).assign(label=y), "label"


# --- methods --------------------------------------------------------------------------------------

Predict = Callable[[pd.DataFrame], np.ndarray]
"""Takes N rows; returns class probabilities (N, K)."""


def fit_bacoun(rows: pd.DataFrame, labels: np.ndarray, seed: int) -> Predict:
    """Our default classifier on codes of categories, as `bacoun fit` encodes them."""
    encoder = TableEncoder().fit(rows)
    model = BaCOUnClassifier(random_state=seed)
    model.categorical_features = encoder.categorical_features_ or None
    model.fit(encoder.transform(rows), labels)
    return lambda new: model.predict_proba(encoder.transform_with_unseen(new)[0])


def preprocessed(make: Callable[[int], Any]) -> Callable[..., Predict]:
    """A method of numbers: gaps imputed, numbers standardized, categories one-hot encoded."""

    def fit(rows: pd.DataFrame, labels: np.ndarray, seed: int) -> Predict:
        preprocessing = Preprocessing().fit(rows)
        model = make(seed).fit(preprocessing.transform(rows), labels)
        return lambda new: model.predict_proba(preprocessing.transform(new))

    return fit


def fit_boosting(rows: pd.DataFrame, labels: np.ndarray, seed: int) -> Predict:
    """Gradient boosting of scikit-learn, which knows categories and gaps."""
    names = categories_in(rows)
    values = {name: pd.CategoricalDtype(sorted(set(rows[name].dropna()))) for name in names}
    # It takes at most 255 categories; more are numbered.
    small = {name for name, kind in values.items() if len(kind.categories) <= 255}

    def typed(frame: pd.DataFrame) -> pd.DataFrame:
        known = {n: frame[n].where(frame[n].isin(values[n].categories)) for n in names}
        coded = {n: column.astype(values[n]) for n, column in known.items()}
        return frame.assign(**{n: c if n in small else c.cat.codes for n, c in coded.items()})

    model = HistGradientBoostingClassifier(random_state=seed).fit(typed(rows), labels)
    return lambda new: model.predict_proba(typed(new))


def fit_catboost(rows: pd.DataFrame, labels: np.ndarray, seed: int) -> Predict:
    """CatBoost, which knows categories; a gap in one is a category."""
    from catboost import CatBoostClassifier

    names = categories_in(rows)

    def typed(frame: pd.DataFrame) -> pd.DataFrame:
        return frame.assign(**{name: frame[name].fillna("").astype(str) for name in names})

    model = CatBoostClassifier(
        random_seed=seed, cat_features=names, thread_count=1, verbose=False,
        allow_writing_files=False,
    )  # fmt: skip
    model.fit(typed(rows), labels)
    return lambda new: model.predict_proba(typed(new))


METHODS: dict[str, Callable[..., Predict]] = {
    OURS: fit_bacoun,
    "forest": preprocessed(lambda seed: RandomForestClassifier(random_state=seed)),
    "boosting": fit_boosting,
    "catboost": fit_catboost,
    "logistic": preprocessed(lambda seed: LogisticRegression(max_iter=10_000)),
    "mlp": preprocessed(lambda seed: MLPClassifier(random_state=seed)),
    "nlm": preprocessed(lambda seed: NLM(random_state=seed)),
    "ensemble": preprocessed(lambda seed: DeepEnsemble(random_state=seed)),
    "bnn": preprocessed(lambda seed: BNN(random_state=seed)),
}
TOO_SLOW = {("fars", "catboost")}  # 29 columns of text, 8 classes: more than ten minutes
SLOW = "bnn"  # minutes for each fit: one seed of SMALL tables
QUICK = tuple(method for method in METHODS if method != SLOW)
SMALL = ("breast-cancer", "haberman", "iris", "penguins", "pima", "saheart", "sklearn-wine")


def quality(probabilities: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """Accuracy, log loss and calibration error of probabilities (N, K) for labels 0 to K-1."""
    found = quality_of(probabilities, labels)
    return {name: round(value, 4) for name, value in found.items()}


def measure(table: str, seed: int, method: str, n_train: int = MAX_TRAIN) -> dict[str, Any]:
    """One entry of the record: quality on test rows, and seconds of fit and prediction."""
    train, test, target = load(table, seed, n_train)
    classes, labels = np.unique(train[target], return_inverse=True)
    asked = np.searchsorted(classes, test[target])
    rows, new = train.drop(columns=target), test.drop(columns=target)
    with one_thread():
        started = time.perf_counter()
        predict = METHODS[method](rows, labels, seed)
        fitted = time.perf_counter()
        probabilities = predict(new)
        predicted = time.perf_counter()
    return {
        **quality(probabilities, asked),
        "fit seconds": round(fitted - started, 2),
        "predict seconds": round(predicted - fitted, 3),
        "training rows": len(train),
        "columns": rows.shape[1],
        "classes": len(classes),
    }


# --- results --------------------------------------------------------------------------------------


def main() -> None:
    """Measure what the record lacks, and print it all."""
    show(records.resume(RECORD, tasks(), LIBRARIES))


def tasks() -> dict[str, Callable[[], dict[str, Any]]]:
    """Every fit by name, seed after seed; then those of many rows, and of the slow method."""
    todo: dict[str, Callable[[], dict[str, Any]]] = {
        f"{table}/{seed}/{method}": partial(measure, table, seed, method)
        for seed in SEEDS
        for method in QUICK
        for table in TABLES
        if (table, method) not in TOO_SLOW
    }
    todo |= {
        f"{table}, {ROWS_OF_LARGE} rows/0/{method}": partial(
            measure, table, 0, method, ROWS_OF_LARGE
        )
        for method in LARGE_METHODS
        for table in LARGE
    }
    return todo | {f"{table}/0/{SLOW}": partial(measure, table, 0, SLOW) for table in SMALL}


def means(
    record: Record, measure: str, tables: Sequence[str] = TABLES, methods: Sequence[str] = QUICK
) -> dict[str, dict[str, float]]:
    """By table and method, the mean over seeds; only tables that all `methods` were run on."""
    found = all_means(record, measure)
    return {
        table: {method: found[table][method] for method in methods}
        for table in tables
        if found.get(table, {}).keys() >= set(methods)
    }


def all_means(record: Record, measure: str) -> dict[str, dict[str, float]]:
    """By table and method, the mean over seeds of what there is."""
    found: dict[str, dict[str, list[float]]] = {}
    for name, run in record["runs"].items():
        table, _, method = name.split("/")
        found.setdefault(table, {}).setdefault(method, []).append(run[measure])
    return {
        table: {method: float(np.mean(values)) for method, values in row.items()}
        for table, row in found.items()
    }


def mean_ranks(
    record: Record, measure: str, tables: Sequence[str] = TABLES, methods: Sequence[str] = QUICK
) -> dict[str, float]:
    """Mean over tables of the rank of each method; 1 has the lowest value."""
    rows = means(record, measure, tables, methods).values()
    ranks = rankdata([[row[method] for method in methods] for row in rows], axis=1).mean(axis=0)
    return dict(zip(methods, map(float, ranks), strict=True))


def summary_rows(
    record: Record, tables: Sequence[str] = TABLES, methods: Sequence[str] = QUICK
) -> tuple[list[str], list[list[str]]]:
    """Header and rows: for each method, means over the tables."""
    digits = {"accuracy": 4, "log loss": 4, "ece": 4, "fit seconds": 1, "predict seconds": 2}
    ranks = mean_ranks(record, "log loss", tables, methods)
    columns = {measure: means(record, measure, tables, methods) for measure in digits}
    rows = []
    for method in methods:
        cells = [
            f"{mean_of([row[method] for row in columns[measure].values()]):.{places}f}"
            for measure, places in digits.items()
        ]
        rows.append([method, *cells[:2], f"{ranks[method]:.2f}", *cells[2:]])
    return ["method", "accuracy", "log loss", "rank in log loss", *list(digits)[2:]], rows


def table_rows(record: Record, measure: str) -> tuple[list[str], list[list[str]]]:
    """Header and rows: for each table, the mean over seeds of each method."""
    found = all_means(record, measure)
    rows = [
        [table, *(f"{found[table][m]:.3f}" if m in found[table] else "-" for m in QUICK)]
        for table in TABLES
        if table in found
    ]
    return ["table", *QUICK], rows


def parts(record: Record) -> Iterator[tuple[str, tuple[list[str], list[list[str]]]]]:
    """Each table of the page with its title; of what the record has."""
    ten = [f"{table}, {ROWS_OF_LARGE} rows" for table in LARGE]
    for title, tables, methods in (
        ("Means over tables, at most 3000 training rows", TABLES, QUICK),
        ("Means over large tables, 10,000 training rows", ten, LARGE_METHODS),
        ("Means over small tables, with BNN", SMALL, tuple(METHODS)),
    ):
        if n_tables := len(means(record, "accuracy", tables, methods)):
            seeds = seeds_in(name for name in record["runs"] if name.split("/")[0] in tables)
            yield f"{title} ({n_tables} tables, {seeds})", summary_rows(record, tables, methods)
    for measure in ("Accuracy", "Log loss"):
        yield measure, table_rows(record, measure.lower())


def show(record: Record) -> None:
    """Print the record as tables."""
    console = Console(width=130)
    for title, (header, rows) in parts(record):
        console.print(rich_table(title, header, rows))


def markdown(record: Record) -> str:
    """The record as Markdown."""
    tables = (f"{title}:\n\n{markdown_table(*content)}" for title, content in parts(record))
    return "\n\n".join(tables) + "\n"

"""Wide and categorical tables: quality, speed and far rows, beside two models; extends wide.json.

    python -m benchmarks wide

For each table and seed, our default model, logistic regression and a random forest learn from the
same training rows. The record has accuracy and log loss of each on the same test rows, and the
seconds of its fit. Of our model, it also has the share of test rows that are called unfamiliar, and
of rows that are moved far away.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from reproduction.datasets.frames import load_frame, split_frame
from rich.console import Console
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss

from benchmarks import record as records
from benchmarks.detectors import Preprocessing, categories_in, fit_model, numbers_in, of_model
from benchmarks.record import Record, in_percent, mean_of
from benchmarks.spoil import varied

RECORD = Path(__file__).with_suffix(".json")
SEEDS = (0, 1, 2)
MAX_TRAIN, MAX_TEST, MAX_FAR = 5000, 3000, 500
LARGE = {"fars": 20_000}  # training rows; with one seed, because a fit takes long
PUBLISHED = (
    *("splice", "mushroom", "german", "penguins", "adult", "credit_card", "employment"),
    "contraceptive",
)
LIBRARIES = ("bacoun", "torch", "numpy", "pandas", "scikit-learn")
_MIN_TRAIN = 5  # rows of a class, without which no model is fitted to it
_NEW_CATEGORY = "never seen"

Frames = tuple[pd.DataFrame, pd.DataFrame, str]
"""Training rows, test rows, and the name of the target."""

# --- tables ---------------------------------------------------------------------------------------


def many_numbers(seed: int) -> Frames:
    """Two thousand rows of 200 numbers, 15 of which are informative."""
    X, y = make_classification(10_000, 200, n_informative=15, random_state=seed)
    frame = pd.DataFrame(X, columns=[f"x{number}" for number in range(200)]).assign(label=y)
    train, test = split_frame(frame, "label", n_train=2000, n_test=MAX_TEST, random_state=seed)
    return train, test, "label"


def many_inputs(seed: int) -> Frames:
    """Breast cancer with three random categories of 40 levels: 150 inputs if one-hot encoded."""
    frame, target = load_frame("breast-cancer")
    rng = np.random.default_rng(seed)
    levels = np.array([f"level {number}" for number in range(40)], dtype=object)
    drawn = {f"category {place}": rng.choice(levels, len(frame)) for place in (1, 2, 3)}
    return *_split(frame.assign(**drawn), target, MAX_TRAIN, seed), target


GENERATED: dict[str, Callable[[int], Frames]] = {
    "200 columns": many_numbers,
    "150 inputs": many_inputs,
}
TABLES = (*PUBLISHED, *GENERATED)


def load(table: str, seed: int) -> Frames:
    """Training and test rows of a table by name, without classes that training hardly has."""
    if table in GENERATED:
        return GENERATED[table](seed)
    frame, target = load_frame(table)
    train, test = _split(frame, target, LARGE.get(table, MAX_TRAIN), seed)
    counts = train[target].value_counts()
    known = counts.index[counts >= _MIN_TRAIN]
    train, test = (part[part[target].isin(known)].reset_index(drop=True) for part in (train, test))
    return train, test, target


def _split(
    frame: pd.DataFrame, target: str, n_train: int, seed: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    return split_frame(frame, target, n_train=n_train, n_test=MAX_TEST, random_state=seed)


# --- rows that are far away -----------------------------------------------------------------------


def all_numbers_far(
    rng: np.random.Generator, rows: pd.DataFrame, known: pd.DataFrame
) -> pd.DataFrame:
    """All numbers are tripled, and 20 standard deviations are added."""
    names = moving(known)
    return rows.assign(**{name: 3 * rows[name] + 20 * known[name].std() for name in names})


def one_number_far(
    rng: np.random.Generator, rows: pd.DataFrame, known: pd.DataFrame
) -> pd.DataFrame:
    """One number of each row, drawn at random and not missing, moves by 1000 deviations."""
    names = moving(known)
    cells = rows[names].to_numpy(dtype=np.float64, copy=True)
    places = np.where(np.isnan(cells), -1.0, rng.random(cells.shape)).argmax(axis=1)
    cells[np.arange(len(cells)), places] += 1000 * known[names].std().to_numpy()[places]
    return rows.assign(**{name: cells[:, place] for place, name in enumerate(names)})


def new_categories(
    rng: np.random.Generator, rows: pd.DataFrame, known: pd.DataFrame
) -> pd.DataFrame:
    """Half of the cells of each row become a category that training does not have."""
    names = categories_in(known)
    ranks = rng.random((len(rows), len(names))).argsort(axis=1)
    cells = rows[names].astype(object).mask(ranks < (len(names) + 1) // 2, _NEW_CATEGORY)
    return rows.assign(**{name: cells[name] for name in names})


def moving(known: pd.DataFrame) -> list[str]:
    """Columns of numbers that have a standard deviation to move by."""
    return [name for name in varied(known) if name in numbers_in(known)]


FAR = {
    "all numbers x 3 + 20 sd": all_numbers_far,
    "one number + 1000 sd": one_number_far,
    "half of the cells new": new_categories,
}


def far_rows(rows: pd.DataFrame, known: pd.DataFrame, seed: int) -> dict[str, pd.DataFrame]:
    """The rows, moved far away in each way that suits the table."""
    without_numbers = not moving(known)
    return {
        name: way(np.random.default_rng(seed), rows, known)
        for name, way in FAR.items()
        if (way is new_categories) == without_numbers
    }


# --- models ---------------------------------------------------------------------------------------

RIVALS: dict[str, Callable[[int], Any]] = {
    "logistic": lambda seed: LogisticRegression(max_iter=10_000),
    "forest": lambda seed: RandomForestClassifier(random_state=seed),
}
NAMES = ("bacoun", *RIVALS)


def quality(
    classes: np.ndarray, probabilities: np.ndarray, labels: pd.Series, seconds: float
) -> dict[str, float]:
    """Accuracy and log loss of probabilities (N, K), beside the seconds of the fit."""
    # Normalized in float64, because log_loss warns about the rounding of single precision.
    shares = probabilities.astype(np.float64)
    shares /= shares.sum(axis=1, keepdims=True)
    return {
        "accuracy": round(float((classes[shares.argmax(axis=1)] == labels).mean()), 4),
        "log loss": round(float(log_loss(labels, shares, labels=classes)), 4),
        "fit seconds": round(seconds, 2),
    }


def measure_rivals(
    train: pd.DataFrame, test: pd.DataFrame, target: str, seed: int
) -> tuple[dict[str, dict[str, float]], int]:
    """Quality of scikit-learn's defaults on imputed, standardized and one-hot encoded rows.

    Returns
    -------
    dict
        `quality` of each rival; its seconds include the preprocessing.
    int
        Number of inputs after the preprocessing.
    """
    started = time.perf_counter()
    preprocessing = Preprocessing().fit(train.drop(columns=target))
    points = preprocessing.transform(train.drop(columns=target))
    preprocessed = time.perf_counter() - started
    asked, found = preprocessing.transform(test.drop(columns=target)), {}
    for name, make in RIVALS.items():
        started = time.perf_counter()
        rival = make(seed).fit(points, train[target])
        seconds = preprocessed + time.perf_counter() - started
        found[name] = quality(rival.classes_, rival.predict_proba(asked), test[target], seconds)
    return found, points.shape[1]


def measure(table: str, seed: int, quick: bool = False) -> dict[str, Any]:
    """One entry of the record.

    Returns
    -------
    dict
        "training rows", "test rows" and "inputs", the number of columns if categories are one-hot
        encoded; "models": `quality` of each; "false alarm" and "far": shares of the test rows, and
        of those moved in each way of `FAR`, that our model calls unfamiliar.
    """
    train, test, target = load(table, seed)
    started = time.perf_counter()
    model = fit_model(train, target, seed, quick)
    seconds = time.perf_counter() - started
    rows, known = test.drop(columns=target), train.drop(columns=target)
    scored, classes = model.score(rows), model.classifier.classes_
    given = scored[[f"p_{label}" for label in classes]].to_numpy()
    rivals, n_inputs = measure_rivals(train, test, target, seed)
    return {
        "training rows": len(train),
        "test rows": len(test),
        "inputs": n_inputs,
        "models": {"bacoun": quality(classes, given, test[target], seconds), **rivals},
        "false alarm": _share(scored["reason"] == "unfamiliar"),
        "far": {
            name: _share(of_model(model)(moved))
            for name, moved in far_rows(rows.head(MAX_FAR), known, seed).items()
        },
    }


def _share(flags: np.ndarray | pd.Series) -> float:
    return round(float(flags.mean()), 4)


# --- results --------------------------------------------------------------------------------------

# How much less accurate than a rival our model may be.
MARGINS = {"logistic": 0.005, "forest": 0.01}


def main() -> None:
    """Measure what the record lacks, and print it all."""
    todo = records.tasks(measure, TABLES, SEEDS) | records.tasks(measure, [*LARGE], SEEDS[:1])
    show(records.resume(RECORD, todo, LIBRARIES))


def of_table(record: Record, table: str) -> list[dict[str, Any]]:
    """All runs on a table."""
    return [run for name, run in record["runs"].items() if name.rpartition("/")[0] == table]


def mean_quality(runs: list[dict[str, Any]], measure: str) -> dict[str, float | None]:
    """Mean over the runs on a table, of each model."""
    return {name: mean_of([run["models"][name][measure] for run in runs]) for name in NAMES}


def keeps_up(runs: list[dict[str, Any]]) -> dict[str, bool]:
    """Whether our mean accuracy is at least that of each rival, less its margin."""
    accuracy = mean_quality(runs, "accuracy")
    return {
        name: accuracy["bacoun"] >= accuracy[name] - margin - 1e-9
        for name, margin in MARGINS.items()
    }


def measured_tables(record: Record) -> list[str]:
    """Tables with at least one run, in the order of the benchmark."""
    return [table for table in (*TABLES, *LARGE) if of_table(record, table)]


def quality_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: for each table accuracy, log loss and seconds of each model."""
    digits = {"accuracy": 3, "log loss": 3, "fit seconds": 1}
    header = ["table", "rows", "inputs", *(f"{each} ({', '.join(NAMES)})" for each in digits)]
    rows = []
    for table in measured_tables(record):
        runs = of_table(record, table)
        cells = [
            " / ".join(f"{value:.{places}f}" for value in mean_quality(runs, each).values())
            for each, places in digits.items()
        ]
        kept = ["yes" if kept else "no" for kept in keeps_up(runs).values()]
        rows.append([table, f"{runs[0]['training rows']:,}", str(runs[0]["inputs"]), *cells, *kept])
    return [*header, *(f">= {name} - {margin:g}" for name, margin in MARGINS.items())], rows


def flag_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: for each table, the percentage of test rows and of far rows flagged."""
    rows = []
    for table in measured_tables(record):
        runs = of_table(record, table)
        alarm = mean_of([run["false alarm"] for run in runs])
        far = [mean_of([run["far"].get(name) for run in runs]) for name in FAR]
        rows.append([table, f"{100 * alarm:.1f}", *map(in_percent, far)])
    return ["table", "test rows", *FAR], rows


def verdict(record: Record) -> str:
    """On how many tables our model keeps up, in a sentence."""
    tables = measured_tables(record)
    kept = [keeps_up(of_table(record, table)) for table in tables]
    told = [
        f"at least that of {name} - {margin:g} on {sum(each[name] for each in kept)}"
        for name, margin in MARGINS.items()
    ]
    return f"Of {len(tables)} tables, our accuracy is {' and '.join(told)}."


QUALITY_TITLE = "Test accuracy, log loss in nats and seconds of the fit, means over seeds"
FLAGS_TITLE = "Rows called unfamiliar, in %: test rows, and the same moved far away"


def show(record: Record) -> None:
    """Print both tables, and on how many our model keeps up."""
    console = Console(width=170)
    console.print(records.rich_table(QUALITY_TITLE, *quality_rows(record)))
    console.print(verdict(record))
    console.print(records.rich_table(FLAGS_TITLE, *flag_rows(record)))


def markdown(record: Record) -> str:
    """Both tables as Markdown, each under its title."""
    first = records.markdown_table(*quality_rows(record))
    second = records.markdown_table(*flag_rows(record))
    return f"{QUALITY_TITLE}:\n\n{first}\n\n{verdict(record)}\n\n{FLAGS_TITLE}:\n\n{second}\n"


if __name__ == "__main__":
    main()

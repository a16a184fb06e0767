"""Texts and photos through pretrained encoders, beside six rivals; extends embeddings.json.

    python -m benchmarks embeddings                all cases
    python -m benchmarks "embeddings/clinc 15"     one of them, of `embedded.CASES`

For each case and seed, our default model and its rivals learn from the same vectors. Of each, the
record has how well its scores tell unknown rows from known ones, its accuracy and log loss on
these, and the seconds of its fit; where it is known which rows are ambiguous, also how well its
aleatoric uncertainty, or else its entropy, finds those. Fits have two threads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console

from bacoun.comparison.run import quality
from bacoun.uncertainty import auroc
from bacoun.uncertainty.metrics import fpr_at_tpr, rank_correlation
from benchmarks import record as records
from benchmarks.embedded import CASES, Draw
from benchmarks.on_vectors import METHODS, OURS, Answer, Fit
from benchmarks.record import Record, markdown_table, mean_of, rich_table

RECORD = Path(__file__).with_suffix(".json")
LIBRARIES = ("bacoun", "torch", "numpy", "scikit-learn", "onnxruntime", "tokenizers", "pillow")
Run = dict[str, Any]

# --- measuring ------------------------------------------------------------------------------------


def measure(case: str, seed: int) -> Run:
    """One entry of the record."""
    return measure_on(CASES[case].draw(seed), seed, METHODS)


def measure_on(draw: Draw, seed: int, methods: Mapping[str, Fit]) -> Run:
    """All methods on the same vectors.

    Returns
    -------
    dict
        Numbers of training, known and unknown rows, columns and classes; "methods": of each, "fit
        seconds", "auroc" and "fpr95" of its scores by name, "accuracy" and "log loss" of a
        classifier, "ambiguity" as `ambiguity` has it, and "known" and "unknown", what else it says.
    """
    return {
        "training rows": len(draw.train),
        "known": len(draw.known),
        "unknown": len(draw.unknown),
        "columns": draw.train.shape[1],
        "classes": len(np.unique(draw.labels)),
        "methods": {name: _judged(fit, draw, seed) for name, fit in methods.items()},
    }


def _judged(fit: Fit, draw: Draw, seed: int) -> Run:
    started = time.perf_counter()
    predict = fit(draw.train, draw.labels, seed)
    found: Run = {"fit seconds": round(time.perf_counter() - started, 2)}
    known, unknown = predict(draw.known), predict(draw.unknown)
    pairs = {name: (score, unknown.scores[name]) for name, score in known.scores.items()}
    found["auroc"] = {name: _rounded(auroc(*pair)) for name, pair in pairs.items()}
    found["fpr95"] = {name: _rounded(accepted(*pair)) for name, pair in pairs.items()}
    if known.probabilities is not None:
        labels = np.searchsorted(np.unique(draw.labels), draw.of_known)
        judged = quality(known.probabilities, labels)
        found |= {name: _rounded(judged[name]) for name in ("accuracy", "log loss")}
    unclear = None if draw.unclear is None else predict(draw.unclear)
    said = {"ambiguity": ambiguity(draw, known, unclear), "known": known.said}
    said["unknown"] = unknown.said
    return found | {
        part: {name: _rounded(value) for name, value in numbers.items()}
        for part, numbers in said.items()
        if numbers
    }


def accepted(known: np.ndarray, unknown: np.ndarray) -> float:
    """Share of unknown rows that are accepted if 95 % of the known ones are, given scores."""
    return fpr_at_tpr(inside=-unknown, outside=-known)


def ambiguity(draw: Draw, known: Answer, unclear: Answer | None) -> dict[str, float]:
    """How well each measure of ambiguity finds what people disagree on; empty if it is not known.

    Spearman's correlation with the entropy of people's answers about the known rows; or else the
    AUROC of unclear rows among the known ones.
    """
    if draw.disagreement is not None:
        people = draw.disagreement
        return {name: rank_correlation(value, people) for name, value in known.ambiguity.items()}
    if unclear is not None:
        given = unclear.ambiguity
        return {name: auroc(value, given[name]) for name, value in known.ambiguity.items()}
    return {}


def _rounded(value: float | None) -> float | None:
    return None if value is None or np.isnan(value) else round(value, 5)


def main(cases: Sequence[str] = tuple(CASES)) -> None:
    """Measure what the record lacks of these cases, and print all that it has."""
    torch.set_num_threads(2)
    todo = {}
    for case in cases:
        todo |= records.tasks(measure, [case], range(CASES[case].n_seeds))
    show(records.resume(RECORD, todo, LIBRARIES))


# --- results --------------------------------------------------------------------------------------


class Row(NamedTuple):
    """A row of a table: a method with the best of some of its scores."""

    title: str
    method: str
    scores: tuple[str, ...]


ROWS = (
    Row(OURS, OURS, ("`ood_score`",)),
    Row(OURS, OURS, ("epistemic",)),
    Row("logistic regression", "logistic regression", ("max softmax",)),
    Row("logistic regression", "logistic regression", ("energy",)),
    Row("kNN", "kNN", ("nearest", "fifth")),
    Row("Mahalanobis", "Mahalanobis", ("as they are", "unit length", "standardized")),
    Row("DDU", "DDU", ("density",)),
    Row("forest", "forest", ("max vote",)),
)
PLAIN = "logistic regression"
DIGITS = {"auroc": 3, "fpr95": 3, "accuracy": 3, "log loss": 3, "fit seconds": 1}
HEADER = {"auroc": "AUROC", "fpr95": "FPR95", "fit seconds": "fit s"}


def of_case(record: Record, case: str) -> list[Run]:
    """All runs of a case."""
    return [run for name, run in record["runs"].items() if name.rpartition("/")[0] == case]


def measured(record: Record) -> dict[str, list[Run]]:
    """Runs by case, in the order of the benchmark."""
    return {case: runs for case in CASES if (runs := of_case(record, case))}


def values(runs: list[Run], method: str, *names: str) -> list[float | None]:
    """A number of a method, one for each run; None where it says none."""
    *groups, last = names
    found = []
    for run in runs:
        numbers = run["methods"][method]
        for group in groups:
            numbers = numbers.get(group, {})
        found.append(numbers.get(last))
    return found


def best_score(runs: list[Run], row: Row) -> str:
    """The score of a row with the highest mean AUROC."""
    return max(row.scores, key=lambda score: mean_of(values(runs, row.method, "auroc", score)) or 0)


def as_text(numbers: list[float | None], digits: int = 3) -> str:
    """Mean and standard error, a dash if there is no number."""
    given = [number for number in numbers if number is not None]
    if not given:
        return "-"
    mean = f"{np.mean(given):.{digits}f}"
    error = np.std(given, ddof=1) / len(given) ** 0.5 if len(given) > 1 else None
    return mean if error is None else f"{mean} ± {error:.{digits}f}"


def case_rows(runs: list[Run]) -> tuple[list[str], list[list[str]]]:
    """Header and rows: detection by each score; quality and seconds of each method, once."""
    table, methods = [], set()
    for row in ROWS:
        score = best_score(runs, row)
        cells = []
        for measure, digits in DIGITS.items():
            names = (measure, score) if measure in ("auroc", "fpr95") else (measure,)
            is_repeated = row.method in methods and len(names) == 1
            cells.append("" if is_repeated else as_text(values(runs, row.method, *names), digits))
        table.append([f"{row.title}, {score}", *cells])
        methods.add(row.method)
    return ["method, score", *(HEADER.get(name, name) for name in DIGITS)], table


def said_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: what our model says about known and unknown rows of each case."""
    kinds = ("P(OOD)", "epistemic share")
    columns = [(side, kind) for kind in kinds for side in ("known", "unknown")]
    header = ["case", *(f"{kind}, {side}" for side, kind in columns), "effective draws"]
    table = []
    for case, runs in measured(record).items():
        cells = [as_text(values(runs, OURS, *names)) for names in columns]
        table.append([case, *cells, as_text(values(runs, OURS, "known", "effective draws"), 0)])
    return header, table


def ambiguity_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: how well each measure of a method finds ambiguous rows."""
    every = measured(record).items()
    cases = {case: runs for case, runs in every if "ambiguity" in runs[0]["methods"][OURS]}
    named = {
        (method, name): None  # in this order, each once
        for runs in cases.values()
        for method, found in runs[0]["methods"].items()
        for name in found.get("ambiguity", {})
    }
    table = [
        [f"{m}, {name}", *(as_text(values(runs, m, "ambiguity", name)) for runs in cases.values())]
        for m, name in named
    ]
    return ["method, measure", *cases], table


# --- promises -------------------------------------------------------------------------------------

MARGIN = 0.003  # of AUROC and FPR95, on CLINC
ACCURACY_MARGIN = 0.005  # on CIFAR
FIT_SECONDS = {"clinc 15": 15.0, "clinc 50": 40.0, "clinc 150": 180.0}
MOST_OOD_CORRELATION = 0.1
LEAST_SOLAR_AUROC = 0.75


class Promise(NamedTuple):
    """A number of ours, and the least or largest that it may be."""

    case: str
    about: str
    ours: float
    limit: float
    is_least: bool

    @property
    def is_kept(self) -> bool:
        """Whether the number is within the limit."""
        gap = self.ours - self.limit if self.is_least else self.limit - self.ours
        return gap >= -1e-9


def promises(record: Record) -> Iterator[Promise]:
    """What a default has to reach, case by case, with means over the runs."""
    for case, runs in measured(record).items():
        if case in FIT_SECONDS:
            yield from _of_intents(case, runs)
        else:
            yield Promise(case, "AUROC, best rival", *_detection(runs, "auroc"), True)
        if case == "cifar":
            yield from _of_cifar(case, runs)
        if case == "solar":
            found = _mean(runs, OURS, "ambiguity", "aleatoric")
            yield Promise(case, "AUROC of unclear cells", found, LEAST_SOLAR_AUROC, True)


def _of_intents(case: str, runs: list[Run]) -> Iterator[Promise]:
    ours, rival = _detection(runs, "auroc")
    yield Promise(case, f"AUROC, best rival less {MARGIN}", ours, rival - MARGIN, True)
    ours, rival = _detection(runs, "fpr95")
    yield Promise(case, f"FPR95, best rival plus {MARGIN}", ours, rival + MARGIN, False)
    for name, is_least in (("accuracy", True), ("log loss", False)):
        pair = _mean(runs, OURS, name), _mean(runs, PLAIN, name)
        yield Promise(case, f"{name}, {PLAIN}", *pair, is_least)
    seconds = _mean(runs, OURS, "fit seconds")
    yield Promise(case, "seconds of the fit", seconds, FIT_SECONDS[case], False)


def _of_cifar(case: str, runs: list[Run]) -> Iterator[Promise]:
    ours, least = _mean(runs, OURS, "accuracy"), _mean(runs, PLAIN, "accuracy") - ACCURACY_MARGIN
    yield Promise(case, f"accuracy, {PLAIN} less {ACCURACY_MARGIN}", ours, least, True)
    rivals = [_mean(runs, name, "ambiguity", "entropy") for name in METHODS]
    best = max(rho for rho in rivals if not np.isnan(rho))
    aleatoric, ood = (_mean(runs, OURS, "ambiguity", name) for name in ("aleatoric", "ood"))
    yield Promise(case, "aleatoric with people, entropy of rivals", aleatoric, best, True)
    about = "`ood` with people, without its sign"
    yield Promise(case, about, abs(ood), MOST_OOD_CORRELATION, False)


def _detection(runs: list[Run], measure: str) -> tuple[float, float]:
    """Mean AUROC or FPR95 of our `ood_score`, and of the best rival."""
    means = [_mean(runs, row.method, measure, best_score(runs, row)) for row in ROWS]
    rivals = [mean for mean, row in zip(means, ROWS, strict=True) if row.method != OURS]
    return means[0], (max if measure == "auroc" else min)(rivals)


def _mean(runs: list[Run], *names: str) -> float:
    mean = mean_of(values(runs, *names))
    return float("nan") if mean is None else mean


def promise_rows(record: Record) -> tuple[list[str], list[list[str]]]:
    """Header and rows: every promise, our mean, the limit, and whether it is kept."""
    table = []
    for each in promises(record):
        digits = 1 if "seconds" in each.about else 3
        sign = ">=" if each.is_least else "<="
        numbers = [f"{each.ours:.{digits}f}", f"{sign} {each.limit:.{digits}f}"]
        table.append([each.case, each.about, *numbers, "yes" if each.is_kept else "no"])
    return ["case", "measured against", "ours", "limit", "kept"], table


# --- showing --------------------------------------------------------------------------------------


def parts(record: Record) -> Iterator[tuple[str, tuple[list[str], list[list[str]]]]]:
    """Each table of the page with its title; of what the record has."""
    for case, runs in measured(record).items():
        run = runs[0]
        rows = ", ".join(f"{run[kind]:,} {kind}" for kind in ("training rows", "known", "unknown"))
        draws = "one draw" if len(runs) == 1 else f"{len(runs)} draws"
        yield f"{case}: {CASES[case].about} ({draws}; the first: {rows})", case_rows(runs)
    yield "What our model says of known and unknown rows, means", said_rows(record)
    ambiguous = ambiguity_rows(record)
    if ambiguous[1]:
        yield (
            "Ambiguity: correlation with people (cifar), AUROC of unclear cells (solar)",
            ambiguous,
        )
    yield "What is asked of the default", promise_rows(record)


def show(record: Record) -> None:
    """Print the record as tables."""
    console = Console(width=130)
    for title, (header, rows) in parts(record):
        console.print(rich_table(title, header, rows))


def markdown(record: Record) -> str:
    """The record as Markdown."""
    tables = (f"{title}:\n\n{markdown_table(*content)}" for title, content in parts(record))
    return "\n\n".join(tables) + "\n"

"""Log loss, accuracy and calibration on known classes of tables, beside the network's own."""

from __future__ import annotations

import numpy as np

from bacoun.classifier import BaCOUnClassifier
from reproduction.fits import fitted
from reproduction.results import Measured, over_cases
from reproduction.schema import Experiment
from reproduction.studies.left_out import load
from reproduction.studies.regions import basic_quality

# The network works in single precision, in which a tiny probability becomes zero; its log loss
# must stay finite to be compared.
_SMALLEST = float(np.finfo(np.float32).tiny)


def log_loss(experiment: Experiment, method: str, seed: int) -> Measured:
    """Numbers of every table, `MEASURE/TABLE`, and `mean/MEASURE` over tables; no arrays.

    With an edge also `network_accuracy`, `network_nll` and `network_ece`, those of the network of
    step 2 on the K classes; `excess`, the log loss of the classifier less that of the network; and
    `largest_excess` over tables.
    """
    by_table = {}
    for table in experiment.dataset["tables"]:
        # Settings of its own for each table, so that its cached fit does not depend on the others.
        dataset = {"kind": "table", "table": table, "n_train": experiment.dataset["n_train"]}
        by_table[table] = _measured(
            experiment.model_copy(update={"dataset": dataset}), method, seed
        )
    numbers, found = over_cases(by_table)
    if "excess" in found:
        numbers["largest_excess"] = max(found["excess"].values())
    return numbers | found, {}


def _measured(experiment: Experiment, method: str, seed: int) -> dict[str, float]:
    """Quality of the method on the test rows of one table, of its network too if it has an edge."""
    data = load(experiment.dataset, seed)
    model, seconds = fitted(experiment, method, seed, data)
    index = np.searchsorted(model.classes_, data.test_labels)
    measured = basic_quality(model.predict_proba(data.test_points), index)
    if isinstance(model, BaCOUnClassifier) and model.boundary_ is not None:
        network = basic_quality(network_proba(model, data.test_points), index)
        measured |= {f"network_{name}": value for name, value in network.items()}
        measured["excess"] = measured["nll"] - measured["network_nll"]
    return measured | {"seconds": seconds}


def network_proba(model: BaCOUnClassifier, rows: np.ndarray) -> np.ndarray:
    """Probabilities (n, K) of the network of step 2, given that the rows are not from the edge."""
    known = model.region_proba(rows)[:, : len(model.classes_)].astype(np.float64)
    known = known.clip(_SMALLEST)
    return known / known.sum(axis=1, keepdims=True)

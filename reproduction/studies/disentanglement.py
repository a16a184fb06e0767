"""Is aleatoric uncertainty about noise, and epistemic uncertainty about missing data.

UDE, the uncertainty disentanglement error of de Jong et al. ("How disentangled are your
classification uncertainties?"): training sets become smaller, which should raise epistemic
uncertainty alone; or labels become noisier, which should raise aleatoric uncertainty alone. The
Gaussian mixture adds what its known density tells.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split

from bacoun.uncertainty import rank_correlation
from reproduction.datasets.synthetic import (
    gaussian_mixture,
    gaussian_mixture_posterior,
    gaussian_mixture_regions,
)
from reproduction.datasets.tables import load_table
from reproduction.methods import make_method
from reproduction.results import Measured
from reproduction.schema import Experiment, Table

SIZES = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0)
NOISES = tuple(step / 9 for step in range(10))
_ONE_NETWORK = ("ddu", "natpn")  # whose own score is the epistemic uncertainty
_MIXTURE_SIZES = (25, 50, 100, 200, 400)  # training points of each class
_MIXTURE_NOISES = (0.0, 0.2, 0.4)
_N_TEST = 1000
Rows = tuple[np.ndarray, np.ndarray]


def disentanglement(experiment: Experiment, method: str, seed: int) -> Measured:
    """`ude/TABLE` and its mean; `r/PART SWEEP/TABLE`, the correlations it is made of; `truth/...`.

    The arrays hold accuracy, mean aleatoric and mean epistemic uncertainty along both sweeps.
    """
    started = time.perf_counter()
    settings = experiment.methods[method]
    ude: dict[str, float] = {}
    correlations: dict[str, dict[str, float]] = {}
    arrays: dict[str, np.ndarray] = {}
    for name in experiment.dataset["tables"]:
        curves = sweeps(settings, load_table(name)[:2], experiment.dataset["n_train"], seed)
        found = {
            f"{part} {sweep}": correlation(curve[:, place], -curve[:, 0])
            for sweep, curve in curves.items()
            for place, part in ((1, "aleatoric"), (2, "epistemic"))
        }
        ude[name] = disentanglement_error(found)
        for key, value in found.items():
            correlations.setdefault(key, {})[name] = value
        arrays |= {f"{name} {sweep}": curve for sweep, curve in curves.items()}
    for values in (ude, *correlations.values()):
        values["mean"] = float(np.mean([*values.values()]))
    numbers = {"ude": ude, "r": correlations, "truth": _mixture(settings, seed)}
    return numbers | {"fit_seconds": round(time.perf_counter() - started, 1)}, arrays


def disentanglement_error(r: dict[str, float]) -> float:
    """UDE from four correlations with the error: 0 is best, and 2 is worst.

    Examples
    --------
    >>> r = {"aleatoric size": 0.0, "epistemic size": 1.0}
    >>> disentanglement_error(r | {"aleatoric noise": 1.0, "epistemic noise": -0.5})
    0.125
    """
    unmoved = abs(r["aleatoric size"]) + abs(r["epistemic noise"])
    moved = abs(1 - r["epistemic size"]) + abs(1 - r["aleatoric noise"])
    return (unmoved + moved) / 4


def correlation(one: np.ndarray, two: np.ndarray) -> float:
    """Pearson's correlation; 0 if one of them does not vary."""
    if np.ptp(one) < 1e-12 or np.ptp(two) < 1e-12:
        return 0.0
    return float(np.corrcoef(one, two)[0, 1])


def sweeps(settings: Table, table: Rows, n_train: int, seed: int) -> dict[str, np.ndarray]:
    """Accuracy, mean aleatoric and mean epistemic uncertainty (n, 3) for each size and noise."""
    X, y = table
    train, test = train_test_split(np.arange(len(X)), test_size=0.3, stratify=y, random_state=seed)
    rng = np.random.default_rng(seed)
    train, test = rng.permutation(train)[:n_train], rng.permutation(test)[:_N_TEST]
    known = (X[train], y[train])
    size = [measured(settings, some_of(known, s, seed), (X[test], y[test]), seed) for s in SIZES]
    noise = [size[-1]]
    for share in NOISES[1:]:
        noisy = (X[train], shuffled(y[train], share, seed))
        asked = (X[test], shuffled(y[test], share, seed + 1))
        noise.append(measured(settings, noisy, asked, seed))
    return {"size": np.array(size), "noise": np.array(noise)}


def some_of(rows: Rows, share: float, seed: int) -> Rows:
    """A share of the rows of each class, at least one."""
    X, y = rows
    rng, kept = np.random.default_rng(seed), []
    for label in np.unique(y):
        own = rng.permutation(np.flatnonzero(y == label))
        kept.append(own[: max(1, round(share * len(own)))])
    chosen = np.sort(np.concatenate(kept))
    return X[chosen], y[chosen]


def shuffled(y: np.ndarray, share: float, seed: int) -> np.ndarray:
    """Labels of which a share, chosen at random, changed places."""
    rng = np.random.default_rng(seed)
    places = rng.permutation(len(y))[: round(share * len(y))]
    noisy = y.copy()
    noisy[places] = y[rng.permutation(places)]
    return noisy


def measured(settings: Table, train: Rows, test: Rows, seed: int) -> tuple[float, float, float]:
    """Accuracy, mean aleatoric and mean epistemic uncertainty of a fit."""
    model = make_method(settings, seed).fit(*train)
    aleatoric, epistemic, winners = parts_of(model, settings, test[0])
    return float((winners == test[1]).mean()), float(aleatoric.mean()), float(epistemic.mean())


def parts_of(
    model: Any, settings: Table, X: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Aleatoric and epistemic uncertainty of rows, and the predicted classes, each (N,)."""
    found = model.evaluate(X)
    winners = model.classes_[found.probabilities.argmax(axis=1)]
    if settings["kind"] in _ONE_NETWORK:
        return found.total, found.ood_score, winners
    return found.aleatoric, found.epistemic, winners


def _mixture(settings: Table, seed: int) -> dict[str, float]:
    """Against the known truth of the Gaussian mixture.

    `error N`: mean absolute error of aleatoric uncertainty if N % of the labels are shuffled;
    `slope`: of log epistemic uncertainty over the log of the training size; `rank inside` and
    `rank mixed`: rank correlation of both parts on test points, alone and with far ones among them.
    """
    asked, _ = gaussian_mixture(200, np.random.default_rng([seed, 5]))
    found = {}
    for share in _MIXTURE_NOISES:
        points, labels = gaussian_mixture(400, seed)
        model = make_method(settings, seed).fit(points, shuffled(labels, share, seed))
        truth = (1 - share) * gaussian_mixture_posterior(asked) + share / 3
        entropy = -(truth * np.log(truth.clip(1e-300))).sum(axis=1)
        aleatoric, epistemic, _ = parts_of(model, settings, asked)
        found[f"error {100 * share:g}"] = float(np.abs(aleatoric - entropy).mean())
        if share == 0:
            far = parts_of(model, settings, gaussian_mixture_regions(seed)["out"])
            found["rank inside"] = rank_correlation(aleatoric, epistemic)
            both = (
                np.concatenate(pair) for pair in zip((aleatoric, epistemic), far[:2], strict=True)
            )
            found["rank mixed"] = rank_correlation(*both)
    means = []
    for size in _MIXTURE_SIZES:
        model = make_method(settings, seed).fit(*gaussian_mixture(size, seed))
        means.append(parts_of(model, settings, asked)[1].mean())
    if min(means) > 0:
        slope = np.polyfit(np.log(_MIXTURE_SIZES), np.log(means), 1)[0]
        found["slope"] = float(slope)
    return found

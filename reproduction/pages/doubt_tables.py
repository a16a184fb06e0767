"""The tables of docs/doubt.md: how settings were chosen, and what they give."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
from reproduction.pages.claims import OURS, Results
from reproduction.pages.tables import lines, number
from reproduction.schema import read_experiment
from reproduction.studies.ood_calibration import EDGES

_CHOICE = {
    "log loss, clean": "nll/clean",
    "accuracy, shifted": "accuracy/mean",
    "log loss, shifted": "nll/mean",
    "AURC, shifted": "aurc/mean",
    "AUROC, left-out digits": "auroc/epistemic/left out",
    "failure AURC": "failure/aurc",
}
_LEFT_OUT_CHOICE = {
    "AUROC of `ood_score`": "mean/ood_score",
    "of epistemic": "mean/epistemic",
    "of the density": "mean/rarity",
    "accuracy": "mean/accuracy",
    "log loss": "mean/nll",
}
_SHIFTS = {
    "clean": "accuracy/clean",
    "accuracy": "accuracy/mean",
    "log loss": "nll/mean",
    "ECE": "ece/mean",
    "AURC": "aurc/mean",
    "epistemic": "epistemic/mean",
    "USPS accuracy": "accuracy/usps",
}
_OTHERS = {"usps": "USPS", "emnist-letters": "letters", "cifar10": "CIFAR"}
_IMAGE_SCORES = ("ood_score", "epistemic", "total")
_SPLIT_SETS = {"in": "test digits", **_OTHERS}
_NOISES = (0.5, 1.0)
_FAILURE = {"failure AURC": "failure/aurc", "failure AUGRC": "failure/augrc"}
_LOG_LOSS = {
    "accuracy": "accuracy",
    "log loss": "nll",
    "of the network": "network_nll",
    "difference": "excess",
}


def choice(r: Results) -> str:
    """Settings for images on development data."""
    sets = read_experiment("choice").dataset["sets"]
    rows = (
        [
            m,
            s,
            seeds(r, "choice", m),
            *means(r, "choice", m, (f"{s}/{p}" for p in _CHOICE.values())),
        ]
        for m in methods(r, "choice")
        for s in sets
    )
    return table(["settings", "images", "seeds", *_CHOICE], rows, 2)


def left_out_choice(r: Results) -> str:
    """Settings for tables on development data."""
    return by_method(r, "left-out-choice", "settings", _LEFT_OUT_CHOICE)


def doubt_choice(r: Results) -> str:
    """Power and prior of the default's doubt."""
    sets = read_experiment("choice").dataset["sets"]
    (record, *_) = (x for x in r.records["choice"] if x.method == "default")
    rows = (
        [
            name,
            *(
                " / ".join(means(r, "choice", "default", (f"{s}/doubt/{name}/{p}" for p in parts)))
                for s in sets
            ),
        ]
        for name in record.numbers[sets[0]]["doubt"]
        for parts in [("nll", "auroc", "failure")]
    )
    return table(["power, prior", *(f"{s}: log loss / AUROC / failure" for s in sets)], rows, 1)


def shifts(r: Results) -> str:
    """Quality under labeled shifts."""
    return by_method(r, "shifts", "method", _SHIFTS)


def shift_ranks(r: Results) -> str:
    """Whether epistemic uncertainty grows with the strength of a shift, family by family."""
    families = read_experiment("shifts").options["shifts"]
    rows = (
        [m, *means(r, "shifts", m, (f"rises/{family}" for family in families))]
        for m in methods(r, "shifts")
    )
    return table(["method", *families], rows, 1)


def other_images(r: Results) -> str:
    """Images of other kinds told apart, and mistakes found."""
    rows = (
        [
            m,
            *(
                " / ".join(
                    means(r, "shifts", m, (f"auroc/{score}/{name}" for score in _IMAGE_SCORES))
                )
                for name in _OTHERS
            ),
            *means(r, "shifts", m, _FAILURE.values()),
        ]
        for m in methods(r, "shifts")
    )
    return table(["method", *_OTHERS.values(), *_FAILURE], rows, 1)


def image_split(r: Results) -> str:
    """Which part of the uncertainty is epistemic, by set of images."""
    rows = (
        [
            m,
            seeds(r, "mnist", m),
            *means(r, "mnist", m, (f"share/{name}" for name in _OTHERS)),
            *(_share_under_noise(r, m, level) for level in _NOISES),
        ]
        for m in methods(r, "mnist")
    )
    noises = (f"noise {level:g}" for level in _NOISES)
    return table(["method", "seeds", *_OTHERS.values(), *noises], rows, 1)


def _share_under_noise(r: Results, method: str, level: float) -> str:
    shares = []
    for record in r.records["mnist-noise"]:
        if record.method == method:
            at = np.isclose(record.arrays["levels"].astype(float), level, atol=1e-3)
            parts = {p: record.arrays[p][at].astype(float).mean() for p in ("epistemic", "total")}
            shares.append(parts["epistemic"] / parts["total"])
    return number(float(np.mean(shares))) if shares else "-"


def image_probability(r: Results) -> str:
    """What our default says of each set of images."""
    columns = ("p_ood", "aleatoric", "epistemic", "share")
    told = (f"auroc/{score}" for score in ("ood_score", "epistemic", "aleatoric"))
    paths = [*columns, *told]
    rows = (
        [label, *means(r, "mnist", OURS, (f"{path}/{name}" for path in paths))]
        for name, label in _SPLIT_SETS.items()
    )
    head = ["P(OOD)", "aleatoric", "epistemic", "epistemic share"]
    head += [f"AUROC of {score}" for score in ("`ood_score`", "epistemic", "aleatoric")]
    return table(["images", *head], rows, 1)


def calibration(r: Results) -> str:
    """Mean probability of being OOD in streams with a share of unknown rows, which is the prior."""
    priors = [f"{prior:g}" for prior in read_experiment("ood-calibration").options["priors"]]
    rows = (
        [
            f"{kind}: {label}",
            *means(r, "ood-calibration", OURS, (f"{part}/{kind}/{p}" for p in priors)),
        ]
        for kind in ("tables", "images")
        for part, label in (("mean", "the stream"), ("inside", "its known rows"))
    )
    return table(["mean probability of", *(f"prior {prior}" for prior in priors)], rows, 1)


def reliability(r: Results) -> str:
    """Share of unknown rows by what their probability was said to be."""
    bins = [f"{low:g} to {high:g}" for low, high in pairwise(EDGES)]
    rows = []
    for kind in ("tables", "images"):
        for prior in ("0.01", "0.2", "0.5"):
            curves = [
                record.arrays[f"{kind} {prior}"].astype(float)
                for record in r.records["ood-calibration"]
                if record.method == OURS
            ]
            mass, said, found = np.mean(curves, axis=0).T
            cells = [
                f"{s:.2f}: {f:.2f} ({100 * m:.1f} %)" if m > 0 else "-"
                for m, s, f in zip(mass, said, found, strict=True)
            ]
            rows.append([f"{kind}, prior {prior}", *cells])
    return table(["stream", *bins], rows, 1)


def left_out(r: Results) -> str:
    """Classes left out of tables."""
    scores = {
        "`ood_score`": "ood_score",
        "epistemic": "epistemic",
        "aleatoric": "aleatoric",
        "total": "total",
        "flow density": "rarity",
    }
    return by_method(r, "left-out", "method", {s: f"mean/{path}" for s, path in scores.items()})


def log_loss(r: Results) -> str:
    """Log loss table by table, beside that of the network."""
    rows = (
        [name, *means(r, "log-loss", OURS, (f"{p}/{name}" for p in _LOG_LOSS.values()))]
        for name in read_experiment("log-loss").dataset["tables"]
    )
    return table(["table", *_LOG_LOSS], rows, 1)


TABLES = {
    "doubt: choice": choice,
    "doubt: left-out-choice": left_out_choice,
    "doubt: power and prior": doubt_choice,
    "doubt: shifts": shifts,
    "doubt: ranks": shift_ranks,
    "doubt: other images": other_images,
    "doubt: split of images": image_split,
    "doubt: images": image_probability,
    "doubt: calibration": calibration,
    "doubt: reliability": reliability,
    "doubt: left-out": left_out,
    "doubt: log-loss": log_loss,
}


def by_method(r: Results, experiment: str, label: str, columns: dict[str, str]) -> str:
    """A row for each method, a column for each path of a number."""
    rows = (
        [m, seeds(r, experiment, m), *means(r, experiment, m, columns.values())]
        for m in methods(r, experiment)
    )
    return table([label, "seeds", *columns], rows, 1)


def methods(r: Results, experiment: str) -> list[str]:
    """Those methods of an experiment that there are records of."""
    return r.measured(experiment, read_experiment(experiment).methods)


def seeds(r: Results, experiment: str, method: str) -> str:
    """How many seeds of a method there are records of."""
    return str(sum(record.method == method for record in r.records[experiment]))


def means(r: Results, experiment: str, method: str, paths: Iterable[str]) -> list[str]:
    """Means over seeds; "-" if nothing was measured."""
    return [_mean(r, experiment, method, path) for path in paths]


def _mean(r: Results, experiment: str, method: str, path: str) -> str:
    try:
        return number(float(r.values(experiment, method, path).mean()))
    except KeyError:
        return "-"


def table(head: list[str], rows: Iterable[list[str]], n_labels: int) -> str:
    """Markdown; the first columns are labels."""
    return "\n".join(lines(head, rows, n_labels))

"""The tables of docs/doubt.md: how settings were chosen, and what they give."""

from __future__ import annotations

from collections.abc import Iterable

from reproduction.pages.claims import OURS, Results
from reproduction.pages.tables import lines, number
from reproduction.schema import read_experiment

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
            _seeds(r, "choice", m),
            *_means(r, "choice", m, (f"{s}/{p}" for p in _CHOICE.values())),
        ]
        for m in _methods(r, "choice")
        for s in sets
    )
    return _table(["settings", "images", "seeds", *_CHOICE], rows, 2)


def left_out_choice(r: Results) -> str:
    """Settings for tables on development data."""
    return _by_method(r, "left-out-choice", "settings", _LEFT_OUT_CHOICE)


def doubt_choice(r: Results) -> str:
    """Power and prior of the default's doubt."""
    sets = read_experiment("choice").dataset["sets"]
    (record, *_) = (x for x in r.records["choice"] if x.method == "default")
    rows = (
        [
            name,
            *(
                " / ".join(_means(r, "choice", "default", (f"{s}/doubt/{name}/{p}" for p in parts)))
                for s in sets
            ),
        ]
        for name in record.numbers[sets[0]]["doubt"]
        for parts in [("nll", "auroc", "failure")]
    )
    return _table(["power, prior", *(f"{s}: log loss / AUROC / failure" for s in sets)], rows, 1)


def shifts(r: Results) -> str:
    """Quality under labeled shifts."""
    return _by_method(r, "shifts", "method", _SHIFTS)


def shift_ranks(r: Results) -> str:
    """Whether epistemic uncertainty grows with the strength of a shift, family by family."""
    families = read_experiment("shifts").options["shifts"]
    rows = (
        [m, *_means(r, "shifts", m, (f"rises/{family}" for family in families))]
        for m in _methods(r, "shifts")
    )
    return _table(["method", *families], rows, 1)


def other_images(r: Results) -> str:
    """Images of other kinds told apart, and mistakes found."""
    rows = (
        [
            m,
            *(
                " / ".join(
                    _means(
                        r, "shifts", m, (f"auroc/{s}/{name}" for s in ("ood_score", "epistemic"))
                    )
                )
                for name in _OTHERS
            ),
            *_means(r, "shifts", m, _FAILURE.values()),
        ]
        for m in _methods(r, "shifts")
    )
    return _table(["method", *_OTHERS.values(), *_FAILURE], rows, 1)


def left_out(r: Results) -> str:
    """Classes left out of tables."""
    others = [m for m in _methods(r, "left-out") if m != OURS]
    scores = [
        (f"{OURS}, `ood_score`", OURS, "ood_score"),
        (f"{OURS}, epistemic", OURS, "epistemic"),
        (f"{OURS}, flow density alone", OURS, "rarity"),
        *((m, m, "ood_score") for m in others),
    ]
    rows = (
        [name, _seeds(r, "left-out", m), *_means(r, "left-out", m, [f"mean/{s}"])]
        for name, m, s in scores
    )
    return _table(["score", "seeds", "mean AUROC"], rows, 1)


def log_loss(r: Results) -> str:
    """Log loss table by table, beside that of the network."""
    rows = (
        [name, *_means(r, "log-loss", OURS, (f"{p}/{name}" for p in _LOG_LOSS.values()))]
        for name in read_experiment("log-loss").dataset["tables"]
    )
    return _table(["table", *_LOG_LOSS], rows, 1)


TABLES = {
    "doubt: choice": choice,
    "doubt: left-out-choice": left_out_choice,
    "doubt: power and prior": doubt_choice,
    "doubt: shifts": shifts,
    "doubt: ranks": shift_ranks,
    "doubt: other images": other_images,
    "doubt: left-out": left_out,
    "doubt: log-loss": log_loss,
}


def _by_method(r: Results, experiment: str, label: str, columns: dict[str, str]) -> str:
    rows = (
        [m, _seeds(r, experiment, m), *_means(r, experiment, m, columns.values())]
        for m in _methods(r, experiment)
    )
    return _table([label, "seeds", *columns], rows, 1)


def _methods(r: Results, experiment: str) -> list[str]:
    return r.measured(experiment, read_experiment(experiment).methods)


def _seeds(r: Results, experiment: str, method: str) -> str:
    return str(sum(record.method == method for record in r.records[experiment]))


def _means(r: Results, experiment: str, method: str, paths: Iterable[str]) -> list[str]:
    return [number(float(r.values(experiment, method, path).mean())) for path in paths]


def _table(head: list[str], rows: Iterable[list[str]], n_labels: int) -> str:
    return "\n".join(lines(head, rows, n_labels))

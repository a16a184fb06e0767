"""The README's tables: what the paper printed, its recipe here, and our default."""

from __future__ import annotations

from pathlib import Path

from reproduction.pages.blocks import with_block
from reproduction.pages.claims import OURS, PAPER, Results
from reproduction.pages.tables import lines, number, published_number
from reproduction.schema import read_experiment

_ROWS = {
    "gmm": {
        "accuracy": ["accuracy"],
        "aleatoric In / Out / Middle": ["aleatoric/in", "aleatoric/out", "aleatoric/middle"],
        "epistemic In / Out / Middle": ["epistemic/in", "epistemic/out", "epistemic/middle"],
    },
    "wine": {
        "AUC": ["auc"],
        "aleatoric In / held-out / class 6 / OOD": [
            *("aleatoric/in", "aleatoric/held-out", "aleatoric/6", "aleatoric/ood"),
        ],
        "epistemic In / held-out / OOD": ["epistemic/in", "epistemic/held-out", "epistemic/ood"],
        "AUROC of epistemic, In against OOD": ["auroc/epistemic/ood"],
    },
}
_IMAGES = {
    "accuracy": "accuracy/clean",
    "accuracy, shifted": "accuracy/mean",
    "log loss, shifted": "nll/mean",
    "AURC, shifted": "aurc/mean",
    "AUROC USPS": "auroc/ood_score/usps",
    "AUROC letters": "auroc/ood_score/emnist-letters",
    "AUROC CIFAR": "auroc/ood_score/cifar10",
}
_TITLES = {"gmm": "Gaussian mixture", "wine": "White wine, classes 5 and 7"}


def write_readme(folder: Path, readme: Path) -> None:
    """Replace the block "paper" of the README by the tables of the records in `folder`."""
    readme.write_text(readme_text(Results(folder), readme.read_text()))


def readme_text(results: Results, text: str) -> str:
    """The README with its tables made from the records."""
    tables = [*(_table(results, name) for name in _ROWS), _image_table(results)]
    return with_block(text, "paper", "\n\n".join(tables))


def _image_table(results: Results) -> str:
    methods = results.measured("shifts", read_experiment("shifts").methods)
    rows = [
        [
            method,
            str(len(results.values("shifts", method, "accuracy/clean"))),
            *(number(_best(results, method, path)) for path in _IMAGES.values()),
        ]
        for method in methods
    ]
    return "\n".join(lines(["MNIST, 20,000 images", "seeds", *_IMAGES], rows, 1))


def _best(results: Results, method: str, path: str) -> float:
    """Mean over seeds; for telling images apart, by a baseline's better score."""
    paths = [path] if method == OURS else [path, path.replace("ood_score", "total")]
    return max(float(results.values("shifts", method, each).mean()) for each in paths)


def _table(results: Results, name: str) -> str:
    experiment = read_experiment(name)

    def printed(path: str) -> str:
        value = published_number(experiment, PAPER, path)
        return "-" if value is None else number(value)

    def ours(method: str, path: str) -> str:
        return number(float(results.values(name, method, path).mean()))

    rows = [
        [
            label,
            " / ".join(map(printed, paths)),
            *(" / ".join(ours(method, path) for path in paths) for method in (PAPER, OURS)),
        ]
        for label, paths in _ROWS[name].items()
    ]
    n_seeds = len(results.values(name, PAPER, "accuracy"))
    head = [f"{_TITLES[name]}, {n_seeds} seeds", "the paper", "its recipe here", "our default"]
    return "\n".join(lines(head, rows, 1))

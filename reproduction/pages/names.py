"""Names, order and colors of methods and of sets of images, for all tables, figures and claims."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import cycle

from reproduction.schema import read_experiment

PAPER_BASELINES = ("NLM", "BNN", "MC-Dropout")
PARTS = ("total", "aleatoric", "epistemic")

_METHOD_COLORS = {
    "BaCOUn": "#aa3377",
    "BaCOUn, no doubt": "#ddaacc",
    "BaCOUn, paper": "#ee6677",
    "NLM": "#4477aa",
    "NLM, paper": "#99bbdd",
    "NLM, paper, 50-1024": "#bbccee",
    "BNN": "#228833",
    "BNN, dense": "#88bb88",
    "BNN, 2 x 64": "#88bb88",
    "MC-Dropout": "#ccbb44",
    "MC-Dropout, paper": "#ddcc77",
    "MC-Dropout, paper, 50-1024": "#eee6b0",
    "GP": "#000000",
    "GP, isotropic": "#888888",
    "Deep ensemble": "#66ccee",
}
_FURTHER_COLORS = ("#332288", "#44aa99", "#999933", "#882255", "#ee7733", "#0077bb", "#777777")

SETS = {
    "in": "MNIST test",
    "usps": "USPS",
    "emnist-balanced": "EMNIST, 47 classes",
    "emnist-letters": "EMNIST letters",
    "cifar10": "CIFAR",
    "boundary": "boundary",
    "smooth boundary": "smooth boundary",
}
SHORT_SETS = SETS | {"emnist-balanced": "EMNIST"}


def method_colors(methods: Iterable[str]) -> dict[str, str]:
    """A color for each method; one without a color of its own gets the next that is free.

    Examples
    --------
    >>> method_colors(["NLM", "new", "newer"])
    {'NLM': '#4477aa', 'new': '#332288', 'newer': '#44aa99'}
    """
    further = cycle(_FURTHER_COLORS)
    return {method: _METHOD_COLORS.get(method) or next(further) for method in methods}


def baselines(experiment: str) -> tuple[str, ...]:
    """The methods of an experiment other than BaCOUn, in the order of its file."""
    return tuple(m for m in read_experiment(experiment).methods if not m.startswith("BaCOUn"))

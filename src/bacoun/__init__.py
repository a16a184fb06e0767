"""bacoun: Bayesian classifiers that know what they have not seen."""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bacoun.classifier import BaCOUnClassifier as BaCOUnClassifier
    from bacoun.export.display import UncertaintyDisplay as UncertaintyDisplay
    from bacoun.many.scorer import Scorer as Scorer
    from bacoun.uncertainty import Uncertainty as Uncertainty
    from bacoun.uncertainty import decompose as decompose

__version__ = "0.2.0"


# torch's threads wait for each other by spinning, unless this is set before torch is imported. On a
# machine with other jobs a spinning thread keeps the one that it waits for from running.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Imported when first asked for: torch takes seconds, and `bacoun --help` does not need it.
_HOMES = {
    "BaCOUnClassifier": "bacoun.classifier",
    "Scorer": "bacoun.many.scorer",
    "UncertaintyDisplay": "bacoun.export.display",
    "Uncertainty": "bacoun.uncertainty",
    "decompose": "bacoun.uncertainty",
}
__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bacoun' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

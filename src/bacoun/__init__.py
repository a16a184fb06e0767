"""bacoun: Bayesian classifiers that know what they have not seen."""

from bacoun.classifier import BaCOUnClassifier
from bacoun.report.display import UncertaintyDisplay
from bacoun.uncertainty import Uncertainty, decompose

__version__ = "0.1.0"

__all__ = ["BaCOUnClassifier", "Uncertainty", "UncertaintyDisplay", "__version__", "decompose"]

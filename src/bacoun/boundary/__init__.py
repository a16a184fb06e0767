"""Step 1: points (N, D), labels (N,) -> boundary points (n, D)."""

from bacoun.boundary.compact import CompactShell
from bacoun.boundary.flow import Flow
from bacoun.boundary.flow_shell import FlowShell
from bacoun.boundary.mixed import MixedShell
from bacoun.boundary.outliers import FlowOutlierRemover, find_outliers, least_likely
from bacoun.boundary.shell import chi_radius, sample_shell

KINDS = {"flow-shell": FlowShell, "compact-shell": CompactShell, "mixed-shell": MixedShell}

__all__ = [
    "KINDS",
    "CompactShell",
    "Flow",
    "FlowOutlierRemover",
    "FlowShell",
    "MixedShell",
    "chi_radius",
    "find_outliers",
    "least_likely",
    "sample_shell",
]

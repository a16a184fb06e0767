"""Step 1: points (N, D), labels (N,) -> boundary points (n, D)."""

from bacoun.boundary.compact import CompactShell
from bacoun.boundary.directions import DirectionShell
from bacoun.boundary.flow import Flow
from bacoun.boundary.flow_shell import FlowShell
from bacoun.boundary.mixed import MixedShell
from bacoun.boundary.outliers import FlowOutlierRemover, find_outliers, least_likely
from bacoun.boundary.shell import chi_radius, sample_shell

# For more than 128 numbers in a table, "auto" is "direction-shell".
KINDS = {
    "auto": CompactShell,
    "compact-shell": CompactShell,
    "direction-shell": DirectionShell,
    "flow-shell": FlowShell,
    "mixed-shell": MixedShell,
}

__all__ = [
    "KINDS",
    "CompactShell",
    "DirectionShell",
    "Flow",
    "FlowOutlierRemover",
    "FlowShell",
    "MixedShell",
    "chi_radius",
    "find_outliers",
    "least_likely",
    "sample_shell",
]

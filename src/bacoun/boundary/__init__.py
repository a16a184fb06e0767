"""Step 1: points (N, D), labels (N,) -> points on the edge of the data (n, D)."""

from bacoun.boundary.flow import Flow
from bacoun.boundary.flow_shell import FlowShell
from bacoun.boundary.shell import chi_radius, sample_shell

KINDS = {"flow-shell": FlowShell}

__all__ = ["KINDS", "Flow", "FlowShell", "chi_radius", "sample_shell"]

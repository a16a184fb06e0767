"""Checks at the door: what is different about a new table, compared with the training rows."""

from bacoun.tabular.checks.findings import Finding, summary
from bacoun.tabular.checks.profile import TableProfile
from bacoun.tabular.checks.table import check_table

__all__ = ["Finding", "TableProfile", "check_table", "summary"]

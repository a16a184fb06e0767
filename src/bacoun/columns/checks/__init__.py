"""Checks at the door: what is different about a new table, compared with the training rows."""

from bacoun.columns.checks.findings import Finding, summary
from bacoun.columns.checks.profile import TableProfile
from bacoun.columns.checks.table import check_table

__all__ = ["Finding", "TableProfile", "check_table", "summary"]

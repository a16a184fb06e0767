"""Checks at the door: what is different about a new table, compared with the training rows."""

from bacoun.columns.checks.findings import Finding, summary
from bacoun.columns.checks.table import check_table
from bacoun.columns.profile import TableProfile

__all__ = ["Finding", "TableProfile", "check_table", "summary"]

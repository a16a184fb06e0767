"""Tables: CSV or Parquet files -> features -> predictions, uncertainties and decisions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bacoun.tabular.reading import Survey, read_table, stream_table, survey_table
from bacoun.tabular.writing import write_table

if TYPE_CHECKING:
    from bacoun.tabular.encoding import Column, TableEncoder, find_ids
    from bacoun.tabular.model import TableModel

__all__ = [
    "Column",
    "Survey",
    "TableEncoder",
    "TableModel",
    "find_ids",
    "read_table",
    "stream_table",
    "survey_table",
    "write_table",
]


def __getattr__(name: str) -> Any:
    """Import on first use: a file that is not a table is refused without waiting for torch."""
    if name not in ("Column", "TableEncoder", "TableModel", "find_ids"):
        raise AttributeError(f"module 'bacoun.tabular' has no attribute {name!r}")
    module = "model" if name == "TableModel" else "encoding"
    return getattr(import_module(f"bacoun.tabular.{module}"), name)

"""Tables: CSV or Parquet files -> features -> predictions, uncertainties and decisions."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bacoun.tabular.reading import Survey, read_table, stream_table, survey_table
from bacoun.tabular.writing import write_table

if TYPE_CHECKING:
    from bacoun.tabular.encoding import Column, TableEncoder, find_ids
    from bacoun.tabular.model import TableModel
    from bacoun.tabular.out_of_core import fit_files
    from bacoun.tabular.scorer import Scorer

__all__ = [
    "Column",
    "Scorer",
    "Survey",
    "TableEncoder",
    "TableModel",
    "find_ids",
    "fit_files",
    "read_table",
    "stream_table",
    "survey_table",
    "write_table",
]


_HOMES = {
    "Column": "encoding",
    "Scorer": "scorer",
    "TableEncoder": "encoding",
    "TableModel": "model",
    "find_ids": "encoding",
    "fit_files": "out_of_core",
}


def __getattr__(name: str) -> Any:
    """Import on first use: a file that is not a table is refused without waiting for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'bacoun.tabular' has no attribute {name!r}")
    return getattr(import_module(f"bacoun.tabular.{_HOMES[name]}"), name)

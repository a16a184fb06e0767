"""Tables: a CSV or Parquet file -> numbers -> a model that scores such files, and says when not to.

Columns of any kind enter; a table with predictions, uncertainties and decisions leaves.
"""

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

# Imported when first asked for: a file that is no table is refused before torch is there.
_HOMES = {
    "Column": "bacoun.tabular.encoding",
    "TableEncoder": "bacoun.tabular.encoding",
    "TableModel": "bacoun.tabular.model",
    "find_ids": "bacoun.tabular.encoding",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'bacoun.tabular' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)

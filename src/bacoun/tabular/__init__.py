"""Tables: a DataFrame and its target -> a model that scores, explains and defers."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bacoun.columns.reading import Survey, read_table, stream_table, survey_table
from bacoun.columns.writing import write_table

if TYPE_CHECKING:
    from bacoun.columns.column import Column
    from bacoun.many.out_of_core import fit_files
    from bacoun.many.scorer import Scorer
    from bacoun.tabular.encoding import TableEncoder, find_ids
    from bacoun.tabular.model import TableModel

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
    "Column": "columns.column",
    "Scorer": "many.scorer",
    "TableEncoder": "tabular.encoding",
    "TableModel": "tabular.model",
    "find_ids": "tabular.encoding",
    "fit_files": "many.out_of_core",
}


def __getattr__(name: str) -> Any:
    """Import on first use: a file that is not a table is refused without waiting for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'bacoun.tabular' has no attribute {name!r}")
    return getattr(import_module(f"bacoun.{_HOMES[name]}"), name)

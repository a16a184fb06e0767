"""Tables: a CSV or Parquet file -> numbers -> a model that scores such files, and says when not to.

Columns of any kind enter; a table with predictions, uncertainties and decisions leaves.
"""

from bacoun.tabular.encoding import Column, TableEncoder, find_ids
from bacoun.tabular.model import TableModel
from bacoun.tabular.reading import Survey, read_table, stream_table, survey_table
from bacoun.tabular.writing import write_table

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

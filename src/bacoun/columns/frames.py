"""Tables: to pandas from other libraries and back, and what every table must be like."""

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

import narwhals
import numpy as np
import pandas as pd

from bacoun.columns.reading import listed

_SEVERAL = (list, tuple, dict, set, frozenset, np.ndarray, pd.Series)


def as_pandas(table: Any) -> pd.DataFrame:
    """A table of pandas, polars, Arrow or what else narwhals understands, as a DataFrame."""
    if isinstance(table, pd.DataFrame):
        return table
    try:
        frame: pd.DataFrame = narwhals.from_native(table, eager_only=True).to_pandas()
    except TypeError:
        raise TypeError(
            f"a table must be a DataFrame of pandas or polars, or an Arrow table; got "
            f"{type(table).__name__}. Convert it, for example by pandas.DataFrame(...)."
        ) from None
    return frame


def like(table: Any, result: pd.DataFrame) -> Any:
    """The result as a table of the library that `table` is from."""
    if isinstance(table, pd.DataFrame):
        return result
    columns = {str(name): result[name].tolist() for name in result}
    library = narwhals.from_native(table, eager_only=True).implementation
    return narwhals.from_dict(columns, backend=library).to_native()


def table_checksum(frame: pd.DataFrame) -> str:
    """Checksum of a table's column names and content."""
    checksum = hashlib.sha256("\0".join(map(str, frame.columns)).encode())
    checksum.update(pd.util.hash_pandas_object(frame, index=False).to_numpy().tobytes())
    return checksum.hexdigest()


def check_names(frame: pd.DataFrame) -> None:
    """Refuse column names that are not text, or not unique."""
    names = frame.columns
    if not all(isinstance(name, str) for name in names):
        raise ValueError(
            "column names must be text; got others. Rename them, for instance with "
            "frame.rename(columns=str)."
        )
    if not names.is_unique:
        raise ValueError(
            "column names must be unique; these occur more than once: "
            f"{listed(names[names.duplicated()].unique())}. Rename them."
        )


def check_cells(frame: pd.DataFrame) -> None:
    """Refuse cells that hold several values."""
    for name, column in frame.items():
        may_hold_any = column.dtype.kind == "O" and not isinstance(column.dtype, pd.StringDtype)
        if may_hold_any and any(issubclass(kind, _SEVERAL) for kind in set(map(type, column))):
            row = next(k for k, cell in enumerate(column) if isinstance(cell, _SEVERAL))
            raise ValueError(
                f"cells must be text, numbers, dates or true and false; column '{name}' has a "
                f"{type(column.iloc[row]).__name__} in row {row + 1}. Make a column of each part."
            )


def check_values(columns: Mapping[str, np.ndarray], complete: Iterable[str] = ()) -> None:
    """Refuse infinite numbers in any column, and missing values in those named in `complete`."""
    numeric = [name for name, values in columns.items() if values.dtype == np.float64]
    if names := [name for name in numeric if np.isinf(columns[name]).any()]:
        raise ValueError(
            f"columns must hold finite numbers; {listed(names)} {_has(names)} infinite values. "
            "Clip them, or leave such rows out."
        )
    if names := [name for name in complete if pd.isna(columns[name]).any()]:
        n_rows = int(np.any([pd.isna(columns[name]) for name in names], axis=0).sum())
        raise ValueError(
            f"columns must not have missing values; {listed(names)} {_has(names)} some, in "
            f"{n_rows} {'row' if n_rows == 1 else 'rows'}. Fill them, or fit with impute=True."
        )


def _has(names: list[str]) -> str:
    return "has" if len(names) == 1 else "have"

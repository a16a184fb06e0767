"""Tables of other libraries: to pandas, and back to what came in."""

from __future__ import annotations

import hashlib
from typing import Any

import narwhals
import pandas as pd


def as_pandas(table: Any) -> pd.DataFrame:
    """A table of pandas, polars, Arrow or what else narwhals understands, as a DataFrame."""
    if isinstance(table, pd.DataFrame):
        return table
    try:
        found: pd.DataFrame = narwhals.from_native(table, eager_only=True).to_pandas()
    except TypeError:
        raise TypeError(
            f"a table must be a DataFrame of pandas or polars, or an Arrow table; got "
            f"{type(table).__name__}. Convert it, for example by pandas.DataFrame(...)."
        ) from None
    return found


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

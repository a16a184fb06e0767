"""Mixed benchmark tables as DataFrames: categories stay text, gaps stay gaps.

The numeric tables of `reproduction.datasets.tables` are here too. Like those, each table is checked
against its published size. Files that no mirror offers must lie beside those of the source
"tables".
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from reproduction.datasets.sources import fetch
from reproduction.datasets.tables import _SHAPES as _NUMERIC_SHAPES
from reproduction.datasets.tables import load_table
from reproduction.datasets.unpack import PathLike

Frame = tuple[pd.DataFrame, str]
"""A table with its target, and the name of the target."""

_TEST_SHARE = 0.3
_KEEL_GAPS = ("?", "<null>")  # and no others: to pandas, "None" and "NA" would be gaps as well

# name: rows, columns without the target, classes, as published
_SHAPES = {
    "adult": (45222, 14, 2),
    "credit_card": (30000, 23, 2),
    "employment": (68785, 16, 2),
    "fars": (100968, 29, 8),
    "german": (1000, 20, 2),
    "mushroom": (5644, 22, 2),
    "penguins": (344, 7, 3),
    "splice": (3190, 60, 3),
} | {name: shape for name, shape in _NUMERIC_SHAPES.items() if name != "digits-table"}


def frame_names() -> list[str]:
    """The tables there are, in alphabetical order."""
    return sorted(_SHAPES)


def needs_file(name: str) -> bool:
    """Whether a table comes from a file, and not with scikit-learn or this package."""
    return name in _FILES


def load_frame(name: str, path: PathLike | None = None) -> Frame:
    """A benchmark table with numbers, categories and gaps as published.

    Parameters
    ----------
    name : str
        One of `frame_names()`.
    path : path, optional
        Folder to look in, as in `reproduction.datasets.sources.locate`; for tables that are files.

    Returns
    -------
    frame : DataFrame of N rows
        Columns of numbers or text, and the target.
    target : str
        Name of the column with the labels, which are whole numbers or words.
    """
    if name not in _SHAPES:
        raise ValueError(f"name must be one of {', '.join(frame_names())}; got {name!r}.")
    if name not in _FILES:
        X, y, names = load_table(name)
        frame = pd.DataFrame(X, columns=names).assign(label=y)
        return _checked(name, "the package", (frame, "label"))
    source, file, read = _FILES[name]
    where = fetch(source, path) / file
    if not where.is_file():
        raise FileNotFoundError(
            f"{name} needs the file {file} beside the others in '{where.parent}'; it is not there."
        )
    return _checked(name, f"'{where}'", read(where))


def split_frame(
    frame: pd.DataFrame, target: str, *, n_train: int, n_test: int, random_state: int
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A split, stratified by class: 70 % of the rows for training, 30 % for testing.

    Parameters
    ----------
    frame, target
        As `load_frame` returns them.
    n_train, n_test : int
        Rows of each part, at most; drawn at random.
    random_state : int
        Seed of the split and of that draw.

    Returns
    -------
    train, test : DataFrame
        Both with the target, and with their rows numbered from 0.
    """
    parts = train_test_split(
        frame, test_size=_TEST_SHARE, stratify=frame[target], random_state=random_state
    )
    rng = np.random.default_rng(random_state)
    train, test = (
        part.iloc[rng.permutation(len(part))[:most]].reset_index(drop=True)
        for part, most in zip(parts, (n_train, n_test), strict=True)
    )
    return train, test


def read_keel(path: Path) -> Frame:
    """A KEEL file without its header: columns "x1" to "xD", then "label"."""
    content = _read_keel_values(path, skip=0)
    names = [f"x{number}" for number in range(1, content.shape[1])]
    return content.set_axis([*names, "label"], axis=1), "label"


def read_keel_with_header(path: Path) -> Frame:
    """A KEEL file whose header names the columns, the target last."""
    with gzip.open(path, "rt") as file:
        header = [line for line in iter(file.readline, "") if line.startswith("@")]
    names = [found[1] for line in header if (found := re.match(r"@attribute\s+(\S+)", line))]
    content = _read_keel_values(path, skip=len(header))
    return content.set_axis(names, axis=1), names[-1]


def read_csv(path: Path) -> Frame:
    """A CSV file with a header, the target last."""
    content = pd.read_csv(path)
    return content, str(content.columns[-1])


def read_penguins(path: Path) -> Frame:
    """Penguins of three species, some of them without a measurement or sex."""
    return pd.read_csv(path), "species"


def read_adult(path: Path) -> Frame:
    """Adults in the US census, whose columns of categories were one-hot encoded."""
    kinds = ("workclass", "education", "marital-status", "occupation", "relationship", "race")
    return from_one_hot(pd.read_csv(path), (*kinds, "sex", "native-country", "salary")), "salary"


def read_credit_card(path: Path) -> Frame:
    """Clients of a bank; education and marriage were one-hot encoded, and ID only numbers them."""
    content = from_one_hot(pd.read_csv(path), ("EDUCATION", "MARRIAGE"))
    return content.drop(columns="ID"), "default-payment-next-month"


def read_employment(path: Path) -> Frame:
    """Adults in Massachusetts in 2015, without another model's predictions for them."""
    content = pd.read_parquet(path)
    content = content.drop(columns=["id", "year", "prediction", "predicted_probability"])
    coded = content.select_dtypes("category").columns
    return content.astype(dict.fromkeys(coded, "str")), "employed"


def from_one_hot(frame: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Columns "NAME_VALUE" of zeros and ones become one text column NAME, for each of `names`.

    Examples
    --------
    >>> from_one_hot(pd.DataFrame({"age": [3, 5], "sex_F": [1, 0], "sex_M": [0, 1]}), ["sex"])
       age sex
    0    3   F
    1    5   M
    """
    for name in names:
        encoded = [each for each in map(str, frame.columns) if each.startswith(f"{name}_")]
        cells = frame[encoded].to_numpy()
        if not (cells.sum(axis=1) == 1).all():
            raise ValueError(f"exactly one of {', '.join(encoded)} must be 1 in each row.")
        values = [encoded[place].removeprefix(f"{name}_") for place in cells.argmax(axis=1)]
        frame = frame.drop(columns=encoded).assign(**{name: values})
    return frame


_Reader = Callable[[Path], Frame]
_KEEL = (
    *("contraceptive", "german", "letter", "mushroom", "penbased", "satimage", "segment"),
    *("splice", "texture", "vehicle"),
)
_FILES: dict[str, tuple[str, str, _Reader]] = {
    **{name: ("tables", f"{name}.dat.gz", read_keel) for name in _KEEL},
    **{name: ("medical", f"{name}.csv", read_csv) for name in ("haberman", "pima", "saheart")},
    "adult": ("tables", "adult.csv.gz", read_adult),
    "credit_card": ("tables", "credit_card.csv.gz", read_credit_card),
    "employment": ("tables", "employment_MA_reference.parquet", read_employment),
    "fars": ("tables", "fars.dat.gz", read_keel_with_header),
    "penguins": ("tables", "penguins.csv.gz", read_penguins),
}


def _read_keel_values(path: Path, skip: int) -> pd.DataFrame:
    """Numbers where a column holds nothing else, and text without the blanks around it."""
    content = pd.read_csv(
        path,
        header=None,
        skiprows=skip,
        skipinitialspace=True,
        keep_default_na=False,
        na_values=list(_KEEL_GAPS),
    )
    for name in content.columns:
        if not pd.api.types.is_numeric_dtype(content[name]):
            content[name] = content[name].str.strip()
    return content


def _checked(name: str, place: str, table: Frame) -> Frame:
    frame, target = table
    found = (len(frame), frame.shape[1] - 1, frame[target].nunique())
    if found != _SHAPES[name]:
        shape = "{} rows, {} columns and {} classes"
        raise ValueError(
            f"{name} must have {shape.format(*_SHAPES[name])}; {place} has {shape.format(*found)}."
        )
    return frame, target

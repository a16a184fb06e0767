"""Made tables: whatever a small file holds, it is refused in one line, or all verbs work on it.

Tables of mixed columns, with odd names and odd cells, go the whole way: written as CSV or Parquet,
read, fitted with a classifier that is as small as possible, scored, explained, checked and stored.
By default these are a few dozen tables, always the same ones. The environment variable
BACOUN_MADE_TABLES asks for as many new ones as it says:

    BACOUN_MADE_TABLES=10000 pytest tests/tabular/test_made_tables.py    or: make made-tables
"""

import csv
import io
import os
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pyarrow
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from bacoun import BaCOUnClassifier
from bacoun.boundary import FlowShell
from bacoun.columns.cells import is_missing
from bacoun.columns.checks import check_table
from bacoun.columns.reading import MISSING
from bacoun.features import LearnedFeatures
from bacoun.posterior import Laplace
from bacoun.tabular import TableModel, read_table, stream_table

N_TABLES = os.environ.get("BACOUN_MADE_TABLES")
AS_MANY = settings(
    max_examples=int(N_TABLES or 20),
    derandomize=N_TABLES is None,  # so that a chance find does not fail an unrelated change
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    print_blob=True,
)

# --- tables ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Made:
    """A table as lists of cells, None where one is missing, and the way it is written."""

    columns: dict[str, list]  # the target last
    delimiter: str = ","
    quoting: int = csv.QUOTE_MINIMAL
    bom: bool = False
    in_parquet: bool = False

    def write(self, folder):
        """Write the table to a file in `folder`, and return its path."""
        if self.in_parquet:
            path = Path(folder) / "table.parquet"
            parquet.write_table(pyarrow.table(self.columns), path)
            return path
        path, text = Path(folder) / "table.csv", io.StringIO()
        rows = csv.writer(text, "unix", delimiter=self.delimiter, quoting=self.quoting)
        rows.writerow(self.columns)
        rows.writerows(zip(*self.columns.values(), strict=True))
        path.write_bytes(text.getvalue().encode("utf-8-sig" if self.bom else "utf-8"))
        return path


ODD_NAMES = (
    *("", " ", "a,b", "a;b", "größe", "p_a", "prediction", "decision", "because", "line\nbreak"),
    *('"quoted"', "id", "Unnamed: 0", "x missing", "x month", "x", "index", "0", "😀", "[b]", "\t"),
)
ODD_TEXTS = (
    *("", " ", "NA", "None", "nan", "null", "-", "a", "A", "a ", "größe", "日本", "é", "e\u0301"),
    *('say "hi"', "it's", "two\nlines", "carriage\rreturn", "a,b", "a;b", "tab\there", "😀"),
    *("1,5", "1e5", "0x10", "1_000", "inf", "-inf", "true", "False", "yes", "=1+1", "<b>"),
    "\u200b",
)
DATE_FORMATS = (
    date.isoformat,
    lambda day: f"{day.isoformat()}T12:30:00",
    lambda day: f"{day.isoformat()} 06:00+02:00",
    lambda day: f"{day.day:02}.{day.month:02}.{day.year:04}",
    lambda day: f"{day.month}/{day.day}/{day.year:04}",
    lambda day: f"{day.year:04}/{day.month}/{day.day}",
    lambda day: datetime(day.year, day.month, day.day),
    lambda day: day,
)
# Most of them with a finite variance: others are refused.
FINITE = st.one_of(st.floats(-1e9, 1e9), st.floats(-1e150, 1e150), st.floats(-1e300, 1e300))
TEXT = st.sampled_from(ODD_TEXTS) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=6
)
DAYS = st.dates(date(1900, 1, 1), date(2100, 1, 1)) | st.dates(date(1000, 1, 1))


def several(cells):
    """A few cells of one kind, to draw a column from."""
    return st.lists(cells, min_size=1, max_size=12)


PALETTES = st.one_of(
    several(FINITE),
    several(st.floats(-10, 10)),
    several(st.integers(-5, 5)),
    several(st.integers(-(2**53), 2**53)),
    several(st.booleans()),
    several(st.sampled_from(["true", "false", "TRUE"])),
    several(TEXT),
    st.sampled_from(DATE_FORMATS).flatmap(lambda as_cell: several(DAYS.map(as_cell))),
)
WORDS = TEXT.filter(lambda text: text not in MISSING)
LABELS = st.one_of(
    st.lists(st.integers(-3, 3), min_size=2, max_size=3, unique=True),
    st.lists(WORDS, min_size=2, max_size=3, unique=True),
    st.just([True, False]),
    st.just([0.0, 1.0, 2.0]),
)


@st.composite
def columns(draw, rng, n_rows):
    """Cells of a column: a few that repeat, a continuous number or an id; often with gaps."""
    kind = draw(st.sampled_from(["repeated"] * 4 + ["continuous"] * 4 + ["number id", "text id"]))
    if kind == "repeated":
        palette = draw(PALETTES)
        cells = [palette[place] for place in rng.integers(len(palette), size=n_rows)]
    elif kind == "continuous":
        scale = 10.0 ** draw(st.integers(-3, 3) | st.integers(-300, 140))
        center = draw(st.sampled_from([0.0, 0.0, 1.0, -1e3, 1e12]))
        cells = (scale * (center + rng.normal(size=n_rows))).tolist()
    else:
        cells = rng.permutation(n_rows).tolist()
        cells = [f"person {number}" for number in cells] if kind == "text id" else cells
    gaps = rng.random(n_rows) < draw(st.sampled_from([0.0, 0.0, 0.0, 0.05, 0.3, 0.9, 1.0]))
    return [None if gap else cell for cell, gap in zip(cells, gaps, strict=True)]


@st.composite
def tables(draw):
    """Tables of 20 to 60 rows, 1 to 6 columns and a target."""
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    n_rows, n_columns = draw(st.integers(20, 60)), draw(st.integers(1, 6))
    names = draw(
        st.lists(
            st.sampled_from(ODD_NAMES), min_size=n_columns + 1, max_size=n_columns + 1, unique=True
        )
    )
    cells = [draw(columns(rng, n_rows)) for _ in range(n_columns)]
    labels = draw(LABELS)
    target = [labels[place % len(labels)] for place in rng.permutation(n_rows)]
    return Made(
        columns=dict(zip(names, [*cells, target], strict=True)),
        delimiter=draw(st.sampled_from(",;\t")),
        # Without quotes, a comma in a name looks like the delimiter, and the file is refused.
        quoting=draw(st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_ALL, csv.QUOTE_MINIMAL])),
        bom=draw(st.booleans()),
        in_parquet=draw(st.integers(0, 3)) == 0,
    )


# --- laws -----------------------------------------------------------------------------------------


def smallest():
    """A classifier that fits in a twentieth of a second, and knows next to nothing."""
    return BaCOUnClassifier(
        boundary=FlowShell(epochs=1, blocks=1, hidden=4),
        features=LearnedFeatures(hidden=(4,), epochs=1),
        posterior=Laplace(n_draws=5),
        n_boundary=20,
        random_state=0,
    )


def read_and_fit(path, made):
    """The table and its model; both None if it is refused, in one line that says what must be."""
    try:
        frame = read_table(path)
        return frame, TableModel.fit(frame, frame.columns[-1], classifier=smallest())
    except (ValueError, TypeError) as error:
        assert_one_line(error, made)
        return None, None


def assert_one_line(error, made):
    """A message is our own, and has no line break but in the names that it quotes."""
    message = str(error)
    assert " must " in message, message
    for name in made.columns:
        message = message.replace(f"'{name}'", "'name'")
    assert "\n" not in message, message


def all_missing(frame):
    """Three rows like those of the table, without any value."""
    return pd.DataFrame(None, index=range(3), columns=frame.columns, dtype=object)


def has_empty_rows(frame, model):
    """Whether a row has no value in any column that the model uses."""
    used = [is_missing(frame[column.name]) for column in model.encoder.columns_]
    return bool(np.all(used, axis=0).any())


def assert_explains(model, frame):
    """Scores with reasons are those without, and only a deferred row has a reason."""
    scored = model.score(frame, because=True)
    pd.testing.assert_frame_equal(scored.drop(columns="because"), model.score(frame))
    told = list(map(str, model.explain(frame)))
    assert told == scored["because"].tolist()
    assert [words != "" for words in told] == (scored["decision"] == "defer").tolist()
    return scored


def assert_checks(model, frame, other):
    """Checks at the door never fail, whatever the table."""
    inputs = frame.drop(columns=model.target)
    swapped = inputs.iloc[:, ::-1].set_axis(inputs.columns, axis=1)
    parts = frame, inputs.iloc[:, 1:], inputs.head(1), inputs.head(0)
    for table in (*parts, swapped, inputs.astype(str), all_missing(inputs), other):
        check_table(model.profile, table, model.target)


@AS_MANY
@given(tables(), tables())
def test_a_table_is_refused_in_one_line_or_all_verbs_work(made, other):
    with TemporaryDirectory() as folder:
        path = made.write(folder)
        frame, model = read_and_fit(path, made)
        if model is None:
            return
        inputs = frame.drop(columns=model.target)
        scored = assert_explains(model, inputs)
        streamed = pd.concat(stream_table(path, rows=16))
        pd.testing.assert_frame_equal(model.score(streamed), scored.drop(columns="because"))
        without_values = assert_explains(model, all_missing(inputs))
        if not has_empty_rows(frame, model):
            assert set(without_values["decision"]) == {"defer"}
        assert_checks(model, frame, pd.DataFrame(other.columns))
        model.save(Path(folder) / "model")
        loaded = TableModel.load(Path(folder) / "model")
        again = loaded.score(inputs, because=True)
        pd.testing.assert_frame_equal(again, scored, check_exact=True)

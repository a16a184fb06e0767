"""Tables are read whole or in chunks; bad files are refused in one sentence."""

import builtins
import gzip

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bacoun.tabular import read_table, stream_table, survey_table, write_table

FRAME = pd.DataFrame(
    {
        "age": [40.5, 52.0, 61.25],
        "count": [3, 1, 2],
        "smoker": [True, False, True],
        "ward": ["A", "B, east", 'the "new" one'],
    }
)
TEXT = FRAME.to_csv(index=False)


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    {
        "plain": ("a.csv", TEXT),
        "upper case name": ("A.CSV", TEXT),
        "BOM": ("a.csv", TEXT.encode("utf-8-sig")),
        "UTF-16": ("a.csv", TEXT.encode("utf-16")),
        "UTF-16 big end first": ("a.csv", b"\xfe\xff" + TEXT.encode("utf-16-be")),
        "Windows lines": ("a.csv", TEXT.replace("\n", "\r\n")),
        "old Mac lines": ("a.csv", TEXT.replace("\n", "\r")),
        "no last line end": ("a.csv", TEXT.rstrip("\n")),
        "blank lines": ("a.csv", "\n" + TEXT.replace("\n", "\n  \n")),
        "semicolons": ("a.csv", FRAME.to_csv(index=False, sep=";")),
        "tabs": ("a.tsv", FRAME.to_csv(index=False, sep="\t")),
        "tabs in a csv": ("a.csv", FRAME.to_csv(index=False, sep="\t")),
        "packed": ("a.csv.gz", gzip.compress(TEXT.encode())),
        "all quoted": ("a.csv", FRAME.to_csv(index=False, quoting=1)),
    }.values(),
)
def test_a_text_table_is_read_with_its_types(tmp_path, name, content):
    path = put(tmp_path, name, content)
    frame = read_table(path)
    pd.testing.assert_frame_equal(frame, FRAME)
    assert survey_table(path).n_rows == 3
    chunks = list(stream_table(path, rows=2))
    assert [len(chunk) for chunk in chunks] == [2, 1]
    assert pd.concat(chunks)["ward"].tolist() == FRAME["ward"].tolist()


def test_parquet_is_read_with_its_types(tmp_path):
    FRAME.to_parquet(tmp_path / "a.parquet")
    pd.testing.assert_frame_equal(read_table(tmp_path / "a.parquet"), FRAME)
    chunks = list(stream_table(tmp_path / "a.parquet", rows=2))
    assert [len(chunk) for chunk in chunks] == [2, 1]
    assert len({str(chunk.dtypes.to_dict()) for chunk in chunks}) == 1
    assert pd.concat(chunks).index.tolist() == [0, 1, 2]


def test_cells_of_a_stream_are_the_text_in_the_file(tmp_path):
    path = put(tmp_path, "a.csv", "zip,x\n007,1.50\nNA,\n")
    (chunk,) = stream_table(path)
    assert chunk.to_numpy().tolist() == [["007", "1.50"], ["NA", ""]]


def test_missing_values_are_those_of_pandas(tmp_path):
    path = put(tmp_path, "a.csv", "a,b\n1,x\nNA,\n,None\n")
    assert read_table(path).isna().to_numpy().tolist() == [[0, 0], [1, 1], [1, 1]]


def test_an_unnamed_column_gets_a_name(tmp_path):
    path = put(tmp_path, "a.csv", ",b,\n0,1,2\n")
    assert (
        list(read_table(path))
        == list(next(stream_table(path)))
        == [
            "Unnamed: 0",
            "b",
            "Unnamed: 2",
        ]
    )


def test_ten_thousand_columns_are_read_in_small_chunks(tmp_path):
    header = ",".join(f"c{i}" for i in range(10_000))
    row = ",".join(["1.5"] * 10_000)
    path = put(tmp_path, "wide.csv", f"{header}\n{row}\n{row}\n{row}\n")
    assert read_table(path).shape == (3, 10_000)
    assert survey_table(path).chunk_size == 200
    assert sum(len(chunk) for chunk in stream_table(path, rows=2)) == 3


REFUSED = {
    "empty": ("a.csv", "", "it is empty"),
    "blank": ("a.csv", "\n \n\n", "at least one column"),
    "only a BOM": ("a.csv", b"\xef\xbb\xbf", "at least one column"),
    "header only": ("a.csv", "a,b\n", "at least one row"),
    "long row": ("a.csv", "a,b\n1,2\n1,2,3\n", "line 3 has 3"),
    "short row": ("a.csv", "a,b\n1,2\n\n1\n", "line 4 has 1"),
    "all rows long": ("a.csv", "a,b\n1,2,3\n4,5,6\n", "line 2 has 3"),
    "row with a line break inside": ("a.csv", 'a,b\n"1\n2",2\n3\n', "line 4 has 1"),
    "names twice": ("a.csv", "a,b,a\n1,2,3\n", "'a' occurs more than once"),
    "latin-1": ("a.csv", "a,b\n1,2\n3,é\n".encode("latin-1"), "line 3 has the byte 0xe9"),
    "cut within a letter": ("a.csv", "a,b\n1,é".encode()[:-1], "line 2 has the byte 0xc3"),
    "NUL": ("a.csv", "a,b\n1,2\n3,\0\n", "line 3 has a NUL byte"),
    "UTF-16 unmarked": ("a.csv", TEXT.encode("utf-16-le"), "NUL byte"),
    "UTF-16 cut": ("a.csv", TEXT.encode("utf-16")[:-1], "not valid UTF-16"),
    "open quote": ("a.csv", 'a,b\n1,"2\n3,4\n', "at line 3: unexpected end of data"),
    "after a quote": ("a.csv", 'a,b\n1,"2"x\n', "at line 2"),
    "packed under another name": ("a.csv", gzip.compress(b"a\n1\n"), "it is compressed"),
    "not packed": ("a.csv.gz", "a\n1\n", "complete gzip file"),
    "packed and cut": ("a.csv.gz", gzip.compress(TEXT.encode())[:-12], "complete gzip file"),
    "other kind": ("a.xlsx", "PK", "must end in .csv"),
    "no kind": ("table", TEXT, "must end in .csv"),
    "CSV called Parquet": ("a.parquet", TEXT, "complete Parquet file"),
}


@pytest.mark.parametrize(("name", "content", "expected"), REFUSED.values(), ids=REFUSED)
def test_a_bad_file_is_refused_in_one_sentence(tmp_path, name, content, expected):
    path = put(tmp_path, name, content)
    for read in (read_table, survey_table, lambda path: list(stream_table(path))):
        with pytest.raises(ValueError) as info:  # noqa: PT011
            read(path)
        assert expected in str(info.value)
        assert "\n" not in str(info.value)


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no\.csv' does not exist"):
        read_table(tmp_path / "no.csv")
    with pytest.raises(ValueError, match="is a folder"):
        read_table(tmp_path)


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    FRAME.to_parquet(tmp_path / "a.parquet")
    real = builtins.__import__

    def without(name, *arguments, **options):
        if name.startswith("pyarrow"):
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'bacoun\[parquet\]'"):
        read_table(tmp_path / "a.parquet")


@pytest.mark.parametrize("name", ["b.csv", "b.tsv", "b.csv.gz", "b.parquet"])
def test_a_table_written_in_chunks_is_read_back(tmp_path, name):
    with write_table(tmp_path / name) as write:
        write(FRAME[:2])
        write(FRAME[2:])
        assert not (tmp_path / name).exists()
    pd.testing.assert_frame_equal(read_table(tmp_path / name), FRAME)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["b.csv", "b.csv.gz", "b.parquet"])
def test_an_error_while_writing_leaves_no_file(tmp_path, name):
    def fail():
        with write_table(tmp_path / name) as write:
            write(FRAME)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not list(tmp_path.iterdir())


cells = st.text(st.characters(codec="utf-8", exclude_characters="\0\r"), min_size=1).filter(
    lambda text: text.strip() != ""
)


@settings(max_examples=40)
@given(st.lists(st.tuples(cells, cells), min_size=1, max_size=8), st.integers(1, 9))
def test_any_text_survives_a_file(tmp_path_factory, rows, size):
    path = tmp_path_factory.mktemp("text") / "a.csv"
    with write_table(path) as write:
        write(pd.DataFrame(rows, columns=["a", "b"]))
    chunks = pd.concat(stream_table(path, rows=size))
    assert chunks.to_numpy().tolist() == [list(row) for row in rows]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_any_number_survives_a_file_exactly(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("numbers") / "a.csv"
    with write_table(path) as write:
        write(pd.DataFrame({"x": numbers}))
    np.testing.assert_array_equal(read_table(path)["x"].to_numpy(float), numbers)


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_line_break_in_the_first_name(tmp_path, delimiter):
    path = tmp_path / "a.csv"
    path.write_text(f'"height\nin cm"{delimiter}y\n1{delimiter}0\n')
    assert list(read_table(path)) == ["height\nin cm", "y"]

"""Two hundred bad or unusual inputs: each works as expected, or is one line and exit code 2."""

import gzip
import io
import json
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bacoun.cli import main
from bacoun.files.model_folder import FORMAT
from bacoun.tabular import TableModel, read_table

BACOUN = Path(sys.executable).with_name("bacoun")
N = 150
RNG = np.random.default_rng(0)
KIND = RNG.integers(0, 2, N)
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(50 + 20 * KIND, 5).round(3),
        "dose": RNG.integers(0, 30, N) + 3 * KIND,
        "smoker": RNG.random(N) < 0.5,
        "ward": RNG.choice(["A", "B", "C"], N),
        "label": np.where(KIND == 1, "ill", "well"),
    }
)
NEW = TABLE.drop(columns="label")[:6]


def text(frame, **options):
    return frame.to_csv(index=False, **options)


def parquet(frame):
    buffer = io.BytesIO()
    frame.to_parquet(buffer)
    return buffer.getvalue()


def zipped(content):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("table.csv", content)
    return buffer.getvalue()


def every_row(content):
    header, *rows = content.splitlines()
    return "\n".join([header, *(row + "," for row in rows)])


def line(number, change):
    """The text of a table, with one line changed."""

    def changed(content):
        lines = content.splitlines()
        lines[number] = change(lines[number])
        return "\n".join(lines) + "\n"

    return changed


@pytest.fixture(scope="session")
def model(fast, tmp_path_factory):
    path = tmp_path_factory.mktemp("malformed") / "model"
    TableModel.fit(TABLE, "label", classifier=fast()).save(path)
    return path


@pytest.fixture
def run(capsys):
    def run(*words):
        try:
            main([str(word) for word in words])
            code = 0
        except SystemExit as error:
            code = error.code
        return code, *capsys.readouterr()

    return run


def assert_one_line(answer, expected, folder, left=("table",)):
    code, out, err = answer
    assert code == 2, err
    assert out == ""
    assert expected in err
    assert err.startswith("bacoun: ")
    assert len(err.splitlines()) == 1
    assert len(err) < 600
    assert "Traceback" not in err
    assert {path.name.split(".")[0] for path in folder.iterdir()} <= set(left)


def put(folder, name, content):
    path = folder / name
    if isinstance(content, pd.DataFrame):
        content = text(content)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# --- files that are not tables, for both commands ------------------------------------------------

BROKEN = {
    "empty": ("csv", lambda s: "", "it is empty"),
    "empty, packed": ("csv.gz", lambda s: gzip.compress(b""), "at least one column"),
    "empty Parquet": ("parquet", lambda s: "", "it is empty"),
    "line ends only": ("csv", lambda s: "\n\r\n\n", "at least one column"),
    "spaces only": ("csv", lambda s: "   ", "at least one column"),
    "a BOM only": ("csv", lambda s: b"\xef\xbb\xbf", "at least one column"),
    "header only": ("csv", lambda s: s.splitlines()[0], "at least one row"),
    "header and blank lines": ("csv", lambda s: s.splitlines()[0] + "\n\n\n", "at least one row"),
    "header only, tabs": ("tsv", lambda s: "a\tb\n", "at least one row"),
    "long row, first": ("csv", line(1, lambda row: row + ",1"), "line 2 has"),
    "long row, last": ("csv", line(-1, lambda row: row + ",1"), "Correct that line"),
    "much too long row": ("csv", line(3, lambda row: row + "," * 999), "line 4 has"),
    "short row, first": ("csv", line(1, lambda row: "1,2"), "line 2 has 2"),
    "short row, middle": ("csv", line(4, lambda row: "1"), "line 5 has 1"),
    "row cut at the end": ("csv", lambda s: s[: s.rstrip().rindex(",")], "Correct that line"),
    "comma after each row": ("csv", every_row, "line 2 has"),
    "two commas in a header": ("csv", line(0, lambda row: row + ",,"), "line 2 has"),
    "prose": ("csv", lambda s: "Dear all,\nplease find the table, as agreed, below.\n", "line 2"),
    "a page": ("csv", lambda s: "<html>\n<body class='a, b'>\n</body>\n</html>\n", "line 2"),
    "open quote, first": ("csv", line(1, lambda row: '"' + row), "unexpected end of data"),
    "open quote, last": ("csv", line(-1, lambda row: row + ',"'), "quotes"),
    "open quote, header": ("csv", line(0, lambda row: '"' + row), "quotes"),
    "text after a quote": ("csv", line(2, lambda row: '"1"2' + row[2:]), "at line 3"),
    "NUL in a row": ("csv", line(2, lambda row: row[:2] + "\0" + row[2:]), "line 3 has a NUL"),
    "NUL in the header": ("csv", lambda s: "\0" + s, "line 1 has a NUL"),
    "zeros": ("csv", lambda s: b"\0" * 4096, "line 1 has a NUL"),
    "UTF-16, no mark": ("csv", lambda s: s.encode("utf-16-le"), "NUL"),
    "UTF-16, big end, no mark": ("csv", lambda s: s.encode("utf-16-be"), "NUL"),
    "UTF-32, no mark": ("csv", lambda s: s.encode("utf-32-le"), "NUL"),
    "UTF-32": ("csv", lambda s: s.encode("utf-32"), "NUL"),
    "UTF-16, cut": ("csv", lambda s: s.encode("utf-16")[:-1], "must be UTF-8"),
    "latin-1": ("csv", line(2, lambda row: "é" + row), "byte 0xe9"),
    "Windows": ("csv", line(2, lambda row: "€" + row), "byte 0x80"),
    "Japanese": ("csv", line(2, lambda row: "病" + row), "byte 0x95"),
    "Russian": ("csv", line(2, lambda row: "Я" + row), "byte 0xf1"),
    "a stray byte": ("csv", lambda s: s.encode() + b"\x80\n", "byte 0x80"),
    "an overlong letter": ("csv", lambda s: b"\xc0\x80" + s.encode(), "byte 0xc0"),
    "a cut letter": ("csv", lambda s: s.encode() + "é".encode()[:1], "byte 0xc3"),
    "a surrogate": ("csv", lambda s: s.encode() + b"\xed\xa0\x80", "byte 0xed"),
    "a picture": ("csv", lambda s: b"\x89PNG\r\n\x1a\n" + bytes(range(256)), "byte 0x89"),
    "packed, plain name": ("csv", lambda s: gzip.compress(s.encode()), "is compressed"),
    "zip, plain name": ("csv", zipped, "is compressed"),
    "Parquet, plain name": ("csv", lambda s: parquet(TABLE), "is compressed or Parquet"),
    "not packed": ("csv.gz", lambda s: s, "complete gzip file"),
    "packed, cut": ("csv.gz", lambda s: gzip.compress(s.encode())[:-20], "complete gzip file"),
    "packed, cut early": ("csv.gz", lambda s: gzip.compress(s.encode())[:15], "complete gzip file"),
    "packed, one byte off": (
        "csv.gz",
        lambda s: flipped(gzip.compress(s.encode()), -6),
        "complete gzip file",
    ),
    "CSV as Parquet": ("parquet", lambda s: s, "complete Parquet file"),
    "Parquet, cut": ("parquet", lambda s: parquet(TABLE)[:-9], "complete Parquet file"),
    "Parquet, half": ("parquet", lambda s: parquet(TABLE)[:900], "complete Parquet file"),
    "Parquet, no head": ("parquet", lambda s: parquet(TABLE)[900:], "Export it again"),
    "Parquet, marks only": ("parquet", lambda s: b"PAR1PAR1", "complete Parquet file"),
    "Parquet, no rows": ("parquet", lambda s: parquet(TABLE[:0]), "at least one row"),
    "Parquet, no columns": ("parquet", lambda s: parquet(TABLE[[]]), "at least one column"),
    "name twice": ("csv", lambda s: s.replace("dose", "age", 1), "'age' occurs more than once"),
    "two names twice": ("csv", lambda s: "a,b,a,b\n1,2,3,4\n", "'a', 'b' occur more"),
    "name twice, quoted": ("csv", lambda s: s.replace("dose", '"age"', 1), "more than once"),
    "Excel": ("xlsx", zipped, "must end in .csv"),
    "text": ("txt", lambda s: s, "must end in .csv"),
    "JSON": ("json", lambda s: "{}", "must end in .csv"),
    "pickle": ("pkl", lambda s: s, "must end in .csv"),
}
ENCODINGS = {
    "latin-1": "latin-1",
    "Windows": "cp1252",
    "Japanese": "shift-jis",
    "Russian": "koi8-r",
}


def flipped(content, place, bit=1):
    return bytes([*content[:place], content[place] ^ bit, *content[place:][1:]])


@pytest.mark.parametrize("verb", ["fit", "predict"])
@pytest.mark.parametrize("case", BROKEN)
def test_a_file_that_is_not_a_table(run, model, tmp_path, verb, case):
    suffix, spoil, expected = BROKEN[case]
    content = spoil(text(TABLE if verb == "fit" else NEW))
    if case in ENCODINGS:
        content = content.encode(ENCODINGS[case])
    path = put(tmp_path, f"table.{suffix}", content)
    words = {
        "fit": ["fit", path, "--target", "label", "--out", tmp_path / "model", "--quick"],
        "predict": ["predict", model, path, "--out", tmp_path / "scored.csv"],
    }[verb]
    assert_one_line(run(*words), expected, tmp_path)


# --- tables that do not fit the model ------------------------------------------------------------


def cell(column, value):
    frame = NEW.astype({column: object})
    frame.loc[2, column] = value
    return frame


UNFIT = {
    **{f"no {name}": (NEW.drop(columns=name), f"lacks '{name}'") for name in NEW},
    "only others": (pd.DataFrame({"x": [1]}), "lacks 'age', 'dose', 'smoker', 'ward'"),
    "names in capitals": (NEW.rename(columns=str.upper), "lacks 'age'"),
    "a space in a name": (NEW.rename(columns={"age": " age"}), "It has ' age'"),
    "no header": (text(NEW, header=False), "lacks 'age'"),
    **{
        f"age {value}": (cell("age", value), "'age' has infinite values")
        for value in ("inf", "-inf", "Infinity", "1e999")
    },
    **{
        f"dose {value}": (cell("dose", value), f"got '{value}' in row 3")
        for value in ("x", "?", "-", "1_000", "0x10", "1..2", "--1", "12abc", "1 2", "True", "½")
    },
    "dose 1,5": (cell("dose", "1,5"), "got '1,5' in row 3"),
    **{
        f"smoker {value}": (cell("smoker", value), f"true or false as in training; got '{value}'")
        for value in ("maybe", "2", "yes", "-1")
    },
    **{
        f"{name} is there": (NEW.assign(**{name: 1}), f"that would be added: '{name}'")
        for name in ("prediction", "p_ill", "total", "log_density", "decision", "reason")
    },
}


@pytest.mark.parametrize("case", UNFIT)
def test_a_table_that_does_not_fit_the_model(run, model, tmp_path, case):
    content, expected = UNFIT[case]
    path = put(tmp_path, "table.csv", content)
    answer = run("predict", model, path, "--out", tmp_path / "scored.csv")
    assert_one_line(answer, expected, tmp_path)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (NEW.assign(age=pd.Timestamp("2020-01-01")), "'age' holds timestamp"),
        (NEW.assign(age=[[1]] * 6), "'age' holds list"),
        (NEW.assign(age=np.inf), "infinite"),
        (NEW.assign(age="old"), "got 'old' in row 1"),
    ],
)
def test_a_parquet_table_that_does_not_fit_the_model(run, model, tmp_path, frame, expected):
    path = put(tmp_path, "table.parquet", parquet(frame))
    answer = run("predict", model, path, "--out", tmp_path / "scored.parquet")
    assert_one_line(answer, expected, tmp_path)


@pytest.mark.parametrize("name", list(NEW))
@pytest.mark.parametrize("value", ["", "NA", "null"])
def test_a_gap_where_training_had_none_is_unfamiliar(run, model, tmp_path, name, value):
    path = put(tmp_path, "table.csv", cell(name, value))
    code, _, err = run("predict", model, path, "--out", tmp_path / "scored.csv")
    assert code == 0, err
    assert f"'{name}' has gaps in 17 % of the rows; it had none in training" in err
    scored = read_table(tmp_path / "scored.csv")
    assert scored["reason"][2] == "unfamiliar"
    assert scored["because"][2].startswith("missing values = 1 (at most 0 in training); ")


# --- unusual but valid formats -------------------------------------------------------------------

PLAIN = text(NEW)
ODD = {
    "BOM": ("csv", PLAIN.encode("utf-8-sig")),
    "UTF-16": ("csv", PLAIN.encode("utf-16")),
    "Windows lines": ("csv", PLAIN.replace("\n", "\r\n")),
    "Mac lines": ("csv", PLAIN.replace("\n", "\r")),
    "mixed lines": ("csv", PLAIN.replace("\n", "\r\n", 3)),
    "no last line end": ("csv", PLAIN.rstrip()),
    "blank lines": ("csv", PLAIN.replace("\n", "\n\n")),
    "one row": ("csv", text(NEW[:1])),
    "quotes everywhere": ("csv", text(NEW, quoting=1)),
    "semicolons": ("csv", text(NEW, sep=";")),
    "tabs": ("tsv", text(NEW, sep="\t")),
    "packed": ("csv.gz", gzip.compress(PLAIN.encode())),
    "Parquet": ("parquet", parquet(NEW)),
    "Parquet, categories": ("parquet", parquet(NEW.astype({"ward": "category"}))),
    "Parquet, small numbers": ("parquet", parquet(NEW.astype({"dose": "int8"}))),
    "Parquet, an index": ("parquet", parquet(NEW.set_index(np.arange(6)[::-1]))),
    "turned columns": ("csv", NEW[NEW.columns[::-1]]),
    "the target": ("csv", TABLE[:6]),
    "a wrong target": ("csv", NEW.assign(label="dead")),
    "more columns": ("csv", NEW.assign(**{"größe": 1, "weight": 2})),
    "an index": ("csv", NEW.to_csv()),
    "thousands of columns": ("csv", NEW.join(pd.DataFrame(0, NEW.index, map(str, range(2000))))),
    "truths in capitals": ("csv", PLAIN.replace("True", "TRUE").replace("False", "false")),
    "truths as numbers": ("csv", PLAIN.replace("True", "1").replace("False", "0")),
    "spaces before numbers": ("csv", text(NEW.assign(dose=" " + NEW["dose"].astype(str)))),
    "numbers as fractions": ("csv", NEW.astype({"dose": float})),
    "numbers with signs": ("csv", NEW.assign(dose="+" + NEW["dose"].astype(str))),
    "numbers with exponents": ("csv", NEW.assign(age=NEW["age"].map("{:.6e}".format))),
}


@pytest.mark.parametrize("case", ODD)
def test_a_table_in_an_unusual_format_is_read(run, model, tmp_path, case):
    suffix, content = ODD[case]
    path = put(tmp_path, f"table.{suffix}", content)
    out = tmp_path / "scored.csv"
    code, stdout, err = run("predict", model, path, "--out", out)
    assert (code, stdout) == (0, ""), err
    scored = read_table(out)
    expected = TableModel.load(model).score(NEW[: len(scored)])
    np.testing.assert_allclose(scored["epistemic"], expected["epistemic"], atol=1e-5)
    assert scored["decision"].tolist() == expected["decision"].tolist()


@pytest.mark.parametrize("ward", ["Z", "a", " A", "", "ßÅ🙂", '"', "x" * 5000, "A\nB"])
def test_a_category_that_was_not_seen(run, model, tmp_path, ward):
    path = put(tmp_path, "table.csv", NEW.assign(ward=["A", ward, "B", "C", "A", "B"]))
    answer = run("predict", model, path, "--out", tmp_path / "scored.csv")
    assert answer[0] == 0, answer
    scored = read_table(tmp_path / "scored.csv")
    assert scored["ward"].fillna("")[1] == ward
    assert (scored["decision"][1], scored["reason"][1]) == ("defer", "unfamiliar")


# --- damaged models ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.json", "model.safetensors"])
@pytest.mark.parametrize("share", [0, 0.01, 0.1, 0.25, 0.4, 0.55, 0.7, 0.85, 0.99, 0.9999])
def test_a_model_with_a_byte_flipped(run, model, tmp_path, name, share):
    table = put(tmp_path, "table.csv", NEW)
    shutil.copytree(model, tmp_path / "model")
    content = (model / name).read_bytes()
    (tmp_path / "model" / name).write_bytes(flipped(content, int(share * len(content)), 4))
    answer = run("predict", tmp_path / "model", table, "--out", tmp_path / "scored.csv")
    assert_one_line(answer, "save the model again", tmp_path, ("table", "model"))


WRITTEN = b'"format": %d' % FORMAT

DAMAGED = {
    "JSON cut": ("model.json", lambda c: c[:-3], "damaged"),
    "JSON half": ("model.json", lambda c: c[: len(c) // 2], "damaged"),
    "JSON empty": ("model.json", lambda c: b"", "damaged"),
    "JSON a list": ("model.json", lambda c: b"[]", "damaged"),
    "JSON a number": ("model.json", lambda c: b"1", "damaged"),
    "JSON another": ("model.json", lambda c: b"{%b}" % WRITTEN, "changed after saving"),
    "JSON later": ("model.json", lambda c: c.replace(WRITTEN, b'"format": 9'), "format 9"),
    "JSON earlier": ("model.json", lambda c: c.replace(WRITTEN, b'"format": 1'), "Fit the model"),
    "JSON edited": ("model.json", lambda c: c.replace(b"label", b"kabel"), "changed after"),
    "JSON not text": ("model.json", lambda c: b"\xff\xfe\x00", "damaged"),
    "JSON gone": ("model.json", None, "has no model.json"),
    "tensors cut": ("model.safetensors", lambda c: c[:-3], "changed after saving"),
    "tensors empty": ("model.safetensors", lambda c: b"", "changed after saving"),
    "tensors longer": ("model.safetensors", lambda c: c + b"1", "changed after saving"),
    "tensors gone": ("model.safetensors", None, "has no model.safetensors"),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_a_model_that_is_damaged(run, model, tmp_path, case):
    name, spoil, expected = DAMAGED[case]
    table = put(tmp_path, "table.csv", NEW)
    shutil.copytree(model, tmp_path / "model")
    file = tmp_path / "model" / name
    file.unlink() if spoil is None else file.write_bytes(spoil(file.read_bytes()))
    answer = run("predict", tmp_path / "model", table, "--out", tmp_path / "scored.csv")
    assert_one_line(answer, expected, tmp_path, ("table", "model"))


def test_a_path_that_is_not_a_model(run, model, tmp_path):
    table = put(tmp_path, "table.csv", NEW)
    TableModel.load(model).classifier.save(tmp_path / "model")
    for path, expected in (
        (tmp_path / "model", "a classifier without the table's columns"),
        (tmp_path / "none", "has no model.json"),
        (tmp_path, "has no model.json"),
        (table, "has no model.json"),
    ):
        answer = run("predict", path, table, "--out", tmp_path / "scored.csv")
        assert_one_line(answer, expected, tmp_path, ("table", "model"))


# --- tables that nothing can be learned from -----------------------------------------------------

LABEL = TABLE["label"]
UNLEARNABLE = {
    "no target": (TABLE.drop(columns="label"), "there is no 'label'"),
    "target in capitals": (TABLE.rename(columns={"label": "Label"}), "'Label'"),
    "one row": (TABLE[:1], "at least 2 classes"),
    "two rows": (TABLE.drop_duplicates("label"), "at least 5 rows"),
    "one class": (TABLE[LABEL == "ill"], "'ill' in every row"),
    "no labels": (TABLE.assign(label=None), "150 of 150 have none"),
    "a label missing": (TABLE.assign(label=[*LABEL[:-1], None]), "the first is row 150"),
    "a label says NA": (TABLE.assign(label=[*LABEL[:-1], "NA"]), "the first is row 150"),
    "a rare class": (TABLE.assign(label=[*LABEL[:-2], "odd", "odd"]), "fewer: 'odd'"),
    "names as labels": (TABLE.assign(label=[f"P{i}" for i in range(N)]), "150 of 150"),
    "amounts as labels": (TABLE.assign(label=TABLE["age"]), "different numbers"),
    "mixed labels": (TABLE.assign(label=[*LABEL[:-1], "7"]), "fewer: '7'"),
    "infinity": (TABLE.assign(age=[*TABLE["age"][:-1], "inf"]), "'age' has infinite"),
    "a word": (TABLE.assign(age=[*TABLE["age"][:-1], "old"]), "it has 'old' in row 150"),
    "decimal commas": (TABLE.assign(age=["1,5", "2,5"] * 75), "must use decimal points"),
    "ids only": (pd.DataFrame({"id": range(N), "label": LABEL}), "a column to learn from"),
    "the target only": (TABLE[["label"]], "a column to learn from"),
    "one value each": (TABLE[["label"]].assign(x=1, y="a"), "constant"),
    "many categories": (
        pd.DataFrame({"x": [f"v{i // 2}" for i in range(3000)], "label": ["a", "b"] * 1500}),
        "at most 1000 categories",
    ),
}


@pytest.mark.parametrize("case", UNLEARNABLE)
def test_a_table_that_nothing_can_be_learned_from(run, tmp_path, case):
    frame, expected = UNLEARNABLE[case]
    path = put(tmp_path, "table.csv", frame)
    answer = run("fit", path, "--target", "label", "--quick", "--out", tmp_path / "model")
    assert_one_line(answer, expected, tmp_path)


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        (TABLE.assign(age=[*TABLE["age"][:-1], None]), "'age' has some, in 1 row"),
        (TABLE.mask(TABLE["dose"] > 20, None).assign(label=LABEL), "have some"),
    ],
)
def test_gaps_can_be_refused(run, tmp_path, frame, expected):
    path = put(tmp_path, "table.csv", frame)
    words = ["--target", "label", "--quick", "--no-impute"]
    answer = run("fit", path, *words, "--out", tmp_path / "model")
    assert_one_line(answer, expected, tmp_path)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--false-alarm", "0"], "false_alarm must lie between 0 and 1"),
        (["--false-alarm", "5"], "false_alarm must lie between 0 and 1"),
        (["--false-alarm", "nan"], "false_alarm must lie between 0 and 1"),
        (["--false-alarm", "low"], "a valid number"),
        (["--max-error", "0"], "max_error must lie between 0 and 1"),
        (["--max-error", "1"], "max_error must lie between 0 and 1"),
        (["--confidence", "95"], "confidence must lie between 0 and 1"),
        (["--calibration", "1"], "calibration_share must lie between 0 and 1"),
        (["--calibration", "0.99"], "rows of each class on both sides"),
        (["--calibration", "0.001"], "rows of each class on both sides"),
        (["--seed", "one"], "a valid integer"),
        (["--seed", "-1"], "random_state must be"),
        (["--sead", "1"], "No such option"),
        (["--target"], "requires an argument"),
        (["more.csv"], "unexpected extra argument"),
    ],
)
def test_invalid_options(run, tmp_path, words, expected):
    path = put(tmp_path, "table.csv", TABLE)
    answer = run("fit", path, "--target", "label", "--quick", "--out", tmp_path / "model", *words)
    assert_one_line(answer, expected, tmp_path)


def test_invalid_paths(run, model, tmp_path):
    table = put(tmp_path, "table.csv", TABLE)
    folder = tmp_path / "folder"
    folder.mkdir()
    fit, predict = ["fit", table, "--target", "label", "--quick"], ["predict", model, table]
    for words, expected in (
        ([*fit], "Missing option '--out'"),
        ([*fit[:2], "--out", tmp_path / "x"], "Missing option '--target'"),
        ([*fit, "--out", folder], "must not exist yet"),
        ([*fit, "--out", table, "--overwrite"], "is something else"),
        ([*fit, "--out", folder, "--overwrite"], "is something else"),
        ([*fit, "--out", table / "x"], "can be written to"),
        ([*predict], "either --out FILE or --json"),
        ([*predict, "--json", "--out", tmp_path / "x.csv"], "either --out FILE or --json"),
        ([*predict, "--out", tmp_path / "x.txt"], "--out must end in"),
        ([*predict, "--out", tmp_path / "x.parquet"], "--out must be a text table"),
        ([*predict, "--out", tmp_path / "no" / "x.csv"], "in a folder that exists"),
        ([*predict, "--out", table], "must not exist yet"),
        ([*predict, "--out", table, "--overwrite"], "must not be the table itself"),
        (["predict", model, folder, "--out", tmp_path / "x.csv"], "is a folder"),
        (["predict", model, tmp_path / "no.csv", "--json"], "does not exist"),
        (["predict", model], "Missing argument"),
    ):
        assert_one_line(run(*words), expected, tmp_path, ("table", "folder"))
    assert text(TABLE) == table.read_text()


# --- the same through the real command -----------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "case"),
    [("fit", "Parquet, cut"), ("predict", "NUL in a row")],  # all others run in this process
)
def test_the_command_refuses_a_file_that_is_not_a_table(model, tmp_path, verb, case):
    suffix, spoil, expected = BROKEN[case]
    content = spoil(text(TABLE if verb == "fit" else NEW))
    if case in ENCODINGS:
        content = content.encode(ENCODINGS[case])
    put(tmp_path, f"table.{suffix}", content)
    words = [model] if verb == "predict" else ["--target", "label"]
    answer = command(tmp_path, verb, *words, f"table.{suffix}", "--out", "scored.csv")
    assert_one_line(answer, expected, tmp_path)


def test_rows_of_a_table_with_a_bom_are_printed_as_json(run, model, tmp_path):
    path = put(tmp_path, "table.csv", PLAIN.encode("utf-8-sig"))
    code, out, err = run("predict", model, path, "--json")
    assert code == 0
    assert "copies of training rows" in err
    assert len([json.loads(row) for row in out.splitlines()]) == 6


def command(folder, *words):
    run = subprocess.run(
        [BACOUN, *words], capture_output=True, text=True, cwd=folder, timeout=300, check=False
    )
    return run.returncode, run.stdout, run.stderr

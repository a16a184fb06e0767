"""`bacoun check`, from a model and a file to what is different about it."""

import json

import pytest
from sklearn.datasets import load_breast_cancer

from bacoun.cli import main
from bacoun.tabular import Survey, TableModel

DATA = load_breast_cancer(as_frame=True)
TABLE = DATA.frame.drop(columns="target").assign(diagnosis=DATA.target_names[DATA.target])
TRAIN, NEW = TABLE.iloc[::2], TABLE.iloc[1::2].drop(columns="diagnosis")


@pytest.fixture(scope="module")
def model(fast, tmp_path_factory):
    path = tmp_path_factory.mktemp("check") / "model"
    TableModel.fit(TRAIN, "diagnosis", classifier=fast()).save(path)
    return path


@pytest.fixture
def check(model, tmp_path, capsys):
    """A function that checks a table and returns the exit code and what was printed."""

    def run(table, *options, name="new.csv"):
        write = table.to_parquet if name.endswith("parquet") else table.to_csv
        write(tmp_path / name, index=False)
        try:
            main(["check", str(model), str(tmp_path / name), *options])
            code = 0
        except SystemExit as stop:
            code = stop.code
        return code, capsys.readouterr().out

    return run


@pytest.mark.parametrize("name", ["new.csv", "new.csv.gz", "new.parquet"])
def test_an_untouched_table_has_nothing_different(check, name):
    expected = "nothing different: 284 rows, all 30 columns as in training\n"
    assert check(NEW, name=name) == (0, expected)


def test_labels_are_not_different(check):
    assert check(TABLE.iloc[1::2])[0] == 0


def test_serious_findings_exit_with_1(check):
    spoiled = NEW.assign(**{"mean radius": 1000 * NEW["mean radius"]}).drop(columns="mean area")
    code, printed = check(spoiled.assign(age=3))
    assert code == 1
    lines = printed.splitlines()
    assert (lines[0], lines[3]) == ("serious", "notes")
    assert lines[1].startswith("  missing column  'mean area' is missing")
    assert "x 1000" in lines[2]
    assert lines[4].startswith("  extra column    columns that training did not have")


def test_notes_exit_with_0(check):
    code, printed = check(NEW.iloc[:, ::-1])
    assert code == 0
    assert printed.startswith("notes\n  reordered")


def test_json(check):
    code, printed = check(NEW.drop(columns="mean area"), "--json")
    content = json.loads(printed)
    assert (code, content["rows"], content["checked_rows"]) == (1, 284, 284)
    (finding,) = content["findings"]
    assert finding["severity"] == "serious"
    assert (finding["column"], finding["kind"]) == ("mean area", "missing column")


def test_only_the_first_rows_are_read(check, monkeypatch):
    monkeypatch.setattr(Survey, "chunk_size", 100)
    later = NEW.reset_index(drop=True)
    later.loc[100:, "mean radius"] *= 1000
    code, printed = check(later)
    assert (code, printed.splitlines()[-1]) == (0, "checked the first 100 of 284 rows")


def test_what_is_no_table_exits_with_2(check, model, tmp_path, capsys):
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(SystemExit) as stop:
        main(["check", str(model), str(tmp_path / "empty.csv")])
    assert stop.value.code == 2
    assert "must hold a table; it is empty" in capsys.readouterr().err

"""`bacoun predict`, from a model and a file to a scored file."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_breast_cancer

from bacoun.cli import main
from bacoun.tabular import Survey, TableModel, read_table

BACOUN = Path(sys.executable).with_name("bacoun")
DATA = load_breast_cancer(as_frame=True)
TABLE = DATA.frame.drop(columns="target").assign(diagnosis=DATA.target_names[DATA.target])


@pytest.fixture(scope="module")
def folder(fast, tmp_path_factory):
    """A model, and the table it was fitted on as CSV and Parquet, without the target."""
    folder = tmp_path_factory.mktemp("predict")
    TableModel.fit(TABLE, "diagnosis", classifier=fast()).save(folder / "model")
    new = TABLE.drop(columns="diagnosis")
    new.to_csv(folder / "new.csv", index=False)
    new.to_parquet(folder / "new.parquet")
    return folder


@pytest.fixture
def predict(folder, tmp_path):
    def run(new, out, *more):
        new = new if isinstance(new, Path) else folder / new
        main(["predict", str(folder / "model"), str(new), "--out", str(tmp_path / out), *more])
        return tmp_path / out

    return run


@pytest.fixture(scope="module")
def expected(folder):
    return TableModel.load(folder / "model").score(TABLE, because=True)


def test_the_command_writes_the_scores_of_the_library(predict, folder, tmp_path, expected, capsys):
    out = predict("new.csv", "scored.csv")
    said = capsys.readouterr()
    assert said.out == ""
    assert "copies of training rows" in said.err
    scored = read_table(out).fillna({"reason": "", "because": ""})
    pd.testing.assert_frame_equal(scored[list(expected)], expected)
    before = pd.read_csv(folder / "new.csv")
    pd.testing.assert_frame_equal(scored[list(before)], before)
    assert list(scored) == [*before, *expected]
    assert [path.name for path in tmp_path.iterdir()] == ["scored.csv"]


@pytest.mark.parametrize(
    ("new", "out", "rows"),
    [
        ("new.csv", "a.csv", 100),
        ("new.csv", "a.tsv", 569),
        ("new.csv", "a.csv.gz", 568),
        ("new.parquet", "a.parquet", 100),
        ("new.parquet", "a.csv", 2048),
    ],
)
def test_chunks_of_any_format_score_as_the_whole_table(
    predict, expected, monkeypatch, new, out, rows
):
    monkeypatch.setattr(Survey, "chunk_size", rows)
    scored = read_table(predict(new, out)).fillna({"reason": "", "because": ""})
    pd.testing.assert_frame_equal(scored[list(expected)], expected, rtol=1e-4, atol=1e-5)


def test_parquet_keeps_its_types(predict, folder, tmp_path):
    table = TABLE.assign(
        day=pd.Timestamp("2020-01-01"), big=2**60 + 1, count=pd.array([None] * 569, "Int64")
    )
    table.to_parquet(tmp_path / "typed.parquet")
    before = pq.read_table(tmp_path / "typed.parquet")
    after = pq.read_table(predict(tmp_path / "typed.parquet", "out.parquet"))
    assert after.select(before.column_names).equals(before.replace_schema_metadata())


def test_parquet_does_not_dictionary_encode_floats(predict):
    group = pq.ParquetFile(predict("new.parquet", "out.parquet")).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    kept = {each.path_in_schema for each in columns if each.has_dictionary_page}
    assert kept == {"prediction", "decision", "reason", "because"}


def test_input_cells_are_copied_verbatim(predict, folder, tmp_path):
    lines = (folder / "new.csv").read_text().splitlines()[:3]
    new = tmp_path / "new.csv"
    new.write_text(f"note,{lines[0]}\n007,{lines[1]}\nNA,{lines[2]}\n")
    after = predict(new, "out.csv").read_text().splitlines()
    assert after[1].startswith(f"007,{lines[1]},")
    assert after[2].startswith(f"NA,{lines[2]},")


def test_formulas_are_escaped_for_spreadsheets_if_asked(predict, folder, tmp_path, capsys):
    """30.15: a cell that starts with = + - or @ is run by a spreadsheet."""
    lines = (folder / "new.csv").read_text().splitlines()[:5]
    cells = ["note,=name", '=cmd(),"+1+1"', "-1,@x", "007,-1e5", "a=b,-2+3"]
    new = tmp_path / "new.csv"
    new.write_text("".join(f"{a},{b}\n" for a, b in zip(cells, lines, strict=True)))
    assert predict(new, "as-is.csv").read_text().splitlines()[1].startswith("=cmd(),+1+1,")
    after = predict(new, "out.csv", "--escape-formulas").read_text().splitlines()
    starts = ["note,'=name,", "'=cmd(),'+1+1,", "-1,'@x,", "007,-1e5,", "a=b,'-2+3,"]
    assert all(line.startswith(start) for line, start in zip(after, starts, strict=True)), after
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        predict("new.parquet", "out.parquet", "--escape-formulas")
    assert ended.value.code == 2
    assert "--escape-formulas needs --out" in capsys.readouterr().err


def test_json_lines(folder, expected, capsys):
    main(["predict", str(folder / "model"), str(folder / "new.csv"), "--json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    pd.testing.assert_frame_equal(pd.DataFrame(rows)[list(expected)], expected)
    assert rows[3]["mean radius"] == TABLE["mean radius"][3]


def test_far_away_rows_are_unfamiliar(predict, tmp_path):
    (50 * TABLE.drop(columns="diagnosis")).to_csv(tmp_path / "far.csv", index=False)
    scored = read_table(predict(tmp_path / "far.csv", "out.csv"))
    assert set(scored["reason"]) == {"unfamiliar"}
    assert (scored["ood_score"] > 10).all()


def test_an_infinite_score_is_unfamiliar_and_null_in_json(folder, tmp_path, capsys):
    model = TableModel.load(folder / "model")
    for flow in model.classifier.boundary_.flows_:
        flow.scale_ = 1e-20 * flow.scale_  # so narrow that the density overflows
    model.save(tmp_path / "narrow")
    main(["predict", str(tmp_path / "narrow"), str(folder / "new.csv"), "--json"])

    def refuse(word):
        raise AssertionError(f"{word} is not JSON")

    lines = capsys.readouterr().out.splitlines()
    rows = [json.loads(line, parse_constant=refuse) for line in lines]
    assert {row["log_density"] for row in rows} == {None}
    assert {row["reason"] for row in rows} == {"unfamiliar"}


def test_columns_in_any_order_and_unused_ones_noted_once(predict, expected, tmp_path, capsys):
    new = TABLE[TABLE.columns[::-1]].assign(age=1, ward="A")
    new.to_csv(tmp_path / "new.csv", index=False)
    scored = read_table(predict(tmp_path / "new.csv", "out.csv"))
    np.testing.assert_array_equal(scored["epistemic"], expected["epistemic"])
    told = capsys.readouterr().err.splitlines()
    assert told == [
        "bacoun: note: columns that training did not have are not used: 'age', 'ward'.",
        "bacoun: note: the columns are in another order than in training; they are found by name.",
        "bacoun: note: 80 % of the rows are copies of training rows; scores on them look too good.",
    ]


def test_a_file_is_replaced_only_if_asked(predict, capsys):
    out = predict("new.csv", "out.csv")
    out.write_text("mine")
    with pytest.raises(SystemExit):
        predict("new.csv", "out.csv")
    assert "pass --overwrite" in capsys.readouterr().err
    assert out.read_text() == "mine"
    predict("new.csv", "out.csv", "--overwrite")
    assert out.read_text() != "mine"


def test_an_error_in_the_last_chunk_leaves_no_file(predict, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(Survey, "chunk_size", 100)
    new = tmp_path / "new.csv"
    lines = (folder / "new.csv").read_text().splitlines()
    new.write_text("\n".join([*lines[:-1], "old" + lines[-1][lines[-1].index(",") :]]))
    with pytest.raises(SystemExit):
        predict(new, "out.csv")
    assert "got 'old' in row 569" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["new.csv"]


def test_a_closed_pipe_is_not_an_error(folder):
    command = f"'{BACOUN}' predict '{folder}/model' '{folder}/new.csv' --json | head -n 1"
    run = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=300)
    assert json.loads(run.stdout)["prediction"] in ("benign", "malignant")
    assert run.stderr == ""


def test_predicting_does_not_import_what_only_fits_need(folder, tmp_path):
    fits = {
        "arviz_stats",
        "matplotlib",
        "sklearn.metrics",
        "sklearn.model_selection",
        "sklearn.tree",
    }
    words = ["predict", str(folder / "model"), str(folder / "new.csv"), "--out"]
    code = f"""
import sys
from bacoun.cli import main
main({[*words, str(tmp_path / "scored.csv")]})
print(*{fits} & sys.modules.keys())
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout.strip()) == (0, "")

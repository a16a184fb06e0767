"""`bacoun report`, from files to a file."""

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

from bacoun.boundary import DirectionShell
from bacoun.cli import main
from bacoun.features import LinearFeatures
from bacoun.tabular import TableModel


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model and tables: with labels, without, and out-of-distribution."""
    folder = tmp_path_factory.mktemp("report")
    iris = load_iris(as_frame=True).frame.sample(frac=1, random_state=0)
    TableModel.fit(iris.head(100), "target", quick=True, random_state=0).save(folder / "model")
    test = iris.tail(50)
    test.to_csv(folder / "test.csv", index=False)
    test.drop(columns="target").to_csv(folder / "plain.csv", index=False)
    test.rename(columns={"target": "kind"}).to_csv(folder / "kind.csv", index=False)
    (test.drop(columns="target") * 9).to_csv(folder / "far.csv", index=False)
    test.head(0).to_csv(folder / "empty.csv", index=False)
    test.assign(target=7).to_csv(folder / "seven.csv", index=False)
    return folder


def test_a_page_is_written_and_only_replaced_with_overwrite(folder, tmp_path, capsys, monkeypatch):
    out = tmp_path / "report.html"
    words = ["report", "model", "test.csv", "--ood", "far.csv", "--out", str(out)]
    monkeypatch.chdir(folder)
    main(words)
    assert capsys.readouterr().out.startswith(f"wrote {out}: 50 rows, ")
    page = out.read_text(encoding="utf-8")
    assert "50 rows of test.csv and, out-of-distribution, 50 rows of far.csv" in page
    with pytest.raises(SystemExit):
        main(words)
    assert "--out must not exist yet" in capsys.readouterr().err
    assert out.read_text(encoding="utf-8") == page
    main([*words, "--overwrite"])


@pytest.mark.parametrize(
    ("table", "words", "labeled"),
    [("test.csv", [], True), ("plain.csv", [], False), ("kind.csv", ["--target", "kind"], True)],
)
def test_labels_are_used_where_there_are_any(folder, tmp_path, table, words, labeled):
    out = tmp_path / "report.html"
    main(["report", str(folder / "model"), str(folder / table), "--out", str(out), *words])
    assert ('id="accuracy-all"' in out.read_text(encoding="utf-8")) == labeled


@pytest.mark.parametrize(
    ("table", "words", "sentence"),
    [
        ("test.csv", ["--target", "color"], "it has no 'color'"),
        ("test.csv", ["--ood", "nowhere.csv"], "does not exist"),
        ("empty.csv", [], "at least one row"),
        ("seven.csv", [], "got 7. Rows of other classes are out of distribution"),
        ("test.csv", ["--out", "test.csv", "--overwrite"], "--out must end in .html"),
        ("test.csv", ["--out", "folder.html"], "must not exist yet"),
    ],
)
def test_an_error_is_one_line_and_leaves_no_file(
    folder, tmp_path, capsys, monkeypatch, table, words, sentence
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.html").mkdir()
    out = [] if "--out" in words else ["--out", "report.html"]
    with pytest.raises(SystemExit) as stop:
        main(["report", str(folder / "model"), str(folder / table), *out, *words])
    said = capsys.readouterr()
    assert stop.value.code == 2
    assert said.out == ""
    assert sentence in said.err
    assert len(said.err.splitlines()) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["folder.html"]


def test_a_wide_table_with_gaps_goes_from_file_to_report(tmp_path, capsys, monkeypatch):
    """200 columns, of which some are whole numbers, some constant, and some have gaps."""
    rng = np.random.default_rng(0)
    kind = np.arange(200) % 3
    cells = 0.4 * rng.normal(size=(3, 200))[kind] + rng.normal(size=(200, 200))
    cells[:, ::10] = np.round(5 * cells[:, ::10])
    cells[:, 7] = 4.5
    cells[:, 3::25][rng.random((200, 8)) < 0.1] = np.nan
    table = pd.DataFrame(cells.round(3), columns=[f"v{i}" for i in range(200)])
    table = table.assign(label=np.array(["a", "b", "c"])[kind])
    table.iloc[:160].to_csv(tmp_path / "train.csv", index=False)
    test = table.iloc[160:]
    test.to_csv(tmp_path / "test.csv", index=False)
    test.head(12).assign(v5=100 * test["v5"]).to_csv(tmp_path / "wrong.csv", index=False)
    monkeypatch.chdir(tmp_path)
    main(["fit", "train.csv", "--target", "label", "--out", "model", "--seed", "0"])
    model = TableModel.load("model")
    assert isinstance(model.classifier.features_, LinearFeatures)
    assert isinstance(model.classifier.boundary_.shell_, DirectionShell)  # gaps are categories
    main(["check", "model", "test.csv"])
    assert "nothing different: 40 rows" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["check", "model", "wrong.csv"])
    assert "'v5' has another unit" in capsys.readouterr().out
    scored = model.score(test)
    assert (scored["prediction"] == test["label"]).mean() > 0.9
    assert (scored["reason"] == "unfamiliar").mean() < 0.2
    doubted = model.score(pd.read_csv("wrong.csv"), because=True)
    unfamiliar = doubted[doubted["reason"] == "unfamiliar"]
    assert len(unfamiliar) > 5
    assert unfamiliar["because"].str.startswith("v5 = ").mean() > 0.9
    main(["report", "model", "test.csv", "--out", "report.html"])
    assert 'id="accuracy-all"' in (tmp_path / "report.html").read_text(encoding="utf-8")

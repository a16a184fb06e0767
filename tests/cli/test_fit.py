"""`bacoun fit`, from a file to a folder."""

import io
import json
import os
from contextlib import redirect_stderr, redirect_stdout

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from bacoun.cli import main
from bacoun.files.checkpoint import Checkpoint
from bacoun.tabular import TableModel, read_table


@pytest.fixture(scope="module")
def cancer(tmp_path_factory):
    """The breast-cancer table as a person has it: names of classes, and a number for each row."""
    data = load_breast_cancer(as_frame=True)
    table = data.frame.drop(columns="target").assign(diagnosis=data.target_names[data.target])
    table.insert(0, "patient", range(1, len(table) + 1))
    path = tmp_path_factory.mktemp("fit") / "train.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def words(cancer):
    return ["fit", str(cancer), "--target", "diagnosis", "--quick"]


@pytest.fixture(scope="module")
def fitted(words, cancer):
    """What the command says on stdout and on stderr, and the folder it writes."""
    out, said, told = cancer.with_name("model"), io.StringIO(), io.StringIO()
    with redirect_stdout(said), redirect_stderr(told):
        main([*words, "--out", str(out)])
    return said.getvalue(), told.getvalue(), out


def test_the_summary_lists_the_data_the_quality_and_the_guarantees(fitted):
    said, told, out = fitted
    assert told == ""
    for part in (
        "569: 455 for training, 114 for calibration",
        "benign (357), malignant (212)",
        "patient (id)",
        "accuracy 0.9",
        "R-hat 1.0",
        "Unfamiliar: ood_score above",
        "of accepted points are wrong, with 95 % confidence",
        f"bacoun predict {out}",
    ):
        assert part in said


def test_the_command_and_the_library_fit_the_same_model(fitted, cancer):
    table = read_table(cancer)
    ours = TableModel.load(fitted[2])
    theirs = TableModel.fit(table, "diagnosis", quick=True)
    pd.testing.assert_frame_equal(ours.score(table), theirs.score(table), atol=1e-6)
    assert ours.facts == theirs.facts


def test_nothing_else_is_left_behind(fitted):
    assert {path.name for path in fitted[2].parent.iterdir()} == {"train.csv", "model"}


def test_facts_as_json(words, cancer, tmp_path, capsys):
    main([*words, "--out", str(tmp_path / "model"), "--json", "--max-error", "0.2", "--resume"])
    out, err = capsys.readouterr()
    facts = json.loads(out)
    assert facts["rows"] == 569
    assert facts["rule"]["acceptance"]["max_error"] == 0.2
    assert facts["health"]["inference"] == "HMC"
    assert "nothing to resume" in err


def test_without_resume_an_old_checkpoint_is_deleted(words, tmp_path, monkeypatch):
    folder = tmp_path / "model.checkpoint"
    Checkpoint(folder).save("run", {"hashes": {"X": "another"}})
    monkeypatch.setattr(TableModel, "fit", lambda *_, **options: pytest.fail(str(folder.exists())))
    with pytest.raises(pytest.fail.Exception, match="False"):
        main([*words, "--out", str(tmp_path / "model")])


def test_ctrl_c_says_how_to_resume(words, tmp_path, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(TableModel, "fit", stop)
    with pytest.raises(SystemExit) as info:
        main([*words, "--out", str(tmp_path / "model")])
    assert info.value.code == 130
    assert "with --resume to continue" in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written_to_is_refused_first(words, tmp_path, capsys):
    tmp_path.chmod(0o500)
    with pytest.raises(SystemExit) as info:
        main([*words, "--out", str(tmp_path / "model")])
    tmp_path.chmod(0o700)
    assert info.value.code == 2
    assert "can be written to" in capsys.readouterr().err


# --- many Parquet files ---------------------------------------------------------------------------


@pytest.fixture
def pattern(tmp_path):
    """1500 rows in three files, with quotes around what the shell would expand."""
    (tmp_path / "rows").mkdir()
    rng = np.random.default_rng(0)
    for number in range(3):
        kind = rng.integers(0, 2, 500)
        rows = pd.DataFrame({"x": rng.normal(2 * kind, 1), "y": rng.normal(-kind, 1), "ill": kind})
        rows.to_parquet(tmp_path / "rows" / f"{number}.parquet", row_group_size=250)
    return f"{tmp_path}/rows/*.parquet"


def test_many_files_are_fitted_with_a_sample_for_the_networks(pattern, tmp_path, capsys):
    words = ["fit", pattern, "--target", "ill", "--quick", "--sample-rows", "300"]
    main([*words, "--out", str(tmp_path / "model")])
    said = capsys.readouterr().out
    facts = TableModel.load(tmp_path / "model").facts
    assert f"1500: {facts['training_rows']} for training (networks: " in said
    assert "nats from all rows" in said
    assert {path.name for path in tmp_path.iterdir()} == {"rows", "model"}


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--sample-rows", "300", "--time", "x"], "time needs all rows in memory, at most 375"),
        (["--workers", "1", "--scheduler", "tcp://x"], "give either --scheduler ADDRESS or"),
        (["--target", "well"], "there is no 'well'. It has 'x', 'y', 'ill'"),
    ],
)
def test_what_cannot_be_fitted_from_files_is_refused(pattern, tmp_path, capsys, more, message):
    with pytest.raises(SystemExit, match="2"):
        main(["fit", pattern, "--target", "ill", "--out", str(tmp_path / "model"), *more])
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["rows"]


def test_workers_need_row_groups(words, tmp_path, capsys):
    with pytest.raises(SystemExit, match="2"):
        main([*words, "--out", str(tmp_path / "model"), "--workers", "2"])
    assert "--workers and --scheduler need Parquet" in capsys.readouterr().err

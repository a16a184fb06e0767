"""The command itself, as a person runs it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from reproduction.__main__ import app

from bacoun.cli import main

ROOT = Path(__file__).parents[2]


def reproduction(*words, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "reproduction", *words],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=300,
        check=False,
    )


def test_it_prints_the_table_and_writes_records_and_figures(tmp_path, capsys, monkeypatch):
    run = reproduction("outliers", "--quick", "--jobs", "1", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "Local outlier factor" in run.stdout
    folder = tmp_path / "results" / "quick"
    assert (folder / "outliers" / "flow-0.json").exists()
    assert "| Flow |" in (folder / "outliers.md").read_text()
    assert (folder / "figures" / "outliers-kept.png").stat().st_size > 10_000
    (folder / "outliers" / "flow-0.json").unlink()
    monkeypatch.chdir(tmp_path)
    main(["outliers", "--quick", "--recorded"], app=app)
    assert "Local outlier factor" in capsys.readouterr().out  # and no figure, without the flow
    assert not (folder / "outliers" / "flow-0.json").exists()  # nothing was computed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nonsense"], "the experiment must be one of"),
        (["gmm", "--seeds", "0"], "at least 1"),
        (["gmm", "--seeds", "many"], "valid integer"),
        ([], "Missing argument"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(words, sentence, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        main(words, app=app)
    assert ended.value.code == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert sentence in err
    assert len(err.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_help_has_an_example():
    assert "python -m reproduction gmm --quick" in reproduction("--help").stdout

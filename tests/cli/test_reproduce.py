"""The command itself, as a person runs it."""

import subprocess
import sys
from pathlib import Path

import pytest

BACOUN = Path(sys.executable).with_name("bacoun")


def bacoun(*words, cwd=None):
    return subprocess.run(
        [BACOUN, *words], capture_output=True, text=True, cwd=cwd, timeout=300, check=False
    )


def test_reproduce_prints_the_table_and_writes_records_and_figures(tmp_path):
    run = bacoun("reproduce", "outliers", "--quick", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "Local outlier factor" in run.stdout
    folder = tmp_path / "results" / "quick"
    assert (folder / "outliers" / "flow-0.json").exists()
    assert "| Flow |" in (folder / "outliers.md").read_text()
    assert (folder / "figures" / "outliers-kept.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["reproduce", "nonsense"], "the experiment must be one of"),
        (["reproduce", "gmm", "--seeds", "0"], "at least 1"),
        (["reproduce", "gmm", "--seeds", "many"], "valid integer"),
        (["reproduce"], "Missing argument"),
        (["dance"], "No such command 'dance'"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_two(words, sentence, tmp_path):
    run = bacoun(*words, cwd=tmp_path)
    assert run.returncode == 2
    assert run.stdout == ""
    assert sentence in run.stderr
    assert len(run.stderr.strip().splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_help_names_every_verb():
    assert "reproduce" in bacoun("--help").stdout
    assert "bacoun reproduce gmm --quick" in bacoun("reproduce", "--help").stdout

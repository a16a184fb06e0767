import io
import os
import re
import subprocess
import sys
from contextlib import redirect_stdout
from pathlib import Path

import pandas as pd
import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()


def numbers(text):
    return [float(value) for value in re.findall(r"\d+\.\d+(?:e[-+]?\d+)?", text)]


def test_the_first_lines_of_the_readme_print_what_they_say(tmp_path, monkeypatch):
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    said = re.search(r"```text\n(.*?)```", README, re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    printed = io.StringIO()
    with redirect_stdout(printed):  # warnings are errors here as everywhere
        exec(compile(code, "<readme>", "exec"), {"__name__": "__page__"})
    # Other processors round otherwise, so training ends elsewhere: close, not equal.
    assert numbers(printed.getvalue()) == pytest.approx(numbers(said), abs=0.06)


def test_the_shell_lines_of_the_readme_lead_from_a_table_to_decisions_and_a_report(tmp_path):
    blocks = re.findall(r"```sh\n(.*?)```", README, re.DOTALL)
    lines = next(block for block in blocks if "bacoun fit" in block)
    assert lines.count("\nbacoun ") == 3
    quick = lines.replace("bacoun fit", "bacoun fit --quick")  # without, half a minute
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["bash", "-euc", quick],
        env=os.environ | {"PATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    scored = pd.read_csv(tmp_path / "scored.csv", keep_default_na=False)
    truth = pd.read_csv(tmp_path / "test.csv")["diagnosis"]
    assert (scored["prediction"] == truth).mean() > 0.9
    section = README[README.index(lines) :]
    promised = re.search(r"`scored.csv` is.*?added\.", section, re.DOTALL)[0]
    columns = set(re.findall(r"`(\w+)`", promised)) - {"unfamiliar", "ambiguous"}
    assert columns <= set(scored)
    assert {"prediction", "epistemic", "decision", "reason"} <= columns
    assert set(scored["reason"]) <= {"", "unfamiliar", "ambiguous"}
    assert "accuracy-all" in (tmp_path / "report.html").read_text()


def test_every_file_the_readme_links_to_exists():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (Path(__file__).parents[1] / target).exists(), target

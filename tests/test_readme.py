import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()


def numbers(text):
    return [float(value) for value in re.findall(r"\d+\.\d+", text)]


def test_the_first_lines_of_the_readme_print_what_they_say(tmp_path):
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]
    said = re.search(r"```text\n(.*?)```", README, re.DOTALL)[1]
    command = [sys.executable, "-W", "error", "-c", code]
    run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert run.returncode == 0, run.stderr
    # Other processors round otherwise, so training ends elsewhere: close, not equal.
    assert numbers(run.stdout) == pytest.approx(numbers(said), abs=0.06)


def test_every_file_the_readme_links_to_exists():
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (Path(__file__).parents[1] / target).exists(), target

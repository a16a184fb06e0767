"""The pages run: what their code prints is what they say it prints."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from bacoun.cli import main

DOCS = Path(__file__).parents[2] / "docs"
BINARIES = Path(sys.executable).parent
BLOCK = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")


def blocks(page):
    """Language and content of each fenced block, in order."""
    return BLOCK.findall((DOCS / page).read_text())


def runnable():
    """Each page that has a block of Python, or of shell, and says what it prints."""
    pages = sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))
    return [page for page in pages if "text" in {language for language, _ in blocks(page)}]


def run_shell(code, namespace):
    """What the lines print; those that are only our commands run here, without a process each."""
    commands = [shlex.split(line) for line in code.replace("\\\n", " ").splitlines()]
    if all(words[:1] == ["bacoun"] for words in commands) and not set("|<>&;$*") & set(code):
        return run_commands(commands)
    path = f"{BINARIES}{os.pathsep}{os.environ['PATH']}"
    run = subprocess.run(
        ["sh", "-e", "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": path},
        timeout=600,
    )
    assert run.returncode == 0, run.stderr
    assert "Warning" not in run.stderr
    return run.stdout


def run_commands(commands):
    printed, told = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(told):
        for words in commands:
            main(words[1:])
    assert "Warning" not in told.getvalue()
    return printed.getvalue()


def run_python(code, namespace):
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<page>", "exec"), namespace)  # warnings are errors here as everywhere
    return printed.getvalue()


RUN = {"sh": run_shell, "python": run_python}


def words(text):
    """The text with a mark for each number, and any run of blanks as one."""
    return [" ".join(NUMBER.sub("#", line).split()) for line in text.strip().splitlines()]


def numbers(text):
    return [float(number) for number in NUMBER.findall(text)]


def test_the_pages_that_show_output_are_found():
    assert {"tutorial.md", "deferral.md", "howto/thresholds.md"} <= set(runnable())


def as_parameter(page):
    """The other pages fit with the default settings too, which takes long: `make test-paper`."""
    return pytest.param(page, marks=[] if page == "tutorial.md" else pytest.mark.paper)


@pytest.mark.parametrize("page", [as_parameter(page) for page in runnable()])
def test_the_code_of_a_page_prints_what_the_page_says(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__page__"}
    printed = ""
    for language, content in blocks(page):
        if language in RUN:
            printed = RUN[language](content, namespace)
        elif language == "text":
            assert words(printed) == words(content)
            # Other processors round otherwise, so training ends elsewhere: close, not equal.
            assert numbers(printed) == pytest.approx(numbers(content), abs=0.06, rel=0.25)
        else:
            raise AssertionError(f"a block must be sh, python or text; got {language}")


def test_a_wrong_word_or_number_on_a_page_would_be_seen():
    assert words("accuracy 0.95") != words("error 0.95")
    assert words("a 1\nb 2") != words("a 1")
    assert numbers("accuracy 0.95, R-hat 1.01") == [0.95, 1.01]
    assert numbers("0.95") != pytest.approx(numbers("0.65"), abs=0.06, rel=0.25)

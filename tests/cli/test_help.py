"""Help texts with valid examples, and shell completion."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bacoun.cli import app, main

BACOUN = Path(sys.executable).with_name("bacoun")
VERBS = [command.callback.__name__ for command in app.registered_commands]


@pytest.mark.parametrize("verb", VERBS)
def test_help_has_an_example_that_parses(verb, capsys):
    main([verb, "--help"])
    text = capsys.readouterr().out
    example = re.search(r"Example: bacoun (.+?) +\n", text)[1].split()
    assert example[0] == verb
    main([*example, "--help"])  # options that do not exist would be refused first
    assert capsys.readouterr().out != ""


def test_the_main_help_lists_every_command(capsys):
    main([])
    text = capsys.readouterr().out
    assert [verb for verb in VERBS if f" {verb} " not in text] == []


def completed(words):
    """What bash is told when Tab is pressed after these words."""
    environment = os.environ | {
        "_BACOUN_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    run = subprocess.run([BACOUN], env=environment, capture_output=True, text=True, timeout=120)
    assert run.stderr == ""
    return run.stdout.split()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("bacoun re", {"report"}),
        ("bacoun fit --false", {"--false-alarm"}),
    ],
)
def test_tab_completes_commands_and_options(words, expected):
    assert set(completed(words)) == expected


def test_completion_can_be_installed(tmp_path):
    # Without a value typer looks which shell it was called from, which under make is no bash.
    environment = os.environ | {
        "HOME": str(tmp_path),
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",
    }
    words = [BACOUN, "--install-completion", "bash"]
    run = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    assert "bacoun" in (tmp_path / ".bashrc").read_text()


def test_help_does_not_wait_for_torch():
    code = "import sys, bacoun.cli; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=120).returncode == 0

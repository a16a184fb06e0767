"""`make browser` installs a browser where that is possible, and never stands in the way."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NEEDED = ("make", "sh", "timeout", "touch", "chmod")

pytestmark = pytest.mark.skipif(
    not all(map(shutil.which, NEEDED)), reason=f"needs {', '.join(NEEDED)}"
)


@pytest.fixture
def make_browser(tmp_path):
    """A function that runs the target on a machine which has these commands and no others."""
    for name in NEEDED:
        (tmp_path / name).symlink_to(shutil.which(name))

    def run(**commands):
        for name, script in commands.items():
            file = tmp_path / name.replace("_", "-")
            file.write_text(f"#!/bin/sh\n{script}\n")
            file.chmod(0o755)
        words = [tmp_path / "make", "--no-print-directory", "browser"]
        environment = {"PATH": str(tmp_path), "ASKED": str(tmp_path / "asked")}
        done = subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        asked = tmp_path / "asked"
        return done.stdout, asked.read_text() if asked.exists() else ""

    return run


ASKED = 'echo "$@" >> "$ASKED"'


def test_a_browser_that_is_there_is_enough(make_browser):
    assert make_browser(google_chrome="", id="echo 0", apt_get=ASKED) == ("", "")


def test_root_gets_one_from_debian(make_browser):
    said, asked = make_browser(id="echo 0", apt_get=ASKED)
    assert said == ""
    assert asked.splitlines() == [
        "-qq update",
        "-qq install --yes --no-install-recommends chromium",
    ]


@pytest.mark.parametrize(
    ("commands", "reason"),
    [
        ({"id": "echo 1000", "apt_get": ASKED}, "only root can install one"),
        ({"id": "echo 0"}, "only root can install one"),
        ({"id": "echo 0", "apt_get": "exit 100"}, "chromium could not be installed"),
    ],
)
def test_where_that_cannot_be_it_says_why(make_browser, commands, reason):
    said, asked = make_browser(**commands)
    assert reason in said
    assert "skipped" in said
    assert asked == ""

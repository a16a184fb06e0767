"""The site is built without a warning, and leaves out no command, no option and no public name."""

import inspect
import re
import subprocess
import sys
from html import unescape
from importlib import import_module
from pathlib import Path

import pytest

from bacoun.cli import app, main

ROOT = Path(__file__).parents[2]
ROOMS = ["boundary", "features", "posterior", "uncertainty", "deferral"]
ROOMS += ["baselines", "tabular", "columns.checks", "report"]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site; a warning ends the build."""
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", out]
    built = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert built.returncode == 0, built.stderr
    return out


@pytest.fixture(scope="module")
def commands(site):
    """What the reference says: the words a person types -> the words of that section."""
    html = (site / "reference" / "commands.html").read_text()
    article = html[html.index("<article") : html.index("</article>")]
    sections = re.split(r'<h[123] id="[^"]*">', article)[1:]
    plain = [unescape(re.sub(r"<[^>]+>", "", section)) for section in sections]
    titles = [text.split("\u00b6")[0].strip().removeprefix("bacoun ") for text in plain]
    return {title: words(text) for title, text in zip(titles, plain, strict=True)}


def words(text):
    return set(re.findall(r"(?:--)?[A-Za-z][A-Za-z_-]+", text))


def names(application, before=""):
    """Every command of an application, as a person types it."""
    for command in application.registered_commands:
        yield before + (command.name or command.callback.__name__)
    for group in application.registered_groups:
        yield before + group.name
        yield from names(group.typer_instance, f"{before}{group.name} ")


VERBS = sorted(names(app))


def test_the_verbs_are_found():
    assert {"fit", "predict", "report", "export"} <= set(VERBS)


def test_the_reference_has_a_section_for_each_verb_and_no_other(commands):
    assert sorted(commands) == sorted(["Command line", *VERBS])


@pytest.mark.parametrize("verb", ["", *VERBS])
def test_every_option_and_every_word_of_help_is_in_the_reference(
    verb, commands, monkeypatch, capsys
):
    monkeypatch.setenv("COLUMNS", "400")  # lines so wide that no word is broken
    monkeypatch.setattr(sys, "argv", ["bacoun"])
    main([*verb.split(), "--help"])
    shown = words(capsys.readouterr().out)
    assert "--help" in shown
    panels = {"bool", "From", "The", "to", "decisions", "paper"}  # of flags; of the list of verbs
    assert shown - commands[verb or "Command line"] <= panels


MODULES = ["", *(f".{room}" for room in ROOMS), ".export.scorers", ".protocols"]


@pytest.mark.parametrize("room", MODULES)
def test_every_public_name_is_in_the_reference(room, site):
    pages = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    shown = {anchor.rsplit(".", 1)[-1] for anchor in re.findall(r'id="(bacoun\.[\w.]+)"', pages)}
    module = import_module(f"bacoun{room}")
    public = getattr(module, "__all__", None) or [
        name for name, value in vars(module).items() if _is_own(value, module)
    ]
    missing = {name for name in public if name not in ("KINDS", "__version__")} - shown
    assert not missing


@pytest.mark.parametrize("room", ROOMS)
def test_the_reference_shows_what_docstrings_say(room, site):
    pages = "".join(page.read_text() for page in (site / "reference").glob("*.html"))
    shown = " ".join(unescape(re.sub(r"<[^>]+>", "", pages)).split())
    module = import_module(f"bacoun.{room}")
    for name in module.__all__:
        if name != "KINDS":
            first = inspect.getdoc(getattr(module, name)).split("\n")[0].replace("`", "")
            assert first in shown, name


def _is_own(value, module):
    name = getattr(value, "__name__", "_")
    return getattr(value, "__module__", "") == module.__name__ and not name.startswith("_")


def test_no_page_asks_another_host_for_anything(site):
    for page in site.rglob("*.html"):
        loaded = re.findall(r'(?:src|srcset)="(https?:[^"]+)"', page.read_text())
        loaded += re.findall(r'<link[^>]+href="(https?:[^"]+)"', page.read_text())
        assert not loaded, page.name


def test_every_page_is_in_the_navigation(site):
    start = (site / "index.html").read_text()
    for page in site.rglob("*.html"):
        if page.name not in ("404.html", "index.html"):
            assert f'href="{page.relative_to(site).as_posix()}"' in start, page.name

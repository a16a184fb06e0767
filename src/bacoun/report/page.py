"""The report of a model on a test table: one HTML file that needs nothing else.

`data.report_data` asks the model once, `measures` and `figures` compute what the `sections` show,
and the templates hold the text. Names from the table are escaped wherever they appear.
"""

import base64
import hashlib
import os
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from bacoun.files.atomic import atomic_write
from bacoun.report.data import ReportData
from bacoun.report.formats import FILTERS
from bacoun.report.sections import SECTIONS, shared


def render_page(data: ReportData) -> str:
    """The page as text."""
    templates, known = environment("bacoun.report"), shared(data)
    written = {
        name: templates.get_template(f"sections/{name}.html.j2").render(
            known | section.values(data)
        )
        for name, section in SECTIONS.items()
    }
    titles = {name: section.title for name, section in SECTIONS.items()}
    page = templates.get_template("page.html.j2")
    return page.render(data=data, titles=titles, sections=written)


def write_page(data: ReportData, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write the page to a file, completely or not at all."""
    target = Path(path)
    if target.is_dir():
        raise IsADirectoryError(f"path must be a file; '{path}' is a folder. Name a file in it.")
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"path must not exist yet; '{path}' does. Choose another, or pass --overwrite."
        )
    text = render_page(data)
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(target) as file:
        file.write(text.encode())


def environment(*packages: str) -> Environment:
    """Templates of one or more rooms, with their style and all that pages share."""
    made = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    css = "".join(_read(package, "page.css") for package in packages)
    js = _read("bacoun.report", "page.js")
    made.globals.update(css=css, js=js, policy=_content_policy(css, js), version=version("bacoun"))
    return made


def _read(package: str, name: str) -> str:
    return files(package).joinpath(name).read_text(encoding="utf-8")


def _content_policy(css: str, js: str) -> str:
    """A policy by which the browser runs this style and script only, whatever else is there."""
    digests = (hashlib.sha256(text.encode()).digest() for text in (css, js))
    style, script = (f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return f"default-src 'none'; img-src data:; style-src {style}; script-src {script}"

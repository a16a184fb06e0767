"""The report of a model on a test table: one HTML page that needs nothing but itself.

`data.report_data` asks the model once; `render_page` turns what it said into text, section by
section; `write_page` puts that on disk, whole or not at all.
"""

from __future__ import annotations

import base64
import hashlib
import math
import os
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from string import Template

from bacoun.tabular.report.charts import joined, rows
from bacoun.tabular.report.data import ReportData
from bacoun.tabular.report.sections import SECTIONS
from bacoun.whole import whole_file


def render_page(data: ReportData) -> str:
    """The page as text."""
    css, js = _resource("page.css"), _resource("page.js")
    subtitle = f"What it knows and does not know, on {rows(len(data.test))} of {data.names['test']}"
    if data.ood is not None:
        subtitle += f" and {rows(len(data.ood))} from elsewhere, {data.names['ood']}"
    text = {
        "model": data.names["model"],
        "test_name": data.names["test"],
        "subtitle": f"{subtitle}.",
        "most": f"{math.log(len(data.classes)):.3g}",
        "footer": f"Written {data.written} by bacoun {version('bacoun')}.",
    }
    return Template(_resource("page.html")).substitute(
        {key: joined([words]) for key, words in text.items()}
        | {name: draw(data) for name, draw in SECTIONS.items()},
        policy=f"default-src 'none'; img-src data:; style-src {_hash(css)}; script-src {_hash(js)}",
        css=css,
        js=js,
    )


def write_page(data: ReportData, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write the page to a new file, whole or not at all."""
    target = Path(path)
    check_free(target, overwrite=overwrite)
    text = render_page(data)
    target.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(target) as file:
        file.write(text.encode())


def check_free(path: Path, *, overwrite: bool) -> None:
    """Refuse a folder, and a file that is there already unless it may be replaced."""
    if path.is_dir():
        raise IsADirectoryError(f"path must be a file; '{path}' is a folder. Name a file in it.")
    if path.exists() and not overwrite:
        raise FileExistsError(
            f"path must not exist yet; '{path}' does. Choose another, or pass --overwrite."
        )


def _resource(name: str) -> str:
    return files("bacoun.tabular.report").joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """How a content security policy names the one script or style that may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

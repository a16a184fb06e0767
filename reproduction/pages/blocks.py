"""Tables of experiments inside hand-written pages, between markers."""

from __future__ import annotations

import re
from pathlib import Path

from reproduction.pages.tables import markdown_table
from reproduction.results import load_records
from reproduction.schema import read_experiment

PAGES = ("diagnosis.md", "gp-limit.md")
_BLOCK = re.compile(r"<!-- experiment ([\w-]+) -->.*?<!-- end -->", re.DOTALL)


def write_tables(folder: Path, docs: Path) -> None:
    """Fill the blocks of all pages in `docs` that have some."""
    for name in PAGES:
        page = docs / name
        page.write_text(with_tables(folder, page.read_text()))


def with_tables(folder: Path, text: str) -> str:
    """A page, each block `<!-- experiment NAME -->` to `<!-- end -->` made from the records."""

    def table(block: re.Match[str]) -> str:
        experiment = read_experiment(block[1])
        content = markdown_table(experiment, load_records(folder, block[1])).strip()
        return f"<!-- experiment {block[1]} -->\n\n{content}\n\n<!-- end -->"

    return _BLOCK.sub(table, text)

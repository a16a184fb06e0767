"""Blocks of hand-written pages, between `<!-- NAME -->` and `<!-- end -->`, made from records."""

from __future__ import annotations

import re
from pathlib import Path

from reproduction.pages.claims import Results
from reproduction.pages.tables import markdown_table
from reproduction.results import load_records
from reproduction.schema import read_experiment

from reproduction.pages import disentanglement_tables, doubt_tables

PAGES = ("diagnosis.md", "disentanglement.md", "doubt.md", "gp-limit.md")
TABLES = doubt_tables.TABLES | disentanglement_tables.TABLES
_EXPERIMENT = re.compile(r"<!-- (experiment ([\w-]+)) -->")


def write_tables(folder: Path, docs: Path) -> None:
    """Fill the blocks `experiment NAME` of all pages in `docs` that have some."""
    for name in PAGES:
        page = docs / name
        page.write_text(with_tables(folder, page.read_text()))


def with_tables(folder: Path, text: str) -> str:
    """A page with the table of each experiment, and each of `TABLES`, that it has a block for."""
    for block, name in _EXPERIMENT.findall(text):
        experiment = read_experiment(name)
        table = markdown_table(experiment, load_records(folder, experiment))
        text = with_block(text, block, table)
    if named := [name for name in TABLES if f"<!-- {name} -->" in text]:
        results = Results(folder)
        for name in named:
            text = with_block(text, name, TABLES[name](results))
    return text


def with_block(text: str, name: str, content: str) -> str:
    """A page with new content in its one block of that name."""
    block = f"<!-- {name} -->\n\n{content.strip()}\n\n<!-- end -->"
    pattern = rf"<!-- {re.escape(name)} -->.*?<!-- end -->"
    text, n_found = re.subn(pattern, lambda _: block, text, flags=re.DOTALL)
    if n_found != 1:
        raise ValueError(f"the page must have one block '{name}'; it has {n_found}.")
    return text

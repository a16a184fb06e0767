"""The paper, claim by claim: what it says, what the records say, and whether it holds.

Every number on the page is taken from a record, and every verdict follows from a rule in the
modules of claims, so that new records give a new page.
"""

from __future__ import annotations

import os
from pathlib import Path

from reproduction.pages.claims import OPEN, Claim, Results
from reproduction.pages.figures import figure_names
from reproduction.pages.further_claims import FURTHER_CLAIMS
from reproduction.pages.image_claims import IMAGE_CLAIMS
from reproduction.pages.plane_claims import PLANE_CLAIMS
from reproduction.pages.tables import markdown_table
from reproduction.pages.wine_claims import WINE_CLAIMS
from reproduction.results import Record
from reproduction.schema import read_experiment

CLAIMS = (*PLANE_CLAIMS, *WINE_CLAIMS, *FURTHER_CLAIMS, *IMAGE_CLAIMS)


def write_page(folder: Path, page: Path) -> None:
    """Write the page from the records in `folder`."""
    page.write_text(page_text(Results(folder), folder, page))


def page_text(results: Results, folder: Path, page: Path) -> str:
    """The page as Markdown."""
    lines = [_OPENING]
    checked = [(claim, *_check(claim, results)) for claim in CLAIMS]
    lines += ["| claim | where | verdict |", "|---|---|---|"]
    lines += [f"| {claim.statement} | {claim.where} | **{said}** |" for claim, _, said in checked]
    for claim, measured, said in checked:
        lines += ["", f"### {claim.statement}", "", f"*{claim.where}.* **{said.capitalize()}.** "]
        lines[-1] += measured[:1].upper() + measured[1:]
        if claim.remark:
            lines += ["", claim.remark]
    lines += ["", "## Tables", ""]
    for name, records in results.records.items():
        if records:
            lines += _table_of(name, records, folder, page)
    return "\n".join(lines).rstrip() + "\n"


def _check(claim: Claim, results: Results) -> tuple[str, str]:
    try:
        return claim.check(results)
    except KeyError as missing:
        return f"not measured yet ({missing.args[0]}).", OPEN


def _table_of(name: str, records: list[Record], folder: Path, page: Path) -> list[str]:
    experiment = read_experiment(name)
    drawn = [folder / "figures" / f"{name}-{figure}.png" for figure in figure_names(experiment)]
    text = [f"### {experiment.title}", "", f"`python -m reproduction {name}`", ""]
    text += [markdown_table(experiment, records)]
    for figure in filter(Path.exists, drawn):
        text += [f"![{figure.stem}]({_relative(figure, page.parent)})", ""]
    return text


def _relative(path: Path, start: Path) -> str:
    return Path(os.path.relpath(path, start)).as_posix()


_OPENING = """# The paper, claim by claim

What "BaCOUn: Bayesian Classifiers with Out-of-Distribution Uncertainty" says, what we measured, and
whether it holds. This page is written by `python -m reproduction all --page docs/paper.md` from the
records in `results/`: each number is a mean ± standard deviation over seeds, each verdict follows
from a rule in `reproduction/pages/`. "BaCOUn" is the library's default, with doubt;
"BaCOUn, paper" are the paper's own settings. A baseline that wins is shown as winning.
"""

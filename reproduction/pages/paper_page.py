"""The paper, claim by claim: what it says, what the records say, and whether it holds.

Every number on the page is taken from a record, and every verdict follows from a rule in the
modules of claims, so that new records give a new page.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

from reproduction.pages.claims import (
    BOTH,
    FAILS,
    HOLDS,
    OPEN,
    UNDECIDED,
    VERDICTS,
    Claim,
    Results,
)
from reproduction.pages.figures import figure_names
from reproduction.pages.further_claims import FURTHER_CLAIMS
from reproduction.pages.image_claims import IMAGE_CLAIMS
from reproduction.pages.overview import overview
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
    lines = [_OPENING, overview(results)]
    verdicts = [_verdicts(claim, results) for claim in CLAIMS]
    lines += ["| claim | where | the paper's recipe | our default |", "|---|---|---|---|"]
    for claim, (paper, ours) in zip(CLAIMS, verdicts, strict=True):
        cells = f"**{paper}** | - |" if claim.shared else f"**{paper}** | **{ours}** |"
        lines.append(f"| {claim.statement} | {claim.where} | {cells}")
    lines += ["", _counts(verdicts)]
    for claim, (paper, ours) in zip(CLAIMS, verdicts, strict=True):
        said = paper if claim.shared else f"the paper's recipe: {paper}; our default: {ours}"
        measured = _measured(claim, results)
        lines += ["", f"### {claim.statement}", "", f"*{claim.where}.* **{_sentence(said)}.** "]
        lines[-1] += measured
        if claim.remark:
            lines += ["", claim.remark]
    lines += ["", "## Tables", ""]
    for name, records in results.records.items():
        if records:
            lines += _table_of(name, records, folder, page)
    return "\n".join(lines).rstrip() + "\n"


def _verdicts(claim: Claim, results: Results) -> list[str]:
    """Of the paper's recipe, and of our default."""
    found = []
    for variant in BOTH:
        try:
            found.append(claim.weigh(results, variant))
        except KeyError:
            found.append(OPEN)
    return found


_PLURAL = {HOLDS: "hold", FAILS: "do not hold", UNDECIDED: "are undecided"}


def _counts(verdicts: list[list[str]]) -> str:
    """How many claims hold, in a sentence for each column; shared ones count for the paper."""
    shared = [claim.shared for claim in CLAIMS]
    of_paper = Counter(paper for paper, _ in verdicts)
    of_ours = Counter(
        ours for (_, ours), is_shared in zip(verdicts, shared, strict=True) if not is_shared
    )
    return " ".join(
        f"{name}: {', '.join(f'{counts[v]} {_PLURAL.get(v, v)}' for v in VERDICTS if counts[v])}."
        for name, counts in (("The paper's recipe", of_paper), ("Our default", of_ours))
    )


def _measured(claim: Claim, results: Results) -> str:
    try:
        return claim.measured(results)
    except KeyError as missing:
        return f"Not measured yet ({missing.args[0]})."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


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
whether it holds: for the paper's own recipe ("BaCOUn, paper", without doubt) and for the library's
default ("BaCOUn", with doubt). This page is written by `python -m reproduction all --page
docs/paper.md` from the records in `results/`; numbers are means ± standard deviations over seeds.

Each verdict follows from a rule in `reproduction/pages/`, which compares numbers seed by seed. A
difference of more than two standard errors decides; otherwise the claim is undecided, as it is with
a single seed. A claim that has several parts holds if all of them do. Where the paper is silent,
[its settings are read](readings.md) in the way that comes closest to its tables.

Epistemic uncertainty is estimated from draws: 200 on the Gaussian mixture and the moons, 500 on
Wine, 100 for BNN and MC-Dropout on images. A deep ensemble has five. With S draws that differ
little, the estimate is too low by a factor of about (S - 1) / S, and it never exceeds log S, so
compare an ensemble's uncertainty by how it ranks points, not by its size.
"""

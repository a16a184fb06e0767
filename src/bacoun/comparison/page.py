"""The page of a comparison: one HTML file that needs nothing else."""

import os

from bacoun.comparison.cases import SYNTHETIC
from bacoun.comparison.summary import HIDDEN_BELOW, Summary
from bacoun.files.atomic import atomic_write
from bacoun.report.page import environment

_LEVELS = 6  # shades of a cell, from chance to perfect


def level(auroc: float) -> int:
    """The shade of a cell: 0 for chance or worse, the darkest for a perfect score.

    Examples
    --------
    >>> level(0.3), level(0.55), level(0.95), level(1.0)
    (0, 0, 4, 5)
    """
    return min(_LEVELS - 1, max(0, int((auroc - 0.5) * 2 * (_LEVELS - 1) + 1e-9)))


def render_page(summary: Summary, names: dict[str, str]) -> str:
    """The page as text; `names` has those of the "table" and the "target"."""
    templates = environment("bacoun.report", "bacoun.comparison")
    explained = {name: (make.__doc__ or "").strip() for name, make in SYNTHETIC.items()}
    return templates.get_template("comparison.html.j2").render(
        summary=summary,
        names=names,
        level=level,
        explained=explained,
        hidden_below=HIDDEN_BELOW,
    )


def write_page(summary: Summary, names: dict[str, str], path: str | os.PathLike[str]) -> None:
    """Write the page to a file, completely or not at all."""
    with atomic_write(path) as file:
        file.write(render_page(summary, names).encode())

"""Finding: one thing that is different about a table, and how to say it in a few lines."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from bacoun.columns.reading import listed

Severity = Literal["serious", "note"]


@dataclass(frozen=True)
class Finding:
    """One difference between a table and the training table.

    Attributes
    ----------
    severity : {"serious", "note"}
        "serious" if the scores of many rows mean nothing, or the table cannot be scored at all.
    column : str or None
        The column concerned; None for the table as a whole.
    kind : str
        Short name, such as "unit" or "missing column".
    message : str
        A sentence: what was expected, what came, and what explains it if that is known.
    """

    severity: Severity
    column: str | None
    kind: str
    message: str


def most_serious_first(findings: Iterable[Finding]) -> list[Finding]:
    """Sort by severity; otherwise the order stays."""
    return sorted(findings, key=lambda finding: finding.severity != "serious")


def summary(findings: Sequence[Finding], n_lines: int = 3) -> list[str]:
    """The most important findings in at most `n_lines` lines; the last says how many more.

    Findings of one kind share a line, which gives the message of the first and names the other
    columns.
    """
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in most_serious_first(findings):
        groups.setdefault((finding.severity, finding.kind), []).append(finding)
    lines = [_line(group) for group in groups.values()]
    if len(lines) <= n_lines:
        return lines
    shown = max(n_lines - 1, 0)
    n_more = sum(map(len, [*groups.values()][shown:]))
    more = f"and {n_more} more {'finding' if n_more == 1 else 'findings'}; bacoun check lists all."
    return [*lines[:shown], more][:n_lines]


def _line(group: list[Finding]) -> str:
    first, others = group[0], [finding.column for finding in group[1:]]
    same = f" The same in {listed(others, most=3)}." if others else ""
    return f"{first.severity}: {first.message}{same}"

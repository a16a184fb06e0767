"""Why a row is listed: an explanation of the model, as words and pictures column by column."""

from collections.abc import Mapping
from typing import NamedTuple

from bacoun.columns.column import Column
from bacoun.report.formats import nats
from bacoun.report.strips import Strip, draw
from bacoun.tabular.explanation import MAX_REPAIRS, Explanation, Surprise


class Reason(NamedTuple):
    """A column of a row: its value, what that means, and a picture of it."""

    words: str
    meaning: str = ""
    strip: Strip | None = None


def reasons(explanation: Explanation, columns: Mapping[str, Column]) -> list[Reason]:
    """The columns that explain a row, at most three, in the order of the explanation."""
    if explanation.reason == "ambiguous":
        return [
            Reason(
                f"{pull.column} = {pull.value}",
                f"speaks for {pull.label} (log-odds {pull.log_odds:.2f})",
                draw(columns[pull.column], pull.value),
            )
            for pull in explanation.pulls[:MAX_REPAIRS]
        ]
    repaired = explanation.surprises[: explanation.n_repairs or MAX_REPAIRS]
    surprises, found = {each.column: each for each in repaired}, []
    for unseen in explanation.unseen[:MAX_REPAIRS]:
        surprise, strip = surprises.pop(unseen.column, None), None
        if unseen.column in columns:  # or it is no input, because it was constant
            expected = surprise and surprise.expected
            strip = draw(columns[unseen.column], unseen.value, expected)
        found.append(Reason(str(unseen), _expected(surprise) if surprise else "", strip))
    if len(explanation.unseen) > MAX_REPAIRS:
        found.append(Reason(f"{len(explanation.unseen) - MAX_REPAIRS} more not seen in training"))
    for surprise in list(surprises.values())[: max(MAX_REPAIRS - len(found), 0)]:
        strip = draw(columns[surprise.column], surprise.value, surprise.expected)
        found.append(Reason(f"{surprise.column} = {surprise.value}", _expected(surprise), strip))
    return found


def _expected(surprise: Surprise) -> str:
    return f"expected {surprise.expected}, surprise {nats(surprise.nats)}"

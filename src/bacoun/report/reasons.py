"""Why a row is listed: an explanation of the model, as words and pictures column by column."""

from collections.abc import Mapping
from typing import NamedTuple

from bacoun.columns.column import Column, quoted
from bacoun.columns.photo_files import data_uri
from bacoun.report.formats import nats
from bacoun.report.strips import Strip, draw
from bacoun.tabular.explanation import MAX_REPAIRS, Explanation, Nearest, Surprise

_TEXT, _KNOWN_TEXT = 300, 120  # characters that are shown


class Known(NamedTuple):
    """A text or photo of the training rows: in words or as a data URI, and what it is."""

    words: str
    picture: str
    about: str


class Reason(NamedTuple):
    """A column of a row: its value, what that means, and a picture of it."""

    words: str
    meaning: str = ""
    strip: Strip | None = None
    photo: str = ""  # data URI
    nearest: tuple[Known, ...] = ()  # of a text or photo


def reasons(
    explanation: Explanation, columns: Mapping[str, Column], items: Mapping[str, str] | None = None
) -> list[Reason]:
    """The columns that explain a row, at most three, in the order of the explanation.

    `items` are the texts of the row, and the data URIs of its photos, by column.
    """
    shown = items or {}
    if explanation.reason == "ambiguous":
        return [
            _item(explanation, pull.column, pull.value, shown, words)
            or Reason(
                f"{pull.column} = {pull.value}", words, draw(columns[pull.column], pull.value)
            )
            for pull in explanation.pulls[:MAX_REPAIRS]
            for words in [f"speaks for {pull.label} (log-odds {pull.log_odds:.2f})"]
        ]
    repaired = explanation.surprises[: explanation.n_repairs or MAX_REPAIRS]
    surprises, found = {each.column: each for each in repaired}, []
    for unseen in explanation.unseen[:MAX_REPAIRS]:
        surprise, strip = surprises.pop(unseen.column, None), None
        # Or it is no input, because it was constant.
        if unseen.column in columns and columns[unseen.column].embedding is None:
            expected = surprise and surprise.expected
            strip = draw(columns[unseen.column], unseen.value, expected)
        found.append(Reason(str(unseen), _expected(surprise) if surprise else "", strip))
    if len(explanation.unseen) > MAX_REPAIRS:
        found.append(Reason(f"{len(explanation.unseen) - MAX_REPAIRS} more not seen in training"))
    for surprise in list(surprises.values())[: max(MAX_REPAIRS - len(found), 0)]:
        column, value = surprise.column, surprise.value
        unlike = f"surprise {nats(surprise.nats)}, compared with typical known ones"
        if item := _item(explanation, column, value, shown, unlike):
            found.append(item)
            continue
        if columns[column].embedding is None:
            strip = draw(columns[column], value, surprise.expected)
            found.append(Reason(f"{column} = {value}", _expected(surprise), strip))
    return found


def _item(
    explanation: Explanation, column: str, value: str, items: Mapping[str, str], meaning: str
) -> Reason | None:
    """A text or photo beside the nearest known ones; None for another column, or a gap."""
    nearest = [each for each in explanation.nearest if each.column == column]
    if not nearest:
        return None
    is_photo, shown = nearest[0].kind == "photo", items.get(column, "")
    words = value if is_photo or not shown else quoted(shown, _TEXT)
    known = tuple(map(_known, nearest))
    return Reason(f"{column} = {words}", meaning, None, shown if is_photo else "", known)


def _known(nearest: Nearest) -> Known:
    picture = "" if nearest.thumbnail is None else data_uri(nearest.thumbnail)
    words = nearest.text if picture else quoted(nearest.text, _KNOWN_TEXT)
    return Known(words, picture, f"{nearest.label}, similarity {nearest.similarity:.2f}")


def _expected(surprise: Surprise) -> str:
    return f"expected {surprise.expected}, surprise {nats(surprise.nats)}"

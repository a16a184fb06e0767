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
        found = []
        for pull in explanation.pulls[:MAX_REPAIRS]:
            speaks = f"speaks for {pull.label} (log-odds {pull.log_odds:.2f})"
            reason = Reason(f"{pull.column} = {pull.value}", speaks)
            if columns[pull.column].embedding is None:
                found.append(reason._replace(strip=draw(columns[pull.column], pull.value)))
            else:
                found.append(_with_items(reason, explanation, pull.column, shown))
        return found
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
        column, words = surprise.column, f"{surprise.column} = {surprise.value}"
        if columns[column].embedding is None:
            strip = draw(columns[column], surprise.value, surprise.expected)
            found.append(Reason(words, _expected(surprise), strip))
        else:
            meaning = f"surprise {nats(surprise.nats)}, compared with typical known ones"
            found.append(_with_items(Reason(words, meaning), explanation, column, shown))
    return found


def _with_items(
    reason: Reason, explanation: Explanation, column: str, items: Mapping[str, str]
) -> Reason:
    """The reason with the text or photo of the row, if it has any, and the nearest known ones."""
    nearest = [each for each in explanation.nearest if each.column == column]
    if not nearest or column not in items:
        return reason
    known = tuple(map(_known, nearest))
    if nearest[0].kind == "photo":
        return reason._replace(photo=items[column], nearest=known)
    words = f"{column} = {quoted(items[column], _TEXT)}"
    return reason._replace(words=words, nearest=known)


def _known(nearest: Nearest) -> Known:
    picture = "" if nearest.thumbnail is None else data_uri(nearest.thumbnail)
    words = nearest.text if picture else quoted(nearest.text, _KNOWN_TEXT)
    return Known(words, picture, f"{nearest.label}, similarity {nearest.similarity:.2f}")


def _expected(surprise: Surprise) -> str:
    return f"expected {surprise.expected}, surprise {nats(surprise.nats)}"

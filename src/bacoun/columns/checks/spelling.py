"""Why cells cannot be read, and which known categories unknown ones stand for."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from itertools import islice

import numpy as np
import pandas as pd

from bacoun.columns import dates
from bacoun.columns.cells import as_numbers, as_text, example_date
from bacoun.columns.column import Column

MISSING_WORDS = frozenset(
    ["?", "-", "--", ".", "*", "missing", "unknown", "n.a.", "na", "nil", "void", "not available",
     "-1", "-9", "-99", "-999", "-9999", "999", "9999", "#null!", "#value!", "#ref!", "#div/0!"]
)  # fmt: skip
_EXAMPLES = 1000  # unreadable cells that are looked at
_MOST = 0.9  # share of the cells that an explanation must explain
_NUMBER = r"[-+]?\d+"
_THOUSANDS = re.compile(r"[-+]?\d{1,3}(,\d{3})+")
_DECIMAL_COMMA = _NUMBER + r",\d+(e[-+]?\d+)?"
_NUMBERS_IN_TEXT = {  # what the cells look like -> what they have, and what to do
    _DECIMAL_COMMA: "they have a decimal comma; export with decimal points",
    r"[-+]?\d{1,3}([ ,.'\u2019\u00a0\u202f]\d{3})+([.,]\d+)?": (
        "they have separators between thousands; export without"
    ),
    _NUMBER + r"([.,]\d+)?\s*%": "they have percent signs; export plain numbers",
    r"[<>\u2264\u2265~]=?\s*" + _NUMBER + r"([.,]\d+)?": (
        "they are bounds of a measurement; decide on a number for them"
    ),
    r"\W*" + _NUMBER + r"([.,]\d+)?\s*\D{1,8}": (
        "they have a unit in the cell; export plain numbers"
    ),
    r"[$\u20ac\u00a3]\s*" + _NUMBER + r"([.,]\d+)*": (
        "they have a currency sign; export plain numbers"
    ),
    r"true|false": "they are true or false; export numbers",
}


def explain_cells(training: Column, bad: pd.Series) -> tuple[str, str]:
    """The kind of a finding about unreadable cells (n,), n > 0, and a clause on why."""
    text = [value.strip() for value in as_text(bad.iloc[:_EXAMPLES])]
    such = f"such as {text[0][:40]!r}"
    if _mostly(text, lambda value: value.lower() in MISSING_WORDS):
        return "missing code", f"{such}, which may stand for a missing value; leave the cell empty"
    if training.kind == "boolean":
        names = ", ".join(repr(value[:40]) for value in islice(dict.fromkeys(text), 3))
        return "recoded", f"they are {names}; recode them as true and false"
    if training.kind == "date":
        return "date format", f"{such}{_explain_dates(training, text)}"
    if _mostly(text, _THOUSANDS.fullmatch) and _fit_as_thousands(training, text):
        return "retyped", f"{such}; they have commas between thousands; export without"
    for shape, why in _NUMBERS_IN_TEXT.items():
        if _mostly(text, re.compile(shape, re.IGNORECASE).fullmatch):
            return "decimal comma" if shape == _DECIMAL_COMMA else "retyped", f"{such}; {why}"
    return "retyped", such


def explain_categories(known: Mapping[str, int], new: Iterable[str]) -> str:
    """How most of the `new` categories became of known ones, or "" if that is not clear."""
    names = list(islice(new, _EXAMPLES))
    ways: dict[str, Callable[[str], str]] = {
        "letter case or spaces differ": _plain_case,
        "leading zeros or decimals differ": _plain_number,
        "accents or the text encoding differ": _plain_letters,
        "punctuation differs": lambda name: re.sub(r"[\W_]", "", _plain_letters(name)),
    }
    for label, simplify in ways.items():
        simple = {simplify(name): name for name in known}
        became = {name: simple.get(simplify(name), "") for name in names}
        if _mostly(names, became.__getitem__):
            return f"{label}, {_example(became)}"
    starts = {name: [whole for whole in known if name and whole.startswith(name)] for name in names}
    became = {name: wholes[0] if wholes else "" for name, wholes in starts.items()}
    if _mostly(names, became.__getitem__):
        return f"they are truncated, {_example(became)}"
    if _are_numbers(names) and not _are_numbers(known):
        return f"they are numbers, training had {_some(known)}; recode them"
    if _are_numbers(known) and not _are_numbers(names):
        return f"training had numbers such as {_some(known)}; recode them"
    return ""


def _fit_as_thousands(training: Column, text: list[str]) -> bool:
    """Whether 1,234 is rather 1234 than 1.234, by the range of training."""
    whole, decimal = (
        float(np.nanmedian(as_numbers(pd.Series(text, dtype=object).str.replace(",", mark))))
        for mark in ("", ".")
    )
    return training.low <= whole <= training.high and not training.low <= decimal <= training.high


def _explain_dates(training: Column, text: list[str]) -> str:
    advice = f"; write them as in training, such as {example_date(training.date_format)}"
    try:
        date_format = dates.find_format(np.array(text, dtype=object))
    except ValueError:
        return f", where day and month cannot be told apart{advice}"
    if date_format is not None:
        return f", which is {date_format}{advice}"
    numbers = as_numbers(pd.Series(text, dtype=object))
    counted = {
        "days since 1900, as in Excel": numbers - 25569,
        "seconds since 1970": numbers / 86400,
        "milliseconds since 1970": numbers / 86400e3,
        "written as 20210403": dates.parse(np.array(text, dtype=object), "%Y%m%d"),
    }
    for label, days in counted.items():
        near = (days > training.low - 3653) & (days < training.high + 3653)
        if near.mean() >= _MOST:
            return f", {label}{advice}"
    return advice


def _mostly(items: list[str], holds: Callable[[str], object]) -> bool:
    return bool(items) and float(np.mean([bool(holds(item)) for item in items])) >= _MOST


def _example(became: Mapping[str, str]) -> str:
    name = next(name for name in became if became[name])
    return f"as in '{name}' for '{became[name]}'"


def _plain_case(name: str) -> str:
    return " ".join(name.casefold().split())


def _plain_number(name: str) -> str:
    stripped = re.sub(r"\.0+$", "", name.strip()).lstrip("0")
    return stripped or "0"


def _plain_letters(name: str) -> str:
    """Without accents; UTF-8 that was read as Latin-1 is read again."""
    with suppress(UnicodeError):
        name = name.encode("cp1252").decode("utf-8")
    parts = unicodedata.normalize("NFKD", _plain_case(name))
    return "".join(part for part in parts if not unicodedata.combining(part))


def _are_numbers(names: Iterable[str]) -> bool:
    return not np.isnan(as_numbers(pd.Series(list(names), dtype=object))).any()


def _some(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in islice(names, 3))

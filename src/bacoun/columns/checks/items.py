"""What is different about texts and photos: language, length, boilerplate, unreadable files."""

from collections.abc import Iterator

import numpy as np
from scipy.stats import binom

from bacoun.columns.cells import Cells
from bacoun.columns.checks.comparing import compare, items_in
from bacoun.columns.checks.findings import Finding, Severity
from bacoun.columns.column import Column, quoted
from bacoun.columns.embedding import reason_in
from bacoun.columns.photo_files import short_name
from bacoun.columns.writing_style import WritingStyle, known_shares, most_common_opening
from bacoun.encoders import unreadable_photos
from bacoun.files.text import percent

_FEWEST = 5  # texts that say something about a table
_OTHER_WORDS, _OTHER_LANGUAGE = 0.3, 0.6  # of the known words' share is lost
_FAR = 1.5  # by which a text is shorter or longer than nearly all in training
_MANY, _MOST = 0.2, 0.5  # share of texts of an unusual length: a note, or serious
_REPEATED = 0.5  # share of texts that begin alike, more than in training
_PHOTOS = 1000  # that are opened, at most
_SERIOUS = 0.05  # share of photos that cannot be read
_NAMED = 3


def item_findings(training: Column, cells: Cells, alpha: float) -> Iterator[Finding]:
    """All that is different about a column of texts or photos, but for its gaps."""
    items = items_in(cells)
    style = None if training.embedding is None else training.embedding.style
    if training.kind == "photo" and items:
        yield from _photos(training.name, items)
    elif style is not None and len(items) >= _FEWEST:
        yield from _words(training, cells, style, alpha)
        yield from _lengths(training.name, items, style, alpha)
        yield from _openings(training.name, items, style)


def _finding(is_serious: bool, name: str, kind: str, message: str) -> Finding:
    severity: Severity = "serious" if is_serious else "note"
    return Finding(severity, name, kind, f"'{name}' {message}")


def _words(training: Column, cells: Cells, style: WritingStyle, alpha: float) -> Iterator[Finding]:
    size, p, _ = compare(training, cells)
    now = float(known_shares(items_in(cells), style.words).mean())
    if p < alpha and size >= _OTHER_WORDS and now < style.known:
        is_language = size >= _OTHER_LANGUAGE
        message = (
            f"is in another {'language or ' if is_language else ''}vocabulary: {percent(now)} of "
            f"the words are among the most frequent ones of training; {percent(style.known)} were."
        )
        yield _finding(is_language, training.name, "vocabulary", message)


def _lengths(name: str, texts: list[str], style: WritingStyle, alpha: float) -> Iterator[Finding]:
    lengths, (low, high) = np.array([len(text) for text in texts]), style.usual_lengths
    rate = 0.025 + 3 * np.sqrt(0.025 / style.n_texts)  # quantiles of few texts are rough
    for word, unusual, bound in (
        ("shorter", lengths < low / _FAR, f"under {low / _FAR:.0f}"),
        ("longer", lengths > high * _FAR, f"over {high * _FAR:.0f}"),
    ):
        share = float(unusual.mean())
        if share > _MANY and binom.sf(unusual.sum() - 1, len(texts), rate) < alpha:
            message = (
                f"is far {word} than in training: {percent(share)} of the texts have {bound} "
                f"characters; 95 % had {low:.0f} to {high:.0f}."
            )
            yield _finding(share > _MOST, name, "length", message)


def _openings(name: str, texts: list[str], style: WritingStyle) -> Iterator[Finding]:
    opening, count = most_common_opening(texts)
    share = count / len(texts)
    if count < _FEWEST or share < _REPEATED + style.opening:
        return
    same = len({text for text in texts if text.startswith(opening)}) == 1
    what = "is the same text" if same else "begins alike"
    message = f"{what} in {percent(share)} of the rows, {quoted(opening)}; leave out boilerplate."
    yield _finding(same, name, "boilerplate", message)


def _photos(name: str, photos: list[str]) -> Iterator[Finding]:
    opened = photos[:: -(-len(photos) // _PHOTOS)]
    unreadable = unreadable_photos(opened)
    if not unreadable:
        return
    share = len(unreadable) / len(opened)
    named = [
        f"'{short_name(opened[i])}' {reason_in(why)}" for i, why in [*unreadable.items()][:_NAMED]
    ]
    more = f"; and {len(unreadable) - _NAMED} more" if len(unreadable) > _NAMED else ""
    message = f"cannot be read in {percent(share)} of the rows: {'; '.join(named)}{more}."
    yield _finding(share > _SERIOUS, name, "unreadable", message)

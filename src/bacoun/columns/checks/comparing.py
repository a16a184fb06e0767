"""How far a column is from training, and how likely so much is by chance.

All tests are exact or conservative whatever the distribution, because a false alarm at the door
teaches people to ignore it.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import gammaln

from bacoun.columns.cells import Cells
from bacoun.columns.column import Column
from bacoun.columns.photo_files import is_photo
from bacoun.columns.writing_style import WritingStyle, known_shares

_TEXTS = 2000  # that are looked at
_FITS = 0.1  # a distance below this is no difference that matters
_FITS_BY_CHANCE = 0.05  # p-value above which a larger one is no evidence


class Difference(NamedTuple):
    """How different a column is.

    The size, from 0 to 1, is the largest difference of the two distribution functions, or of the
    share of a category.
    """

    size: float
    p: float  # probability of at least this size if nothing has changed
    where: str = ""  # the category whose share differs most; empty for numbers

    @property
    def fits(self) -> bool:
        """Whether the column may well be from training."""
        return self.size <= _FITS or self.p >= _FITS_BY_CHANCE


def compare(training: Column, cells: Cells) -> Difference:
    """Compare the cells of a column with training; unreadable cells are a difference."""
    if cells.bad.any():
        return Difference(float(cells.bad.mean()), 0.0)
    present = cells.present
    if len(present) == 0 or training.n_present == 0:
        return Difference(0.0, 1.0)
    if training.kind == "photo":
        others = float(np.mean([not is_photo(cell) for cell in items_in(cells)]))
        return Difference(others, 0.0 if others else 1.0)
    if training.embedding is not None and training.embedding.style is not None:
        return _compare_words(training.embedding.style, items_in(cells))
    if training.kind == "category":
        return _compare_counts(training.counts, cells.counts)
    size = distance(training, np.sort(present), training.cuts)
    return Difference(size, ks_p(size, training.n_present, len(present)))


def items_in(cells: Cells) -> list[str]:
    """The texts or photos that are present."""
    items: list[str] = cells.content[~cells.missing].tolist()
    return items


def _compare_words(before: WritingStyle, texts: list[str]) -> Difference:
    """By which part the share of words that were frequent in training has changed."""
    shares = known_shares(texts[:: -(-len(texts) // _TEXTS)], before.words)
    sd = max(before.known_sd, float(shares.std()), 1e-3)
    error = sd * np.sqrt(1 / before.n_texts + 1 / len(shares))
    change = abs(float(shares.mean()) - before.known)
    p = float(2 * stats.norm.sf(change / error))
    return Difference(min(change / max(before.known, 1e-3), 1.0), p)


def distance(
    training: Column, ordered: np.ndarray, cuts: np.ndarray, increasing: bool = True
) -> float:
    """Largest difference of the distribution functions at the cuts, a lower bound of that anywhere.

    `cuts` (c,) are those of the training column in the unit of the new values (n,), which are
    sorted; the conversion to that unit keeps the order if `increasing`, otherwise it reverses it.
    """
    cdf = np.searchsorted(ordered, cuts, side="right" if increasing else "left") / len(ordered)
    cdf = cdf if increasing else 1 - cdf
    return float(np.abs(cdf - np.array(training.cdf)).max(initial=0.0))


def ks_p(size: float, n_before: int, n_now: int) -> float:
    """p-value of a two-sample Kolmogorov-Smirnov distance; conservative for small samples."""
    return float(stats.kstwobign.sf(size * np.sqrt(n_before * n_now / (n_before + n_now))))


def _compare_counts(before: Mapping[str, int], now: Mapping[str, int]) -> Difference:
    """Compare the shares of categories, one by one; those not in `before` count as one."""
    unseen = sum(count for name, count in now.items() if name not in before)
    old = np.array([*before.values(), 0])
    new = np.array([*(now.get(name, 0) for name in before), unseen])
    size = np.abs(new / max(new.sum(), 1) - old / max(old.sum(), 1))
    worst = int(size.argmax())
    p = share_p(old[worst], int(old.sum()), new[worst], int(new.sum()))
    return Difference(
        float(size[worst]), min(1.0, float(p) * len(size)), [*before, "others"][worst]
    )


def share_p(before: Any, n_before: int, now: Any, n_now: int) -> Any:
    """Two-sided p-values of Fisher's exact test: `now` of `n_now` rows, after `before`."""
    total, marked = n_before + n_now, before + now
    more = stats.hypergeom.sf(now - 1, total, marked, n_now)
    fewer = stats.hypergeom.cdf(now, total, marked, n_now)
    return np.minimum(1.0, 2 * np.minimum(more, fewer))


def extreme_p(n_extreme: int, n_now: int, n_before: int) -> float:
    """Probability that the `n_extreme` largest of all values are all among the new ones.

    It is the same for every distribution: the product of (n_now - i) / (n_now + n_before - i).
    """
    if n_extreme == 0:
        return 1.0
    total = n_now + n_before
    ways = gammaln(n_now + 1) - gammaln(n_now - n_extreme + 1)
    return float(np.exp(ways - gammaln(total + 1) + gammaln(total - n_extreme + 1)))


def unseen_p(n_unseen: int, n_now: int, n_before: int, once: int = 0) -> float:
    """Probability of so many rows with something that training did not have.

    Good and Turing: the chance of something new is the share of what was seen once. `once` is the
    number of these; three standard errors are added to it.
    """
    if once:
        rate = min(1.0, (once + 3 * once**0.5) / max(n_before, 1))
        return float(stats.binom.sf(n_unseen - 1, n_now, rate))
    # What never happened, nor happened once, is rarer than 1 / n_before.
    any_at_all = float(stats.binom.sf(0, n_now, 0.1 / max(n_before, 1)))
    return min(any_at_all, extreme_p(n_unseen, n_now, n_before))

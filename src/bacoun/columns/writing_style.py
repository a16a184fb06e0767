"""WritingStyle: what free text is like, as a whole: how long, in which words, how it begins."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

_WORD = re.compile(r"[^\W\d_]+")
_FREQUENT = 500  # words that are kept
_LOOKED_AT = 5000  # texts
_OPENING = 25  # characters by which texts that begin alike are found
_LEVELS = np.linspace(0, 1, 41)


@dataclass(frozen=True)
class WritingStyle:
    """The texts of a training table as a whole."""

    n_texts: int
    lengths: tuple[float, ...]  # 41 quantiles of the numbers of characters
    words: tuple[str, ...]  # the most frequent ones, in lower case
    known: float  # mean share of these among the words of a new text
    known_sd: float
    opening: float  # largest share of texts with the same beginning

    @classmethod
    def of(cls, texts: Sequence[str]) -> Self:
        """Describe texts."""
        some = texts[:: -(-len(texts) // _LOOKED_AT)]
        # Half of the texts say which words are frequent, as the others are new to these.
        counts = Counter(word for text in some[::2] for word in set(words_of(text)))
        words = sorted(word for word, _ in counts.most_common(_FREQUENT))
        known = known_shares(some[1::2] or some, words)
        lengths = np.quantile([len(text) for text in texts], _LEVELS, method="inverted_cdf")
        _, opening = most_common_opening(texts)
        share = opening / len(texts)
        mean, sd = float(known.mean()), float(known.std())
        return cls(len(texts), tuple(lengths.tolist()), tuple(words), mean, sd, share)

    @property
    def usual_lengths(self) -> tuple[float, float]:
        """Numbers of characters that 2.5 % of the texts are below, and that 2.5 % are above."""
        return self.lengths[1], self.lengths[-2]


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case."""
    return _WORD.findall(text.lower())


def known_shares(texts: Sequence[str], words: Sequence[str]) -> np.ndarray:
    """Which share (N,) of the words of each text is among `words`; 0 without words."""
    wanted = frozenset(words)
    found = [[word in wanted for word in words_of(text)] for text in texts]
    return np.array([sum(each) / max(len(each), 1) for each in found], dtype=np.float64)


def most_common_opening(texts: Sequence[str]) -> tuple[str, int]:
    """The first characters that most texts begin with, and how many do."""
    return Counter(text[:_OPENING] for text in texts).most_common(1)[0]

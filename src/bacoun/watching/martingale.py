"""DriftTest: an anytime-valid test of whether new rows still come from the same distribution.

For each quantity that is watched, such as a column or the OOD score, a new value is ranked among
all earlier ones. If rows are exchangeable, these conformal p-values are independent and uniform,
whatever the distribution. A conformal test martingale bets against that: it starts with a capital
of 1, and if nothing has changed its capital exceeds 1 / a with probability at most a, ever (Ville's
inequality). Each of several quantities gets a share of the false alarm probability.

See Vovk, Gammerman and Shafer, *Algorithmic Learning in a Random World* (2nd ed., 2022), part III.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

_CHUNK = 128  # rows whose ranks are computed at once
_PATIENCE = 200  # after n rows, 1 / (n + this) of the capital is redistributed over the bets
_TINY = 1e-9
_TAIL, _STAKE = 0.02, 0.06


def bets(p: np.ndarray) -> np.ndarray:
    """Payoffs (..., J) of J bets at p-values (...); each has mean 1 if p is uniform.

    No bet, on a shift in either direction, on more or less spread, on extreme values, and on a few
    of them among many usual ones.
    """
    p = np.clip(p, _TINY, 1 - _TINY)
    side, spread = p - 0.5, 4 * np.abs(p - 0.5) - 1
    return np.stack(
        [
            np.ones_like(p),
            *(1 + size * side for size in (-1.8, -0.9, 0.9, 1.8)),
            *(1 + size * spread for size in (-0.8, 0.8)),
            *(power * p ** (power - 1) for power in (0.5, 0.8)),
            *(power * (1 - p) ** (power - 1) for power in (0.5, 0.8)),
            *(1 - _STAKE + _STAKE / _TAIL * (end < _TAIL) for end in (p, 1 - p)),
        ],
        axis=-1,
    )


_N_BETS = bets(np.zeros(0)).shape[-1]


@dataclass
class DriftTest:
    """Conformal test martingales of Q quantities whose values are given as bins.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> test = DriftTest.start(rng.multinomial(200, [0.1] * 10, size=1), np.ones(1))
    >>> _ = test.update(rng.integers(0, 10, (500, 1)), rng)
    >>> test.alarm_row is None
    True
    >>> _ = test.update(rng.integers(5, 10, (500, 1)), rng)
    >>> 500 < test.alarm_row < 600
    True
    """

    counts: np.ndarray  # (Q, B) earlier values in each bin; at first those of reference rows
    weights: np.ndarray  # (Q,) share of each quantity in the false alarm probability
    false_alarm: float  # at most the probability of ever raising an alarm without any drift
    n_rows: int  # rows seen
    log_capital: np.ndarray  # (Q,) logarithm of each martingale
    shares: np.ndarray  # (Q, J) how each capital is distributed over bets
    alarm_row: int | None = None  # number of the row at which the alarm was raised, from 1
    alarm_quantity: int | None = None  # index of the quantity that raised it

    @classmethod
    def start(cls, counts: np.ndarray, weights: np.ndarray, false_alarm: float = 0.01) -> Self:
        """A test that has seen no rows but, perhaps, those of reference in `counts` (Q, B)."""
        if not 0 < false_alarm < 1:
            raise ValueError(f"false_alarm must lie between 0 and 1; got {false_alarm}. Try 0.01.")
        capital, shares = np.zeros(len(counts)), np.full((len(counts), _N_BETS), 1 / _N_BETS)
        return cls(counts.astype(float), weights / weights.sum(), false_alarm, 0, capital, shares)

    @property
    def evidence(self) -> np.ndarray:
        """Log-evidence (Q,) against exchangeability; an alarm is raised at `threshold`."""
        return self.log_capital + np.log(self.weights)

    @property
    def threshold(self) -> float:
        """Logarithm of 1 / `false_alarm`."""
        return float(-np.log(self.false_alarm))

    def update(self, bins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Add rows, given as the bins (n, Q) of their quantities; returns p-values (n, Q).

        Larger bins are taken for stranger; ties are broken at random.
        """
        chunks = [bins[start : start + _CHUNK] for start in range(0, len(bins), _CHUNK)]
        p_values = [self._update(chunk, rng) for chunk in chunks]
        return np.concatenate([np.empty((0, len(self.counts))), *p_values])

    def _update(self, bins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        p = self._p_values(bins, rng)
        for payoffs in bets(p):
            parts = self.shares * payoffs
            gain = parts.sum(axis=1)
            self.log_capital = self.log_capital + np.log(gain)
            self.n_rows += 1
            moved = 1 / (self.n_rows + _PATIENCE)
            self.shares = (1 - moved) * parts / gain[:, None] + moved / _N_BETS
            if self.alarm_row is None and self.evidence.max() >= self.threshold:
                self.alarm_row, self.alarm_quantity = self.n_rows, int(self.evidence.argmax())
        return p

    def _p_values(self, bins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Smoothed conformal p-values (n, Q), each among all rows before it and itself."""
        one_hot = np.zeros((*bins.shape, self.counts.shape[1]))
        np.put_along_axis(one_hot, bins[..., None], 1.0, axis=2)
        after = self.counts + one_hot.cumsum(axis=0)
        at_least = after[..., ::-1].cumsum(axis=2)[..., ::-1]  # values in this bin or above
        in_bin = np.take_along_axis(after, bins[..., None], axis=2)[..., 0]
        from_bin = np.take_along_axis(at_least, bins[..., None], axis=2)[..., 0]
        self.counts = after[-1]
        drawn = rng.random(bins.shape)
        return (from_bin - in_bin + drawn * in_bin) / at_least[..., 0]

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in vars(self).items()}

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Self:
        """Inverse of `to_dict`."""
        arrays = {k: np.array(v, float) for k, v in content.items() if isinstance(v, list)}
        values: dict[str, Any] = dict(content) | arrays
        return cls(**values)

"""Explainer: which columns make rows unlikely, or stand between two classes.

A column's surprise is the log density that the row gains if this column alone is replaced by its
likeliest value given all others. An unfamiliar row is repaired greedily: the most surprising column
is replaced, then the next, until the row is familiar. Values outside the range of the training rows
come first, because a flow says little about where it was not fitted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import torch

from bacoun.classifier import BaCOUnClassifier
from bacoun.deferral import DeferralRule
from bacoun.engine.threads import independent_workers
from bacoun.protocols import HasClassDensities
from bacoun.tabular.encoding import TableEncoder
from bacoun.tabular.explanation import MAX_REPAIRS, Explanation, Pull, Surprise
from bacoun.tabular.neighbors import Neighborhood
from bacoun.tabular.replacements import Replacements
from bacoun.tabular.scoring import ScoredRows

_N_CLASSES = 3  # the most likely, whose densities are looked at
_N_COLUMNS = 12  # the most surprising, that are looked at again after a repair
_FIRST = 1e6  # nats that each standard deviation outside counts in the order of repairs
_LOWEST = -1e30  # log density of what a flow cannot represent
_CHUNK = 8192  # rows whose density is computed at once
_ROWS = 400  # that are explained at once, at most

Values = Mapping[str, np.ndarray]
"""Values (n,) of each column, as they are shown to people."""


@dataclass(frozen=True)
class Explainer:
    """Explains why rows are deferred, by the parts of a `TableModel`."""

    classifier: BaCOUnClassifier
    encoder: TableEncoder
    replacements: Replacements
    neighborhood: Neighborhood
    rule: DeferralRule

    def explain(self, frame: pd.DataFrame, scored: ScoredRows) -> list[Explanation]:
        """Explain each row of a table; accepted ones have nothing to explain."""
        reason, values = scored.decide(self.rule).reason, self.encoder.read(frame)
        found = [Explanation(reason="")] * len(frame)

        def explain_rows(rows: np.ndarray) -> None:
            points, probabilities = scored.features[rows], scored.evaluation.probabilities[rows]
            given = {name: column[rows] for name, column in values.items()}
            if reason[rows[0]] == "ambiguous":
                told = self.ambiguous(points, given, probabilities)
            else:
                unseen = self.encoder.unseen_in(frame.iloc[rows])
                told = self.unfamiliar(points, given, probabilities)
                pairs = zip(told, unseen, strict=True)
                told = [replace(each, unseen=words) for each, words in pairs]
            like_this = scored.evaluation.rows_like_this
            for row, explanation in zip(rows, told, strict=True):
                number = None if like_this is None else float(like_this[row])
                found[row] = replace(explanation, rows_like_this=number)

        n_threads, chunks = torch.get_num_threads(), []
        for kind in ("unfamiliar", "ambiguous"):
            rows = np.flatnonzero(reason == kind)
            size = min(_ROWS, -(-len(rows) // n_threads))
            chunks += [rows[first : first + size] for first in range(0, len(rows), max(size, 1))]
        with independent_workers() as run:
            run(explain_rows, chunks)
        return found

    def _is_familiar(self, rows: np.ndarray) -> np.ndarray:
        """Whether encoded rows (n, D) are familiar, but for what training did not have, (n,)."""
        nothing = np.zeros(len(rows), dtype=bool)
        changed = ScoredRows.of(self.classifier, rows, nothing, self.neighborhood)
        return np.asarray(changed.decide(self.rule).reason != "unfamiliar")

    def unfamiliar(
        self, rows: np.ndarray, values: Values, probabilities: np.ndarray
    ) -> list[Explanation]:
        """Explain unfamiliar rows (n, D), whose classes have these probabilities (n, K)."""
        likely = np.argsort(-probabilities, axis=1)[:, :_N_CLASSES]
        n_rows, n_columns = len(rows), len(self.replacements.places)
        current, each = rows.copy(), np.arange(n_rows)
        wanted = np.ones((n_rows, n_columns), dtype=bool)
        unseen = rows[:, [where[0] for where in self.replacements.places]] < 0
        unseen &= [bool(column.levels) for column in self.encoder.columns_]
        only_unseen = self._is_familiar(rows)  # but for what training did not have
        wanted[only_unseen] = unseen[only_unseen]
        repairs: list[list[tuple[int, np.ndarray, float]]] = [[] for _ in range(n_rows)]
        n_repairs = np.zeros(n_rows, dtype=int)
        first: tuple[np.ndarray, list[np.ndarray]] | None = None
        for number in range(1, MAX_REPAIRS + 1):
            nats, expected = self._surprises(current, likely, wanted)
            order = np.where(wanted, nats + _FIRST * self.replacements.outside(current), -1.0)
            if first is None:
                first = nats, expected
                wanted &= order.argsort(axis=1).argsort(axis=1) >= n_columns - _N_COLUMNS
            best, left = order.argmax(axis=1), wanted.any(axis=1)
            for row in np.flatnonzero(left):
                column = int(best[row])
                repairs[row].append((column, expected[column][row], nats[row, column]))
                current[row, self.replacements.places[column]] = expected[column][row]
            wanted[each, best] = False
            n_repairs[(n_repairs == 0) & left & self._is_familiar(current)] = number
        assert first is not None
        return [
            Explanation(
                reason="unfamiliar",
                surprises=self._ranked(values, row, repairs[row], *first)[
                    : len(repairs[row]) if only_unseen[row] else None
                ],
                n_repairs=int(n_repairs[row]),
            )
            for row in range(n_rows)
        ]

    def _ranked(
        self,
        values: Values,
        row: int,
        repairs: list[tuple[int, np.ndarray, float]],
        nats: np.ndarray,
        expected: list[np.ndarray],
    ) -> tuple[Surprise, ...]:
        """Repaired columns of a row in their order, then the others by their surprise."""
        repaired = [column for column, *_ in repairs]
        others = [int(column) for column in np.argsort(-nats[row]) if column not in repaired]
        found = [*repairs, *((each, expected[each][row], nats[row, each]) for each in others)]
        ranked = []
        for place, features, gain in found:
            column = self.encoder.columns_[place]
            shown = column.as_text(values[column.name][row])
            likely = column.as_text(column.decode(features))
            ranked.append(Surprise(column.name, shown, likely, float(gain)))
        return tuple(ranked)

    def _surprises(
        self, rows: np.ndarray, likely: np.ndarray, wanted: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """How much the `wanted` columns (n, C) of rows (n, D) surprise, and what was expected.

        Returns
        -------
        nats : ndarray of shape (n, C)
            Gain in log density by the best replacement of each column; at least 0.
        expected : list of C arrays of shape (n, d)
            These replacements.
        """
        here = self._log_density(rows, likely)
        nats, expected = np.zeros(wanted.shape), []
        for column, where in enumerate(self.replacements.places):
            expected.append(rows[:, where].copy())
            chosen = np.flatnonzero(wanted[:, column])
            if len(chosen) == 0:
                continue
            others = self.replacements.alternatives(column, rows[chosen], likely[chosen])
            densities = self._log_density(
                _replaced(rows[chosen], where, others),
                np.repeat(likely[chosen], others.shape[1], axis=0),
            ).reshape(others.shape[:2])
            best = densities.argmax(axis=1)
            each = np.arange(len(chosen))
            nats[chosen, column] = np.maximum(densities[each, best] - here[chosen], 0.0)
            expected[-1][chosen] = others[each, best]
        return nats, expected

    def _log_density(self, rows: np.ndarray, likely: np.ndarray) -> np.ndarray:
        """Log density (n,) of encoded rows (n, D) in their likely classes (n, c), up to a constant.

        Other classes hardly add to it, and their flows would take most of the time.
        """
        found, classes = [], np.arange(len(self.classifier.classes_))[:, None]
        for start in range(0, len(rows), _CHUNK):
            chunk = slice(start, start + _CHUNK)
            wanted = (likely[chunk].T[:, None] == classes).any(axis=0)  # (K, n)
            points = self.classifier._standardized(rows[chunk])
            boundary = self.classifier.boundary_
            if isinstance(boundary, HasClassDensities):
                by_class = boundary.class_log_prob(points, torch.from_numpy(wanted))
                log_density = by_class.logsumexp(dim=0)
            else:  # a boundary of the user's own
                log_density = boundary.log_prob(points)
            found.append(log_density.double().numpy())
        return np.maximum(np.concatenate(found), _LOWEST)

    def ambiguous(
        self, rows: np.ndarray, values: Values, probabilities: np.ndarray
    ) -> list[Explanation]:
        """Explain rows (n, D) between two classes, which have these probabilities (n, K)."""
        order = np.argsort(-probabilities, axis=1)[:, :2]
        here = self._log_odds(rows, order)
        pulls = np.empty((len(rows), len(self.replacements.places)))
        for column, where in enumerate(self.replacements.places):
            usual = self.replacements.usual[column]
            others = np.broadcast_to(usual, (len(rows), *usual.shape))
            repeated = np.repeat(order, len(usual), axis=0)
            log_odds = self._log_odds(_replaced(rows, where, others), repeated)
            pulls[:, column] = here - log_odds.reshape(others.shape[:2]).mean(axis=1)
        labels, found = [str(label) for label in self.classifier.classes_], []
        for row, pair in enumerate(order):
            ranked = []
            for place in np.argsort(-np.abs(pulls[row])):
                column, pull = self.encoder.columns_[place], pulls[row, place]
                shown = column.as_text(values[column.name][row])
                ranked.append(
                    Pull(column.name, shown, labels[pair[int(pull < 0)]], float(abs(pull)))
                )
            both = tuple((labels[k], float(probabilities[row, k])) for k in pair)
            found.append(Explanation(reason="ambiguous", classes=both, pulls=tuple(ranked)))
        return found

    def _log_odds(self, rows: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Log-odds (n,) of the first of two classes (n, 2) against the second."""
        probabilities = self.classifier.evaluate(rows).probabilities
        pair = np.take_along_axis(probabilities, order, axis=1)
        logs: np.ndarray = np.log(np.maximum(pair, 1e-12))
        return logs[:, 0] - logs[:, 1]


def _replaced(rows: np.ndarray, where: Sequence[int], others: np.ndarray) -> np.ndarray:
    """Rows (n * m, D): each of rows (n, D) with its features `where` replaced by m others."""
    changed = np.repeat(rows, others.shape[1], axis=0)
    changed[:, where] = others.reshape(-1, len(where))
    return changed

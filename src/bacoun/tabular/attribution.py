"""Explainer: which columns make rows unlikely, or stand between two classes.

A column's surprise is the log density that the row gains if this column alone is replaced by its
likeliest value given all others. An unfamiliar row is repaired greedily: the most surprising column
is replaced, then the next, until the row is familiar. Values outside the range of the training rows
come first, because a flow says little about where it was not fitted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
import torch

from bacoun.classifier import BaCOUnClassifier
from bacoun.deferral import DeferralRule
from bacoun.engine.threads import independent_workers
from bacoun.protocols import HasClassDensities
from bacoun.tabular.encoding import TableEncoder
from bacoun.tabular.explanation import MAX_REPAIRS, Explanation, Nearest, Pull, Surprise
from bacoun.tabular.items import KnownItems
from bacoun.tabular.neighbors import Neighborhood
from bacoun.tabular.replacements import Replacements
from bacoun.tabular.scored_rows import ScoredRows

_N_CLASSES = 3  # the most likely, whose densities are looked at
_N_COLUMNS = 12  # the most surprising, that are looked at again after a repair
_FIRST = 1e6  # nats that each standard deviation outside counts in the order of repairs
_LOWEST = -1e30  # log density of what a flow cannot represent
_CHUNK = 8192  # rows whose density is computed at once
_ROWS = 400  # that are explained at once, at most


class _Repair(NamedTuple):
    """A column, by its place, the features that were expected, and the gain in log density."""

    column: int
    expected: np.ndarray
    nats: float


@dataclass(frozen=True)
class Explainer:
    """Explains why rows are deferred, by the parts of a `TableModel`."""

    classifier: BaCOUnClassifier
    encoder: TableEncoder
    replacements: Replacements
    neighborhood: Neighborhood
    rule: DeferralRule
    known: Mapping[str, KnownItems]  # by the name of a column of texts or photos

    def explain(self, scored: ScoredRows) -> list[Explanation]:
        """Explain each row, as it was decided; accepted ones have nothing to explain."""
        explanations = [Explanation(reason="")] * len(scored)

        def explain_rows(rows: np.ndarray) -> None:
            part = scored.take(rows)
            is_ambiguous = part.reason[0] == "ambiguous"
            explained = self.ambiguous(part) if is_ambiguous else self.unfamiliar(part)
            for row, explanation in zip(rows, explained, strict=True):
                explanations[row] = explanation

        n_threads, chunks = torch.get_num_threads(), []
        for reason in ("unfamiliar", "ambiguous"):
            rows = np.flatnonzero(scored.reason == reason)
            size = min(_ROWS, -(-len(rows) // n_threads))
            chunks += [rows[first : first + size] for first in range(0, len(rows), max(size, 1))]
        with independent_workers() as run:
            run(explain_rows, chunks)
        return explanations

    def unfamiliar(self, scored: ScoredRows) -> list[Explanation]:
        """Explain rows as unfamiliar, also those that are not.

        They are not scored again: only rows with replaced values are.
        """
        likely = np.argsort(-scored.evaluation.probabilities, axis=1)[:, :_N_CLASSES]
        n_rows, n_columns = len(scored), len(self.replacements.places)
        current = scored.features.copy()
        wanted = np.ones((n_rows, n_columns), dtype=bool)
        only_unseen = self._is_familiar(replace(scored, unseen=np.zeros(n_rows, dtype=bool)))
        codes = current[only_unseen][:, [where[0] for where in self.replacements.places]]
        is_category = [bool(column.levels) for column in self.encoder.columns_]
        wanted[only_unseen] = (codes < 0) & is_category
        repairs: list[list[_Repair]] = [[] for _ in range(n_rows)]
        n_repairs = np.zeros(n_rows, dtype=int)
        first: tuple[np.ndarray, list[np.ndarray]] | None = None
        for number in range(1, MAX_REPAIRS + 1):
            nats, expected = self._surprises(current, likely, wanted)
            order = np.where(wanted, nats + _FIRST * self.replacements.outside(current), -1.0)
            if first is None:
                first = nats, expected
                wanted &= order.argsort(axis=1).argsort(axis=1) >= n_columns - _N_COLUMNS
            best, left = order.argmax(axis=1), wanted.any(axis=1)
            for row in np.flatnonzero(left).tolist():
                column = int(best[row])
                repair = _Repair(column, expected[column][row], nats[row, column])
                repairs[row].append(repair)
                current[row, self.replacements.places[column]] = repair.expected
            wanted[np.arange(n_rows), best] = False
            again = ScoredRows.of(
                self.classifier, scored.frame, current, neighborhood=self.neighborhood
            )
            n_repairs[(n_repairs == 0) & left & self._is_familiar(again)] = number
        assert first is not None
        texts, like_this = self._as_text(scored), _rows_like_this(scored)
        nearest, (nats, expected) = self.nearest(scored), first
        for row in np.flatnonzero(~only_unseen).tolist():
            # Then the others, the most surprising first.
            repaired = {repair.column for repair in repairs[row]}
            others = [k for k in np.argsort(-nats[row]).tolist() if k not in repaired]
            repairs[row] += [_Repair(k, expected[k][row], nats[row, k]) for k in others]
        explained = []
        for row, unseen in enumerate(self.encoder.unseen_in(scored.frame)):
            # Of a text or photo that is missing, or cannot be read, there is no more to say.
            nothing = {each.column for each in unseen} & self.known.keys()
            surprises = [self._surprise(texts, row, repair) for repair in repairs[row]]
            is_told = [each.column not in nothing for each in surprises]
            explained.append(
                Explanation(
                    reason="unfamiliar",
                    surprises=tuple(compress(surprises, is_told)),
                    n_repairs=sum(is_told[: int(n_repairs[row])]),
                    unseen=unseen,
                    rows_like_this=like_this[row],
                    nearest=nearest[row],
                )
            )
        return explained

    def _is_familiar(self, scored: ScoredRows) -> np.ndarray:
        return np.asarray(scored.decided(self.rule).reason != "unfamiliar")

    def _as_text(self, scored: ScoredRows) -> list[list[str]]:
        """For each column, its values in the rows, as they are shown to people."""
        values = self.encoder.read(scored.frame)
        columns = self.encoder.columns_
        return [[column.as_text(value) for value in values[column.name]] for column in columns]

    def _surprise(self, texts: list[list[str]], row: int, repair: _Repair) -> Surprise:
        column = self.encoder.columns_[repair.column]
        value = self.known[column.name].decode if column.name in self.known else column.decode
        expected = column.as_text(value(repair.expected))
        return Surprise(column.name, texts[repair.column][row], expected, float(repair.nats))

    def _surprises(
        self, rows: np.ndarray, likely: np.ndarray, wanted: np.ndarray
    ) -> tuple[np.ndarray, list[np.ndarray]]:
        """How much the `wanted` columns (n, C) of rows (n, D) surprise, and what was expected.

        That is the gain in log density (n, C) by the best replacement of each column, at least 0,
        and these replacements, C arrays (n, d).
        """
        here = self._log_density(rows, likely)
        nats, expected = np.zeros(wanted.shape), []
        for column, where in enumerate(self.replacements.places):
            expected.append(rows[:, where].copy())
            chosen = np.flatnonzero(wanted[:, column])
            if len(chosen) == 0:
                continue
            others = self.replacements.alternatives(column, rows[chosen], likely[chosen])
            changed = _replaced(rows[chosen], where, others)
            repeated = np.repeat(likely[chosen], others.shape[1], axis=0)
            densities = self._log_density(changed, repeated).reshape(others.shape[:2])
            best, every = densities.argmax(axis=1), np.arange(len(chosen))
            nats[chosen, column] = np.maximum(densities[every, best] - here[chosen], 0.0)
            expected[-1][chosen] = others[every, best]
        return nats, expected

    def _log_density(self, rows: np.ndarray, likely: np.ndarray) -> np.ndarray:
        """Log density (n,) of encoded rows (n, D) in their likely classes (n, c), up to a constant.

        Other classes hardly add to it, and their flows would take most of the time.
        """
        densities, classes = [], np.arange(len(self.classifier.classes_))[:, None]
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
            densities.append(log_density.double().numpy())
        return np.maximum(np.concatenate(densities), _LOWEST)

    def ambiguous(self, scored: ScoredRows) -> list[Explanation]:
        """Explain rows by the columns between their two most likely classes."""
        rows, probabilities = scored.features, scored.evaluation.probabilities
        order = np.argsort(-probabilities, axis=1)[:, :2]
        here = self._log_odds(rows, order)
        pulls = np.empty((len(rows), len(self.replacements.places)))
        for column, where in enumerate(self.replacements.places):
            usual = self.replacements.usual[column]
            others = np.broadcast_to(usual, (len(rows), *usual.shape))
            repeated = np.repeat(order, len(usual), axis=0)
            log_odds = self._log_odds(_replaced(rows, where, others), repeated)
            pulls[:, column] = here - log_odds.reshape(others.shape[:2]).mean(axis=1)
        texts, like_this = self._as_text(scored), _rows_like_this(scored)
        nearest = self.nearest(scored)
        labels = [str(label) for label in scored.classes]
        names, explanations = [column.name for column in self.encoder.columns_], []
        for row, pair in enumerate(order):
            ranked = [
                Pull(names[place], texts[place][row], labels[pair[int(pull < 0)]], float(abs(pull)))
                for place in np.argsort(-np.abs(pulls[row]))
                for pull in [pulls[row, place]]
            ]
            likely = tuple((labels[k], float(probabilities[row, k])) for k in pair)
            why = Explanation("ambiguous", classes=likely, pulls=tuple(ranked))
            explanations.append(replace(why, rows_like_this=like_this[row], nearest=nearest[row]))
        return explanations

    def nearest(self, scored: ScoredRows) -> list[tuple[Nearest, ...]]:
        """The known texts and photos that are nearest to those of each row, if it has any."""
        found: list[tuple[Nearest, ...]] = [()] * len(scored)
        for column, where in zip(self.encoder.columns_, self.replacements.places, strict=True):
            if column.embedding is None:
                continue
            nothing = column.embedding.center  # in place of a gap, or of what cannot be read
            vectors = scored.features[:, where[: len(nothing)]]
            rows = np.flatnonzero((vectors != nothing).any(axis=1))
            nearest = self.known[column.name].nearest(vectors[rows])
            for row, items in zip(rows.tolist(), nearest, strict=True):
                found[row] += items
        return found

    def _log_odds(self, rows: np.ndarray, order: np.ndarray) -> np.ndarray:
        """Log-odds (n,) of the first of two classes (n, 2) against the second."""
        probabilities = self.classifier.evaluate(rows).probabilities
        pair = np.take_along_axis(probabilities, order, axis=1)
        logs: np.ndarray = np.log(np.maximum(pair, 1e-12))
        return logs[:, 0] - logs[:, 1]


def _rows_like_this(scored: ScoredRows) -> list[Any]:
    numbers = scored.evaluation.rows_like_this
    return [None] * len(scored) if numbers is None else numbers.tolist()


def _replaced(rows: np.ndarray, where: Sequence[int], others: np.ndarray) -> np.ndarray:
    """Rows (n * m, D): each of rows (n, D) with its features `where` replaced by m others."""
    changed = np.repeat(rows, others.shape[1], axis=0)
    changed[:, where] = others.reshape(-1, len(where))
    return changed

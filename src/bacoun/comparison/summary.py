"""What a comparison found, for people: which method, how much better, at what cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import pandas as pd

from bacoun.comparison.methods import OURS
from bacoun.comparison.ranking import Ranking, rank
from bacoun.comparison.record import Record
from bacoun.comparison.run import difficulty_table, failures, quality_table, shift_table

# AUROC below which a classifier that saw both sides could not tell a shift from test rows either.
HIDDEN_BELOW = 0.6


@dataclass(frozen=True)
class Summary:
    """Numbers of a comparison, methods in order of their mean rank by AUROC.

    Attributes
    ----------
    methods : DataFrame, a row for each score
        Mean ranks and means: "rank", "auroc", "fpr95", "aurc", "accuracy", "log loss", "ece",
        "fit seconds", and "predict seconds" for a thousand rows.
    shifts : DataFrame, a row for each case and shift
        AUROC of each score.
    difficulty : Series
        AUROC of a classifier that saw both sides, for each case and shift.
    rankings : dict of Ranking
        By AUROC, AURC and log loss.
    failed : dict of str
        Messages of runs that failed, by name.
    """

    methods: pd.DataFrame
    shifts: pd.DataFrame
    difficulty: pd.Series
    rankings: dict[str, Ranking]
    failed: dict[str, str]

    @classmethod
    def of(cls, record: Record) -> Self:
        """Summarize a record of `bacoun compare`."""
        shifts = shift_table(record, "auroc")
        if shifts.empty:
            first = next(iter(failures(record).values()), "there was no method to run.")
            raise ValueError(f"at least one method must be fitted; none was: {first}")
        aurc, loss = shift_table(record, "aurc"), quality_table(record, "log loss")
        reference = OURS if OURS in shifts else str(shifts.columns[0])
        rankings = {
            "AUROC": rank(shifts, reference, higher_is_better=True),
            "AURC": rank(aurc, reference, higher_is_better=False),
            "log loss": rank(loss, reference, higher_is_better=False),
        }
        ranks = rankings["AUROC"].ranks
        columns = {"rank": ranks, "auroc": shifts.mean()}
        columns |= {"fpr95": shift_table(record, "fpr95").mean(), "aurc": aurc.mean()}
        columns |= {"log loss": loss.mean()}
        for metric in ("accuracy", "ece", "fit seconds", "predict seconds"):
            columns[metric] = quality_table(record, metric).mean()
        methods = pd.DataFrame(columns).loc[ranks.index]
        shifts = shifts[list(ranks.index)]
        return cls(methods, shifts, difficulty_table(record), rankings, failures(record))

    @property
    def verdict(self) -> list[str]:
        """Sentences: the best in AUROC, AURC and log loss, and what it costs."""
        sentences = []
        for metric, ranking in self.rankings.items():
            means = {str(name): f"({mean:.3f})" for name, mean in ranking.means.items()}
            names = list(means)
            text = f"{metric}: {names[0]} is first by mean rank {means[names[0]]}"
            if len(names) > 1:
                text += f", then {names[1]} {means[names[1]]}"
            place = names.index(ranking.reference)
            if place > 1:
                text += f"; {ranking.reference} is number {place + 1} {means[ranking.reference]}"
            sentences.append(f"{text}.")
        seconds = self.methods["fit seconds"]
        best_name = str(self.methods.index[0])
        quickest = str(seconds.idxmin())
        sentences.append(
            f"Time: {best_name} takes {seconds[best_name]:.1f} s to fit; the quickest is "
            f"{quickest} with {seconds[quickest]:.1f} s."
        )
        return sentences

    def rows(self) -> Iterator[tuple[str, str, dict[str, float]]]:
        """Case, shift and the AUROC of each score."""
        for (case, shift), values in zip(
            self.shifts.index.to_flat_index(), self.shifts.to_dict("records"), strict=True
        ):
            yield case, shift, {str(name): value for name, value in values.items()}

    @property
    def hidden(self) -> list[str]:
        """Shifts that a classifier which saw both sides could not tell from test rows either."""
        names = self.difficulty.index[self.difficulty < HIDDEN_BELOW]
        best = self.shifts.max(axis=1)
        return [
            f"{shift} ({case})" if case != shift else str(shift)
            for case, shift in names
            if best.get((case, shift), 0.0) < HIDDEN_BELOW
        ]

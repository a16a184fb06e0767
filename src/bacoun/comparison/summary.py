"""What a comparison found, for people: which method, how much better, at what cost."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import pandas as pd

from bacoun.comparison.methods import OURS
from bacoun.comparison.ranking import Ranking, rank
from bacoun.comparison.record import Record
from bacoun.comparison.run import difficulty_table, failures, quality_table, shift_table

# AUROC below which a classifier that saw both sides could not tell a shift from test rows either.
HIDDEN_BELOW = 0.6
_QUALITY = ("log loss", "accuracy", "ece", "fit seconds", "predict seconds")


@dataclass(frozen=True)
class Summary:
    """Numbers of a comparison, methods in order of their mean rank by AUROC."""

    # A row for each score, with its mean rank by AUROC, and means of "auroc", "fpr95", "aurc",
    # "accuracy", "log loss", "ece", "fit seconds", and "predict seconds" for a thousand rows.
    methods: pd.DataFrame
    shifts: pd.DataFrame  # AUROC of each score, in a row for each case and shift
    difficulty: pd.Series  # AUROC of a classifier that saw both sides, for each case and shift
    rankings: dict[str, Ranking]  # by AUROC, AURC and log loss
    failed: dict[str, str]  # messages of runs that failed, by name

    @classmethod
    def of(cls, record: Record) -> Self:
        """Summarize a record of `bacoun compare`."""
        shifts = shift_table(record, "auroc")
        if shifts.empty:
            first = next(iter(failures(record).values()), "there was no method to run.")
            raise ValueError(f"at least one method must be fitted; none was: {first}")
        tables = {"auroc": shifts}
        tables |= {metric: shift_table(record, metric) for metric in ("fpr95", "aurc")}
        tables |= {metric: quality_table(record, metric) for metric in _QUALITY}
        reference = OURS if OURS in shifts else str(shifts.columns[0])
        rankings = {
            metric: rank(tables[metric.lower()], reference, higher_is_better=metric == "AUROC")
            for metric in ("AUROC", "AURC", "log loss")
        }
        ranks = rankings["AUROC"].ranks
        columns = {"rank": ranks, **{metric: table.mean() for metric, table in tables.items()}}
        methods = pd.DataFrame(columns).loc[ranks.index]
        shifts = shifts[list(ranks.index)]
        return cls(methods, shifts, difficulty_table(record), rankings, failures(record))

    @property
    def verdict(self) -> list[str]:
        """Sentences: the best in AUROC, AURC and log loss, and what it costs."""
        sentences = []
        for metric, ranking in self.rankings.items():
            names, means = list(ranking.means.index), [f"({mean:.3f})" for mean in ranking.means]
            text = f"{metric}: {names[0]} is first by mean rank {means[0]}"
            if len(names) > 1:
                text += f", then {names[1]} {means[1]}"
            place = names.index(ranking.reference)
            if place > 1:
                text += f"; {ranking.reference} is number {place + 1} {means[place]}"
            sentences.append(f"{text}.")
        seconds = self.methods["fit seconds"]
        best, quickest = str(seconds.index[0]), str(seconds.idxmin())
        return [
            *sentences,
            f"Time: {best} takes {seconds[best]:.1f} s to fit; the quickest is {quickest} with "
            f"{seconds[quickest]:.1f} s.",
        ]

    def rows(self) -> Iterator[tuple[str, str, dict[str, float]]]:
        """Case, shift and the AUROC of each score."""
        by_shift: Any = self.shifts.to_dict("index")
        for (case, shift), values in by_shift.items():
            yield case, shift, values

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

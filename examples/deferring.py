"""What deferring costs: two models answer, or leave an item to a person."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from benchmarks.on_vectors import Predict, fit_logistic
from sklearn.model_selection import train_test_split

from bacoun.deferral import DeferralRule
from bacoun.tabular import TableModel
from bacoun.tabular.scored_rows import ScoredRows

FALSE_ALARM = 0.05
CALIBRATION_SHARE = 0.2  # the default of TableModel.fit
Record = dict[str, Any]

# What happens to an item.
OUTCOMES = ("answered, right", "answered, wrong", "deferred: ambiguous", "deferred: unfamiliar")
# Who answers, and what is deferred to a person.
WAYS = (
    "a person looks at everything",
    "logistic regression answers everything",
    "logistic regression, limit from the costs",
    "logistic regression, as many known deferred",
    "bacoun answers everything",
    "bacoun, rule of `bacoun fit`",
    "bacoun, rule from the costs",
)
PRICES = (5, 10, 20, 50)  # of a wrong answer, in looks


# --- costs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Costs:
    """Assumptions, in any currency; they were fixed before anything was measured."""

    wrong: float
    """Of an answer that is wrong."""
    look: float
    """Of a person who looks at an item, and is right."""

    @property
    def break_even(self) -> float:
        """The probability of being wrong at which an answer costs as much as a look."""
        return self.look / self.wrong

    def per_thousand(self, weights: np.ndarray, wrong: np.ndarray, deferred: np.ndarray) -> Record:
        """What 1,000 items cost, how many of them are deferred, and how many answers are wrong.

        Parameters
        ----------
        weights : (N,)
            The share of each item in what arrives; sums to 1.
        wrong : (N,)
            The probability that its answer is wrong; 0 or 1 if the truth is known.
        deferred : (N,)
            Whether a person looks at it instead.
        """
        errors = float(weights @ np.where(deferred, 0, wrong))
        looks = float(weights @ deferred)
        cost = 1000 * (self.wrong * errors + self.look * looks)
        return {"cost": cost, "deferred": 1000 * looks, "wrong": 1000 * errors}

    def curve(
        self, weights: np.ndarray, wrong: np.ndarray, doubt: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Share deferred and cost of 1,000 items, both (N + 1,), most doubt deferred first."""
        order = np.argsort(-doubt, kind="stable")
        shares, errors = weights[order], (weights * wrong)[order]
        deferred = np.concatenate([[0.0], np.cumsum(shares)])
        left = np.concatenate([[0.0], np.cumsum(errors)])
        return deferred, 1000 * (self.look * deferred + self.wrong * (errors.sum() - left))


# --- the two models -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rival:
    """Logistic regression on the same vectors, with a fifth of the rows held out, too."""

    predict: Predict
    classes: np.ndarray
    held_out: np.ndarray  # (n,), the largest probability of each of these rows

    @classmethod
    def fit(cls, vectors: np.ndarray, labels: np.ndarray) -> Self:
        """Fit vectors (N, D) with labels (N,); folds of the training rows choose its settings."""
        x, held_out, y, _ = train_test_split(
            vectors, labels, test_size=CALIBRATION_SHARE, stratify=labels, random_state=0
        )
        predict = fit_logistic(x, y, 0)
        return cls(predict, np.unique(y), predict(held_out).probabilities.max(axis=1))

    def answers(self, vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Predicted classes (N,), and their probabilities (N,), max softmax."""
        probabilities = self.predict(vectors).probabilities
        return self.classes[probabilities.argmax(axis=1)], probabilities.max(axis=1)


@dataclass(frozen=True)
class Judged:
    """What both models say about N items that arrive, and how often that is wrong."""

    model: TableModel
    rival: Rival
    weights: np.ndarray  # (N,), the share of each item in what arrives; sums to 1
    rows: ScoredRows  # N rows, decided by the model's own rule
    wrong: np.ndarray  # (N,), the probability that the model's answer is wrong
    rival_wrong: np.ndarray  # (N,)
    confidence: np.ndarray  # (N,), the rival's max softmax

    @classmethod
    def of(
        cls,
        model: TableModel,
        rival: Rival,
        items: pd.DataFrame,
        vectors: np.ndarray,
        weights: np.ndarray,
        how_wrong: Callable[[np.ndarray], np.ndarray],
    ) -> Self:
        """Ask both about items with vectors (N, D); `how_wrong` is given their answers (N,)."""
        (rows,) = model.score_rows([items])
        answers, confidence = rival.answers(vectors)
        wrong = how_wrong(rows.table["prediction"].to_numpy())
        weights = weights / weights.sum()
        return cls(model, rival, weights, rows, wrong, how_wrong(answers), confidence)

    def part(self, mask: np.ndarray) -> Self:
        """Some of the items alone, by a mask (N,)."""
        names = ("weights", "wrong", "rival_wrong", "confidence")
        some = {name: getattr(self, name)[mask] for name in names}
        some["weights"] = some["weights"] / some["weights"].sum()
        return replace(self, rows=self.rows.take(np.flatnonzero(mask)), **some)

    @property
    def scored(self) -> pd.DataFrame:
        """What the model says, as `TableModel.score` does."""
        return self.rows.table.reset_index(drop=True)

    def reasons(self, costs: Costs) -> np.ndarray:
        """Why the rule from the costs defers each item (N,); "" if it does not."""
        return self.rows.decided(rule_from(self.model, costs)).reason

    def outcomes(self, costs: Costs) -> dict[str, float]:
        """The share of each of `OUTCOMES`, by the rule from the costs."""
        reasons = self.reasons(costs)
        answered = reasons == ""
        shares = (
            answered * (1 - self.wrong),
            answered * self.wrong,
            reasons == "ambiguous",
            reasons == "unfamiliar",
        )
        each = (float(self.weights @ share) for share in shares)
        return dict(zip(OUTCOMES, each, strict=True))

    def compare(self, costs: Costs) -> dict[str, Record]:
        """What 1,000 items cost in each of `WAYS`."""
        seen, rule = self.model.calibration, rule_from(self.model, costs)
        known = rule.decide(seen["ood_score"], seen["total"]).decision == "defer"
        as_many = np.quantile(self.rival.held_out, known.mean())
        nothing = np.zeros(len(self.wrong), dtype=bool)
        decided = (
            (self.wrong, ~nothing),
            (self.rival_wrong, nothing),
            (self.rival_wrong, self.confidence < 1 - costs.break_even),
            (self.rival_wrong, self.confidence < as_many),
            (self.wrong, nothing),
            (self.wrong, self.rows.reason != ""),
            (self.wrong, self.reasons(costs) != ""),
        )
        each = (costs.per_thousand(self.weights, *way) for way in decided)
        return dict(zip(WAYS, each, strict=True))

    def at_prices(self, look: float) -> dict[str, dict[str, float]]:
        """The costs of 1,000 items if a wrong answer costs so many looks, in `WAYS`."""
        prices = {str(n): self.compare(Costs(n * look, look)) for n in PRICES}
        return {
            way: {price: compared[way]["cost"] for price, compared in prices.items()}
            for way in WAYS
        }


def rule_from(model: TableModel, costs: Costs) -> DeferralRule:
    """Defer what is unfamiliar, and what is wrong more often than a look is worth."""
    seen = model.calibration
    return DeferralRule.calibrate(
        seen["ood_score"],
        seen["total"],
        false_alarm=FALSE_ALARM,
        max_error_probability=costs.break_even,
    )

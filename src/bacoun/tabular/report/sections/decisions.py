"""What the deferral rule does with the rows, and what it promises."""

from __future__ import annotations

import math

import numpy as np

from bacoun.tabular.report.charts import (
    Html,
    bullets,
    exact,
    folded,
    joined,
    of,
    percent,
    table,
    tag,
)
from bacoun.tabular.report.data import ReportData, Scored
from bacoun.tabular.report.sections.shared import NONE, OUTCOMES, UNFOLDED, no_labels


def deferral(data: ReportData) -> Html:
    """How many rows are accepted, unfamiliar and ambiguous, and the rule itself."""
    test = data.test
    heads = ["outcome", "rows", "share"]
    lines = [_outcome(test, key, f"rows-{name}") for key, (name, _) in OUTCOMES.items()]
    lines.append(_outcome(test, None, "rows-all"))
    caption = f"What the rule does with {data.names['test']}."
    known = heads if test.labels is None else [*heads, "right"]
    parts = [table(known, lines, numeric=[1, 2, 3], caption=caption, last_is_sum=True)]
    if test.labels is None:
        parts.append(no_labels("how many of these answers are right cannot be told"))
    if data.ood is not None:
        lines = [_outcome(data.ood, key, f"ood-{name}") for key, (name, _) in OUTCOMES.items()]
        caption = f"The same for {data.names['ood']}: ideally none is accepted."
        parts.append(table(heads, lines, numeric=[1, 2], caption=caption))
    if data.unseen.any():
        words = (
            f"{of(data.unseen.sum(), len(test))} with a category that training did not have: "
            "unfamiliar for that alone, whatever the ood_score."
        )
        parts.append(tag("p", words, class_="note"))
    by_class = _by_class(data)
    if len(data.classes) > UNFOLDED:
        by_class = folded(f"By predicted class ({len(data.classes)} classes)", by_class)
    summary = data.rule.summary().splitlines()
    if data.rule.class_thresholds is not None:
        numbered = ", ".join(f"{k} is {name}" for k, name in enumerate(data.classes))
        summary.append(f"Classes by number: {numbered}.")
    own = [tag("h3", "The rule in its own words"), *(tag("p", line) for line in summary)]
    return joined([*parts, by_class, *own])


def _outcome(scored: Scored, reason: str | None, key: str) -> list[object]:
    """A line of the deferral table: how many rows, and how many of them right."""
    chosen = np.full(len(scored), True) if reason is None else scored.reason == reason
    name, meaning = ("all rows", "") if reason is None else OUTCOMES[reason]
    named = joined([name, tag("small", meaning)]) if meaning else name
    count = int(chosen.sum())
    line: list[object] = [named, exact(key, count, f"{count:,}"), percent(count / len(scored))]
    if scored.correct is None:
        return line
    n_right = int(scored.correct[chosen].sum())
    return [*line, f"{n_right:,} ({percent(n_right / count)})" if count else NONE]


def _by_class(data: ReportData) -> Html:
    test = data.test
    lines = []
    for k, name in enumerate(data.classes):
        mine = test.predicted == k
        counts = [int((mine & (test.reason == key)).sum()) for key in OUTCOMES]
        accepted, right = mine & (test.reason == ""), NONE
        if test.correct is not None and accepted.any():
            right = percent(float(test.correct[accepted].mean()))
        lines.append([name, *(f"{count:,}" for count in (mine.sum(), *counts)), right])
    outcomes = (name for name, _ in OUTCOMES.values())
    heads = ["predicted class", "rows", *outcomes, "right among accepted"]
    return table(heads, lines, numeric=range(1, 6), caption="By predicted class.")


def promised(data: ReportData) -> Html:
    """What the rule promised, beside what was found here."""
    rule, n = data.rule, len(data.test)
    flagged = int((data.test.reason == "unfamiliar").sum())
    found = f"Here {of(flagged, n)} ({percent(flagged / n)}) were flagged as unfamiliar"
    promised = [
        "What the rule says above, for rows drawn like its calibration rows, which the model was "
        "not fitted on.",
        f"{found}; the rule allows {100 * rule.false_alarm:.3g} % on average over many tables.",
    ]
    if math.isinf(rule.ood_threshold):
        promised[1] = f"{found}; the calibration rows allow no limit."
    if rule.acceptance is None:
        promised.append(
            "Nothing about mistakes among accepted rows: the rule has no bound on them."
        )
    elif rule.acceptance.threshold is None:
        promised.append(
            "The calibration rows cannot support the bound on mistakes that was asked for, so "
            "nothing is accepted."
        )
    elif data.test.correct is not None and (data.test.reason == "").any():
        wrong = ~data.test.correct[data.test.reason == ""]
        bound = f"{100 * rule.acceptance.max_error:.3g} %"
        promised.append(
            f"Here {wrong.sum():,} of {len(wrong):,} accepted rows were wrong "
            f"({percent(float(wrong.mean()))}); the bound is {bound}."
        )
    return bullets(promised)

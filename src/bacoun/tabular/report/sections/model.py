"""The page in short, and what the model is."""

from __future__ import annotations

from bacoun.tabular.report.charts import (
    Figure,
    Html,
    between,
    boxes,
    facts,
    joined,
    of,
    percent,
    rows,
    table,
    tag,
)
from bacoun.tabular.report.data import ReportData
from bacoun.tabular.report.sections.shared import UNFOLDED

_HEALTH = {
    "inference": ("inference", "how the posterior over classifiers was found"),
    "n_draws": ("draws", "classifiers drawn from it, which vote on every row"),
    "dimensions": ("dimensions", "weights that were inferred"),
    "n_chains": ("chains", "run side by side"),
    "rhat": ("R-hat", "do the chains agree? 1.00 is perfect"),
    "rhat_iid": ("R-hat by chance", "what perfect draws would show"),
    "ess": ("effective draws", "independent draws the chains are worth, at the worst place seen"),
    "ess_squares": ("effective draws, spread", "the same for what epistemic uncertainty rests on"),
    "acceptance": ("acceptance", "share of proposed moves that were taken"),
    "divergences": ("divergences", "moves that went astray; a few are harmless"),
    "seconds": ("seconds", "time that the inference took"),
}

_FACTS = {
    "rows": "rows given",
    "training rows": "rows learned from",
    "calibration rows": "rows kept aside",
    "accuracy": "accuracy, rows kept aside",
    "auc": "AUC, rows kept aside",
    "ece": "ECE, rows kept aside",
    "quick": "for a first look",
    "data digest": "fingerprint of the table",
}


def summary(data: ReportData) -> Html:
    """How many rows the model answers, and how many it hands to a person."""
    test, n = data.test, len(data.test)
    accepted = test.reason == ""
    n_accepted = int(accepted.sum())
    unfamiliar, ambiguous = (int((test.reason == key).sum()) for key in ("unfamiliar", "ambiguous"))
    share = n_accepted / n
    why = f"It accepts its own prediction for {of(n_accepted, n)}."
    figures = [Figure("accepted-share", "Answered by the model", share, percent(share), why)]
    text = f"Of {rows(n)} the model answers {n_accepted:,} by itself"
    if test.correct is not None and n_accepted:
        right = int(test.correct[accepted].sum())
        text += f", and {right:,} of these answers {'is' if right == 1 else 'are'} right"
        share = right / n_accepted
        why = (
            f"{right:,} of {n_accepted:,} accepted predictions were right; on more such rows "
            f"{between(right, n_accepted)}, with 95 % confidence."
        )
        figures.append(
            Figure("accepted-accuracy", "Right among accepted", share, percent(share), why)
        )
    text += (
        f". It hands {n - n_accepted:,} to a person: {unfamiliar:,} as unfamiliar, because nothing "
        f"like it was seen in training, and {ambiguous:,} as ambiguous, because the classes "
        "overlap there."
    )
    share, why = 1 - n_accepted / n, f"{unfamiliar:,} unfamiliar and {ambiguous:,} ambiguous rows."
    figures.append(Figure("deferred-share", "Handed to a person", share, percent(share), why))
    if data.ood is not None:
        deferred = data.ood.reason != ""
        share, why = float(deferred.mean()), f"{of(deferred.sum(), len(data.ood))} from elsewhere."
        figures.append(Figure("ood-deferred", "OOD rows deferred", share, percent(share), why))
    return joined([tag("p", text, class_="lead"), boxes(*figures)])


def about(data: ReportData) -> Html:
    """What the model is, how it was set, and whether its posterior can be trusted."""
    shown = ", ".join(data.classes[:UNFOLDED])
    if len(data.classes) > UNFOLDED:
        shown += f" and {len(data.classes) - UNFOLDED} more"
    what = {"classes": f"{len(data.classes)}: {shown}"}
    what |= {_FACTS.get(key, key): value for key, value in data.about.items()}
    what |= {"rows kept aside": f"{data.rule.n_calibration:,}, for the deferral rule"}
    verdict = data.complaint or (
        "The posterior is in order: nothing in its diagnostics speaks against trusting it."
    )
    lines = [
        [name, data.health[key], meaning]
        for key, (name, meaning) in _HEALTH.items()
        if key in data.health
    ]
    pair = (
        tag("div", tag("h3", "What it is"), facts(what)),
        tag("div", tag("h3", "Settings"), facts(data.settings)),
    )
    return joined(
        [
            tag("div", *pair, class_="pair"),
            tag("h3", "Health"),
            tag("p", verdict, class_="warning" if data.complaint else None),
            table(["quantity", "value", "what it says"], lines, numeric=[1], long=2),
        ]
    )

"""The tutorial on a help desk: questions to a bank, what is deferred, why, and what it costs.

    python -m examples.help_desk

Writes data, numbers and figures into the folder help_desk, in about half a minute.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from benchmarks.record import markdown_table
from examples.deferring import Costs, Judged, Record, Rival, rule_from
from examples.tutorial import (
    Tutorial,
    as_quote,
    cost_table,
    draw_costs,
    draw_outcomes,
    in_words,
    outcome_table,
    price_table,
    text_table,
)
from matplotlib.figure import Figure
from reproduction.datasets.sources import fetch

from bacoun.encoders import MiniLM, encode_cached
from bacoun.tabular import TableModel
from bacoun.uncertainty import auroc

COSTS = Costs(wrong=10, look=1)
SHARE_OUTSIDE = 0.1  # of the questions that arrive: they have nothing to do with any intent
N_SENTENCES = 50  # of each intent, of CLINC's 100
_BANK = (  # CLINC's domains of banking and of credit cards
    "account_blocked application_status apr balance bill_balance bill_due card_declined "
    "credit_limit credit_limit_change credit_score damaged_card expiration_date freeze_account "
    "improve_credit_score interest_rate international_fees min_payment new_card order_checks "
    "pay_bill pin_change redeem_rewards replacement_card_duration report_fraud report_lost_card "
    "rewards_balance routing spending_history transactions transfer"
)
INTENTS = _BANK.split()
ASKED = (
    "how much money do I have in my checking account",
    "my card does not work",
    "tell me about my points",
    "what do I have to pay this month",
    "can I insure my bicycle with you",
    "which wine goes with fish",
)
KNOWN, OUTSIDE = "questions of the 30 intents", "questions of no intent"
N_PAIRS = 5
_QUICK_INTENTS, _QUICK_SENTENCES, _QUICK_ASKED = 5, 20, 6


def read_questions(quick: bool = False) -> dict[str, pd.DataFrame]:
    """Tables with the columns text and intent: "train", "known" and "outside"."""
    with gzip.open(fetch("clinc") / "clinc150.json.gz", "rt") as file:
        parts = json.load(file)
    tables = {
        name: pd.DataFrame(parts[part], columns=["text", "intent"])
        for name, part in {"train": "train", "known": "test", "outside": "oos_test"}.items()
    }
    intents = INTENTS[:_QUICK_INTENTS] if quick else INTENTS
    for name in ("train", "known"):
        tables[name] = tables[name][tables[name]["intent"].isin(intents)]
    train = tables["train"].sample(frac=1, random_state=0)
    number = _QUICK_SENTENCES if quick else N_SENTENCES
    tables["train"] = train.groupby("intent").head(number)
    if quick:
        tables["known"] = tables["known"].groupby("intent").head(_QUICK_ASKED)
        tables["outside"] = tables["outside"].head(_QUICK_ASKED * _QUICK_INTENTS)
    return {name: table.reset_index(drop=True) for name, table in tables.items()}


def measure(folder: Path, quick: bool) -> tuple[Record, dict[str, Figure]]:
    """All numbers of the page, and its figures; the data is written to a folder."""
    tables = read_questions(quick)
    new = pd.DataFrame({"text": ASKED})
    for name, table in {**tables, "new": new}.items():
        table.to_csv(folder / f"{name}.csv", index=False)
    train, known, outside = tables.values()

    model = TableModel.fit(train, "intent", quick=quick)
    rival = Rival.fit(vectors_of(train), train["intent"].to_numpy(str))

    asked = pd.concat([known, outside], ignore_index=True)
    is_outside = np.repeat([False, True], [len(known), len(outside)])
    share = np.where(is_outside, SHARE_OUTSIDE, 1 - SHARE_OUTSIDE)
    weights = share / np.where(is_outside, len(outside), len(known))
    truth = np.where(is_outside, "", asked["intent"])

    def how_wrong(answers: np.ndarray) -> np.ndarray:
        return (answers != truth).astype(float)

    inputs = asked[["text"]]
    judged = Judged.of(model, rival, inputs, vectors_of(asked), weights, how_wrong)
    scored = judged.scored
    groups = {KNOWN: ~is_outside, OUTSIDE: is_outside}
    record = {
        "costs": {"wrong": COSTS.wrong, "look": COSTS.look, "share outside": SHARE_OUTSIDE},
        "rows": {name: len(table) for name, table in tables.items()},
        "fitted": in_words(model),
        "answers": answers(model, new),
        "outcomes": {name: judged.part(rows).outcomes(COSTS) for name, rows in groups.items()},
        "uncertainty": {
            name: scored.loc[rows, ["aleatoric", "epistemic"]].mean().to_dict()
            for name, rows in groups.items()
        },
        "auroc": {
            "ood_score": auroc(*(scored["ood_score"][rows] for rows in groups.values())),
            "max softmax": auroc(*(-judged.confidence[rows] for rows in groups.values())),
        },
        "accuracy": {
            "bacoun": 1 - judged.wrong[~is_outside].mean(),
            "logistic regression": 1 - judged.rival_wrong[~is_outside].mean(),
        },
        "pairs": pairs(judged, asked["text"].to_numpy(str)),
        "compared": judged.compare(COSTS),
        "at prices": judged.at_prices(COSTS.look),
    }
    costs = draw_costs({"": judged}, COSTS, "questions")
    return record, {"deferred": draw_outcomes(record["outcomes"]), "costs": costs}


def vectors_of(table: pd.DataFrame) -> np.ndarray:
    """Vectors (N, 384) of the texts."""
    return encode_cached(MiniLM(), table["text"].tolist())


def answers(model: TableModel, new: pd.DataFrame) -> list[Record]:
    """What the model says about some questions, and what the rule from the costs decides."""
    (rows,) = model.score_rows([new])
    scored = model.with_because(rows)
    said = pd.DataFrame(
        {
            "text": new["text"],
            "prediction": scored["prediction"],
            "p": rows.evaluation.probabilities.max(axis=1),
            "aleatoric": scored["aleatoric"],
            "epistemic": scored["epistemic"],
            "reason": scored["reason"],
            "from the costs": rows.decided(rule_from(model, COSTS)).reason,
            "because": scored["because"],
        }
    )
    return said.to_dict("records")


def pairs(judged: Judged, texts: np.ndarray) -> list[Record]:
    """The intents between which ambiguous questions lie, the most frequent pairs first."""
    rows = np.flatnonzero(judged.reasons(COSTS) == "ambiguous")
    chances = judged.scored.filter(regex="^p_").rename(columns=lambda name: name[2:])
    found: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        two = chances.iloc[row].nlargest(2).index
        found.setdefault(tuple(sorted(two)), []).append(texts[row])
    frequent = sorted(found.items(), key=lambda each: (-len(each[1]), each[0]))[:N_PAIRS]
    return [
        {"intents": list(names), "number": len(questions), "example": questions[0]}
        for names, questions in frequent
    ]


def blocks(record: Record) -> dict[str, str]:
    """The blocks of the page."""
    said = [
        [
            each["text"],
            f"`{each['prediction']}` ({each['p']:.2f})",
            f"{each['aleatoric']:.2f}",
            f"{each['epistemic']:.2f}",
            each["reason"] or "accept",
            each["from the costs"] or "accept",
        ]
        for each in record["answers"]
    ]
    columns = ["question", "answer", "aleatoric", "epistemic", "by `bacoun fit`", "from the costs"]
    why = [f"*{each['text']}*: {each['because']}" for each in record["answers"] if each["because"]]
    between = [
        [" or ".join(f"`{name}`" for name in each["intents"]), str(each["number"]), each["example"]]
        for each in record["pairs"]
    ]
    means = [
        [name, *(f"{each[kind]:.2f}" for kind in ("aleatoric", "epistemic"))]
        for name, each in record["uncertainty"].items()
    ]
    accuracy, areas = record["accuracy"], record["auroc"]
    detected = (
        f"The AUROC of `ood_score` between the two groups is {areas['ood_score']:.3f}; that of max "
        f"softmax of logistic regression, {areas['max softmax']:.3f}."
    )
    alone = (
        "Without the questions of no intent, and with nothing deferred, "
        f"{100 * accuracy['bacoun']:.1f} % of bacoun's answers are right, and "
        f"{100 * accuracy['logistic regression']:.1f} % of those of logistic regression."
    )
    return {
        "fitted": as_quote(record["fitted"]),
        "answers": text_table(columns, said),
        "because": as_quote(why),
        "outcomes": outcome_table(record["outcomes"]),
        "uncertainty": f"{markdown_table(['mean, in nats', 'aleatoric', 'epistemic'], means)}\n\n"
        + detected,
        "pairs": text_table(["between", "questions", "for example"], between),
        "costs": f"{cost_table(record['compared'])}\n\n{alone}",
        "prices": price_table(record["at prices"]),
    }


TUTORIAL = Tutorial("help-desk", measure, blocks)


def main(arguments: Sequence[str] | None = None) -> Record:
    """Run the tutorial."""
    return TUTORIAL.run(__doc__.splitlines()[0], arguments)


if __name__ == "__main__":
    main()

"""What a model says about itself: facts about rows and quality, what it was made with, a row."""

import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from bacoun.classifier import BaCOUnClassifier
from bacoun.columns.column import Column
from bacoun.columns.photo_files import data_uri
from bacoun.deferral import DeferralRule
from bacoun.posterior import Health
from bacoun.tabular.encoding import TableEncoder
from bacoun.tabular.items import KnownItems
from bacoun.tabular.neighbors import Neighborhood
from bacoun.tabular.scored_rows import ScoredRows
from bacoun.tabular.splitting import Split

_N_LOOKED_AT = 512
_N_TYPICAL = 25


def describe(
    frame: pd.DataFrame,
    labels: np.ndarray,
    split: Split,
    encoder: TableEncoder,
    held_out: ScoredRows,
) -> dict[str, Any]:
    """Plain values about the rows, the columns and the quality on the held-out rows."""
    return {
        "rows": len(frame),
        "training_rows": len(split.train),
        "sampled_rows": len(split.train),
        "calibration_rows": len(split.held_out),
        "copies": split.n_copies,
        "repeated_rows": split.repeats,
        "unseen_in_calibration": int(np.isinf(held_out.ood_score).sum()),
        "classes": {str(label): int((labels == label).sum()) for label in held_out.classes},
        "features": len(encoder.feature_names_),
        "dropped_columns": dict(encoder.dropped_),
        "encoded_columns": {
            column.name: f"{column.kind}, by {column.embedding.encoder['kind']}"
            for column in encoder.columns_
            if column.embedding is not None
        },
        "calibrated_on": split.calibrated_on,
        "drift": "" if split.in_order is None else held_out.take(split.in_order).drift(),
        **held_out.quality(),
    }


def made_now() -> dict[str, str]:
    """The time, and the versions of all libraries that affect a model's numbers."""
    libraries = ("bacoun", "torch", "zuko", "numpy", "scipy", "scikit-learn", "pandas")
    versions = [f"{name} {version(name)}" for name in libraries]
    return {
        "fitted": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "with": ", ".join([*versions, f"Python {platform.python_version()}"]),
    }


def summarize(
    facts: Mapping[str, Any], health: Health, rule: DeferralRule, n_columns: int
) -> dict[str, str]:
    """A fit in a few lines of text, by their titles; empty if there is nothing to say."""
    auc = "not defined" if facts["auc"] is None else f"{facts['auc']:.3f}"
    decisions = rule.summary().splitlines()
    if rule.acceptance is None:
        decisions.insert(-1, facts["error_bound"])
    return {
        "rows": _rows(facts),
        "drift": facts["drift"],
        "classes": ", ".join(f"{label} ({rows})" for label, rows in facts["classes"].items()),
        "columns": f"{facts['features']} features from {n_columns} columns",
        "encoded": _with_reasons(facts["encoded_columns"]),
        "dropped": _with_reasons(facts["dropped_columns"]),
        "quality": f"accuracy {facts['accuracy']:.3f}, AUC {auc}, ECE {facts['ece']:.3f} on the "
        "calibration rows",
        "health": _mixing(health),
        "deferral": ("\n" + " " * 10).join(decisions),
    }


def _with_reasons(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{name} ({why})" for name, why in columns.items())


def _rows(facts: Mapping[str, Any]) -> str:
    """How many rows were used for what, and how repeated ones count."""
    period = facts["calibrated_on"]
    period = f" ({period})" if period != "random rows" else ""
    is_sample = facts["sampled_rows"] < facts["training_rows"]
    sample = f" (networks: {facts['sampled_rows']})" if is_sample else ""
    events = facts["repeated_rows"] == "events"
    apart = "repeated with other labels too, so each row counts"
    what = apart if events else "copies of others, which count once"
    repeats = f", {facts['copies']} {what}" if facts["copies"] else ""
    return (
        f"{facts['rows']}: {facts['training_rows']} for training{sample}, "
        f"{facts['calibration_rows']} for calibration{period}{repeats}"
    )


def _mixing(health: Health) -> str:
    """How the posterior was sampled, and how well."""
    text, difference = f"{health.inference}, {health.n_draws} draws", health.coreset_difference
    if health.rhat is not None:
        text += f", R-hat {health.rhat:.3f}, ESS {health.ess:.0f}"
    if difference is not None:
        text += f"; sampled on {health.coreset_rows} rows, {difference:.2g} nats from all rows"
    return text


def typical_row(
    classifier: BaCOUnClassifier,
    encoder: TableEncoder,
    neighborhood: Neighborhood,
    known: Mapping[str, KnownItems],
) -> dict[str, Any]:
    """A row in the middle of the densest known ones; it is not any single one of them.

    The median, or the most frequent category, of each column over the 25 most familiar rows; the
    known text or photo that is nearest to the mean of theirs.
    """
    rows = neighborhood.rows[:_N_LOOKED_AT] * neighborhood.scale + neighborhood.mean
    score = classifier.evaluate(rows).ood_score
    nearest = rows[np.argsort(score, kind="stable")[:_N_TYPICAL]]
    pairs = zip(encoder.columns_, encoder.places, strict=True)
    return {
        c.name: c.as_cell(_middle(c, nearest[:, where], known.get(c.name))) for c, where in pairs
    }


def _middle(column: Column, features: np.ndarray, known: KnownItems | None) -> Any:
    gap = features[:, -1] == (len(column.levels) or 1)
    if (column.levels or column.gaps) and gap.mean() > 0.5:
        return None
    if known is not None:
        ((item,),) = known.nearest(features.mean(axis=0, keepdims=True), number=1)
        return item.text if item.thumbnail is None else data_uri(item.thumbnail)
    if column.levels:
        codes, counts = np.unique(features[:, 0].astype(int), return_counts=True)
        return column.decode(np.array([codes[counts.argmax()]]))
    middle = float(np.median(features[:, 0]))
    if column.whole or column.kind == "date":
        return round(middle)
    # As few digits as tell neighbors apart: 14.13, not 14.127291740.
    digits = 4 - int(np.ceil(np.log10(max(abs(middle), 1e-300))))
    return round(middle, min(max(digits, 0), 12))

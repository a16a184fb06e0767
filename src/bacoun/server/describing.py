"""What the service says about a model: its columns, a typical row, its rule."""

from __future__ import annotations

from typing import Any

from bacoun.files.model_folder import plain
from bacoun.tabular import TableModel
from bacoun.tabular.encoding import Column
from bacoun.tabular.typical import shown

_MAX_LEVELS = 1000


def describe(name: str, version: str, model: TableModel) -> dict[str, Any]:
    """Everything a client needs to know to ask this model, in plain values."""
    facts = model.facts
    shown = ("rows", "training_rows", "calibration_rows", "accuracy", "auc", "ece", "error_bound")
    typical = model.typical_row()
    return {
        "name": name,
        "version": version,
        "target": model.target,
        "classes": [plain(label) for label in model.classes],
        "columns": [_column(column, typical[column.name]) for column in model.columns],
        "ignored": dict(model.dropped_columns),
        "added": model.added_columns,
        "facts": {key: plain(facts[key]) for key in shown},
        "class_counts": plain(facts["classes"]),
        "rule": model.rule.summary(),
        "made": dict(model.made),
    }


def _column(column: Column, typical: Any) -> dict[str, Any]:
    found = {"name": column.name, "kind": column.kind, "typical": typical, "gaps": column.gaps}
    if column.levels:
        levels = [shown(column, level) for level in column.levels[:_MAX_LEVELS]]
        return found | {"levels": levels}
    return found | {
        "low": shown(column, column.low),
        "high": shown(column, column.high),
        "whole": column.whole,
    }

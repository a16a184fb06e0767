"""Models in the memory of a worker: loaded when asked for, and again when they were replaced."""

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from bacoun.columns.column import Column
from bacoun.encoders import count_pixels
from bacoun.files.identity import version_of
from bacoun.files.model_folder import plain
from bacoun.server.dialects.formats import Rows
from bacoun.server.jobs import Model
from bacoun.server.settings import Settings
from bacoun.tabular import TableModel
from bacoun.watching.log import Watch
from bacoun.web.errors import ApiError

_AGAIN_SECONDS = 5.0  # until a model that could not be loaded is tried again: it may be a slow copy
_MAX_LEVELS = 1000
_QUALITY = ("rows", "training_rows", "calibration_rows", "accuracy", "auc", "ece", "error_bound")


@dataclass(frozen=True)
class LoadedModel:
    """A model in memory."""

    model: TableModel
    name: str
    stamp: tuple[int, ...]
    version: str
    watch: Watch | None = None

    @cached_property
    def description(self) -> dict[str, Any]:
        """Everything a client needs to know to ask this model, in plain values."""
        model, facts, typical = self.model, self.model.facts, self.model.typical_row()
        return {
            "name": self.name,
            "version": self.version,
            "target": model.target,
            "classes": [plain(label) for label in model.classes],
            "columns": [_column(column, typical[column.name]) for column in model.columns],
            "ignored": dict(model.dropped_columns),
            "added": model.added_columns,
            "facts": {key: plain(facts[key]) for key in _QUALITY},
            "class_counts": plain(facts["classes"]),
            "rule": model.rule.summary(),
            "made": dict(model.made),
        }

    def cells(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Cells of a row by their columns, which must be known; an empty text is a gap."""
        unknown = [name for name in given if name not in {each.name for each in self.model.columns}]
        if unknown:
            raise ApiError(422, f"'{unknown[0]}' is not a column of this model.")
        return {name: None if value == "" else value for name, value in given.items()}

    def count_pixels(self, rows: Rows, most: int) -> int:
        """Pixels of all photos, refused if it takes too long to decode them.

        The file of a large picture may be small.
        """
        names = [each.name for each in self.model.columns if each.kind == "photo"]
        cells = [str(cell) for name in names if name in rows for cell in rows[name]]
        n_pixels = sum(count_pixels(cell) for cell in cells if cell.startswith("data:"))
        if n_pixels > most:
            raise ApiError(
                413,
                f"the photos of a request may have {most} pixels; these have {n_pixels}. "
                "Send fewer at once, or smaller ones.",
            )
        return n_pixels


def _column(column: Column, typical: Any) -> dict[str, Any]:
    common = {"name": column.name, "kind": column.kind, "typical": typical, "gaps": column.gaps}
    if column.embedding is not None:
        return common
    if column.levels:
        return common | {"levels": [column.as_cell(level) for level in column.levels[:_MAX_LEVELS]]}
    low, high = column.as_cell(column.low), column.as_cell(column.high)
    return common | {"low": low, "high": high, "whole": column.whole}


class LoadedModels:
    """The models that a worker was asked for."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._loaded: dict[str, LoadedModel] = {}
        self._failed: dict[str, tuple[Model, str, float]] = {}  # which, why and when

    def __getitem__(self, model: Model) -> LoadedModel:
        """The model; the one loaded before while what replaced it is unreadable."""
        loaded = self._loaded.get(model.path)
        if loaded is not None and loaded.stamp == model.stamp:
            return loaded
        failed, message, at = self._failed.get(model.path, (None, "", 0.0))
        if failed != model or time.monotonic() - at > _AGAIN_SECONDS:
            try:
                self._loaded[model.path] = loaded = self._load(model)
                return loaded
            except Exception as error:  # also what a damaged file makes of code that trusts it
                message = str(error) or type(error).__name__
                self._failed[model.path] = model, message, time.monotonic()
                if loaded is not None:
                    print(f"bacoun: the old model stays: {message}", file=sys.stderr, flush=True)
        if loaded is None:
            raise ValueError(message.replace(model.path, model.name))
        return loaded

    def _load(self, model: Model) -> LoadedModel:
        version = version_of(model.path)
        # A client that could name files would make the server read its own.
        table_model = TableModel.load(model.path).with_photos_in(None)
        watching, inputs = self.settings.watch, self.settings.watch_inputs
        log = Watch.beside(model.path, table_model, version, inputs=inputs) if watching else None
        return LoadedModel(table_model, model.name, model.stamp, version, log)

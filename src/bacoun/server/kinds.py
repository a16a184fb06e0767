"""Kinds of jobs: what a worker is asked about a model, and how each is read and answered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from typing import Any

import pandas as pd

from bacoun.files.identity import version_of
from bacoun.server.describing import describe
from bacoun.server.dialects import mlflow_body, open_inference, tables
from bacoun.server.dialects.media_types import JSON
from bacoun.server.dialects.tables import Columns, Scored
from bacoun.server.errors import ApiError
from bacoun.server.jobs import Answer, Job, Model
from bacoun.tabular import TableModel
from bacoun.tabular.explanation import Explanation
from bacoun.watching.log import Watch

Write = Callable[[Scored], bytes]


@dataclass(frozen=True)
class Loaded:
    """A model in memory."""

    model: TableModel
    name: str
    stamp: tuple[int, ...]
    version: str
    watch: Watch | None = None

    @classmethod
    def of(cls, asked: Model, watch: bool, watch_inputs: bool) -> Loaded:
        """Load a model from its folder."""
        version = version_of(asked.path)
        model = TableModel.load(asked.path)
        log = Watch.beside(asked.path, model, version, inputs=watch_inputs) if watch else None
        return cls(model, asked.name, asked.stamp, version, log)

    @cached_property
    def description(self) -> dict[str, Any]:
        """What the service says about it."""
        return describe(self.name, self.version, self.model)


@dataclass(frozen=True)
class Request:
    """A table to score, and how to write the result."""

    rows: Columns | pd.DataFrame
    write: Write
    media_type: str = JSON
    because: bool = False
    inputs: bool = False

    def __len__(self) -> int:
        if isinstance(self.rows, pd.DataFrame):
            return len(self.rows)
        return len(next(iter(self.rows.values())))


def _read_predict(loaded: Loaded, job: Job) -> Request:
    given = tables.read_rows(job.body, job.media_type)
    inputs = bool(job.options.get("inputs"))
    taken = sorted(set(loaded.model.added_columns) & set(given)) if inputs else []
    if taken:
        raise ApiError(422, f"the table already has the column '{taken[0]}'; rename or drop it.")
    media_type = job.options.get("answer") or job.media_type
    write = partial(
        tables.write_rows, media_type=media_type, model=loaded.name, version=loaded.version
    )
    return Request(given, write, media_type, bool(job.options.get("because")), inputs)


def _read_infer(loaded: Loaded, job: Job) -> Request:
    given, request = open_inference.read_body(job.body, job.options.get("header_length"))
    parameters = request.get("parameters")
    because = isinstance(parameters, dict) and parameters.get("because") is True
    write = partial(
        open_inference.write_body, request=request, model=loaded.name, version=loaded.version
    )
    return Request(given, write, because=because)


def _read_invocations(loaded: Loaded, job: Job) -> Request:
    return Request(mlflow_body.read_body(job.body, job.media_type), mlflow_body.write_body)


def _describe(loaded: Loaded, job: Job) -> Answer:
    return Answer(tables.dump_json(loaded.description))


def _metadata(loaded: Loaded, job: Job) -> Answer:
    model = loaded.model
    columns, classes = model.columns, model.classes
    found = open_inference.metadata(
        loaded.name, loaded.version, columns, model.added_columns, classes
    )
    return Answer(tables.dump_json(found))


def _row(loaded: Loaded, job: Job) -> Answer:
    """One row, the typical one with some values changed, and all that is known about it."""
    model, described = loaded.model, loaded.description
    values = {each["name"]: each["typical"] for each in described["columns"]}
    unknown = [name for name in job.options["values"] if name not in values]
    if unknown:
        raise ApiError(422, f"'{unknown[0]}' is not a column of this model.")
    values |= {name: value or None for name, value in job.options["values"].items()}
    frame = pd.DataFrame({name: pd.Series([value], dtype=object) for name, value in values.items()})
    (scored,) = model.score_rows([frame])
    (row,) = tables.to_records(scored.table)
    (explanation,) = model.explain_rows(scored)
    found = {"row": values, "scored": row, "explanation": _plain(explanation)}
    return Answer(tables.dump_json({**described, **found}), rows=1)


def _plain(explanation: Explanation) -> dict[str, Any]:
    parts = {
        name: [each._asdict() for each in getattr(explanation, name)]
        for name in ("surprises", "unseen", "pulls")
    }
    classes = [{"label": label, "probability": p} for label, p in explanation.classes]
    return {
        "because": str(explanation),
        "reason": explanation.reason,
        "n_repairs": explanation.n_repairs,
        "rows_like_this": explanation.rows_like_this,
        "classes": classes,
        **parts,
    }


def _check(loaded: Loaded, job: Job) -> Answer:
    given = tables.read_rows(job.body, job.media_type)
    n_rows, most = len(Request(given, tables.dump_json)), job.options["max_rows"]
    if n_rows > most:
        raise ApiError(413, f"a request may have {most} rows; got {n_rows}. Send fewer at once.")
    frame = given if isinstance(given, pd.DataFrame) else tables.to_frame(given)
    findings = loaded.model.check(frame)
    return Answer(
        tables.dump_json({"rows": len(frame), "findings": [asdict(each) for each in findings]})
    )


READERS: dict[str, Callable[[Loaded, Job], Request]] = {
    "predict": _read_predict,
    "infer": _read_infer,
    "invocations": _read_invocations,
}
OTHERS: dict[str, Callable[[Loaded, Job], Answer]] = {
    "describe": _describe,
    "metadata": _metadata,
    "row": _row,
    "check": _check,
}

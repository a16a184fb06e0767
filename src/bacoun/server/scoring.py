"""Scorer: jobs -> answers, in a worker process. Requests for the same model are scored together."""

from __future__ import annotations

import hashlib
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bacoun.server.describing import describe
from bacoun.server.dialects import mlflow_body, open_inference, tables
from bacoun.server.dialects.media_types import JSON
from bacoun.server.dialects.tables import Columns, Scored
from bacoun.server.errors import ApiError
from bacoun.server.jobs import Answer, Job, Model
from bacoun.server.settings import Limits
from bacoun.tabular import TableModel
from bacoun.tabular.checks import check_table
from bacoun.tabular.explanation import Explanation
from bacoun.tabular.scoring import ScoredRows
from bacoun.watching.log import Watch

# What a table can be refused with; anything else is a mistake of ours.
_BAD_TABLE = (ValueError, TypeError, OverflowError, UnicodeError)

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
        document = (Path(asked.path) / "model.json").read_bytes()
        version = hashlib.sha256(document).hexdigest()[:12]
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


class Scorer:
    """Answers jobs; keeps the models that it was asked for.

    Parameters
    ----------
    limits : Limits
        What a request may cost.
    watch : bool
        Count scored rows in a log beside each model.
    watch_inputs : bool
        Also store the rows in that log.
    """

    def __init__(self, limits: Limits, watch: bool = False, watch_inputs: bool = False) -> None:
        self.limits, self.watch, self.watch_inputs = limits, watch, watch_inputs
        self.loaded: dict[str, Loaded] = {}
        self.failed: dict[str, tuple[tuple[int, ...], str]] = {}

    def answer(self, jobs: Sequence[Job]) -> list[Answer]:
        """Answers to jobs that are all for the same model, in their order."""
        try:
            loaded = self._load(jobs[0].model)
        except (OSError, ValueError) as error:
            reason = str(error).replace(jobs[0].model.path, jobs[0].model.name)
            return [Answer.refusal(503, f"the model cannot be loaded: {reason}")] * len(jobs)
        answers: dict[int, Answer] = {}
        requests: dict[int, Request] = {}
        for place, job in enumerate(jobs):
            try:
                if job.kind in _OTHERS:
                    answers[place] = _OTHERS[job.kind](loaded, job)
                else:
                    requests[place] = self._checked(_READERS[job.kind](loaded, job))
            except Exception as error:
                answers[place] = _refusal(error)
        answers |= self._scored(loaded, requests)
        return [answers[place] for place in range(len(jobs))]

    def _load(self, asked: Model) -> Loaded:
        """The model, loaded again if it was replaced; the old one while the new is unreadable."""
        loaded = self.loaded.get(asked.path)
        if loaded is not None and loaded.stamp == asked.stamp:
            return loaded
        stamp, message = self.failed.get(asked.path, (None, ""))
        if stamp == asked.stamp and loaded is None:
            raise ValueError(message)
        if stamp != asked.stamp:
            try:
                fresh = Loaded.of(asked, self.watch, self.watch_inputs)
                self.loaded[asked.path] = loaded = fresh
            except (OSError, ValueError) as error:
                self.failed[asked.path] = asked.stamp, str(error)
                if loaded is None:
                    raise
        assert loaded is not None
        return loaded

    def _checked(self, request: Request) -> Request:
        limit = self.limits.explained_rows if request.because else self.limits.rows
        if len(request) > limit:
            kind = "a request with because=true" if request.because else "a request"
            raise ApiError(
                413, f"{kind} may have {limit} rows; got {len(request)}. Send fewer at once."
            )
        return request

    def _scored(self, loaded: Loaded, requests: dict[int, Request]) -> dict[int, Answer]:
        """Score all tables in one pass; if that fails, one by one, to tell whose fault it is."""
        if not requests:
            return {}
        try:
            groups = _grouped(requests)
            frames = [_together([requests[place] for place in group]) for group in groups]
            scored = loaded.model.score_rows(frames)
            parts = zip(scored, map(loaded.model.scored_table, frames, scored), frames, strict=True)
            batch = list(parts)
            answers: dict[int, Answer] = {}
            for group, part in zip(groups, batch, strict=True):
                answers |= _written(loaded, {place: requests[place] for place in group}, *part)
        except Exception as error:
            if len(requests) == 1:
                return dict.fromkeys(requests, _refusal(error))
            return {
                place: answer
                for place, request in requests.items()
                for answer in self._scored(loaded, {place: request}).values()
            }
        if loaded.watch is not None:
            try:
                loaded.watch.add(batch)
            except ValueError as error:  # a full disk must not stop the service
                print(f"bacoun: the log was not written: {error}", file=sys.stderr, flush=True)
        return answers


def _grouped(requests: dict[int, Request]) -> list[list[int]]:
    """Places of requests that can be put into one table: those with the same columns in lists."""
    groups: dict[Any, list[int]] = {}
    for place, request in requests.items():
        is_frame = isinstance(request.rows, pd.DataFrame)
        groups.setdefault(place if is_frame else tuple(request.rows), []).append(place)
    return list(groups.values())


def _together(requests: list[Request]) -> pd.DataFrame:
    """One table with the rows of all requests."""
    first = requests[0].rows
    if isinstance(first, pd.DataFrame):
        return first
    tables_of: list[Any] = [request.rows for request in requests]
    return tables.to_frame({name: [v for each in tables_of for v in each[name]] for name in first})


def _written(
    loaded: Loaded,
    requests: dict[int, Request],
    scored: ScoredRows,
    table: pd.DataFrame,
    frame: pd.DataFrame,
) -> dict[int, Answer]:
    """The answers to requests whose rows are in one scored table, one after the other."""
    answers, start, records = {}, 0, tables.to_records(table)
    for place, request in requests.items():
        rows = slice(start, start + len(request))
        start += len(request)
        part = tables.Scored(table, records, rows)
        if request.because or request.inputs:
            part = _with_more(loaded, request, frame.iloc[rows], scored.take(np.r_[rows]))
        deferred = sum(each["decision"] == "defer" for each in part.records)
        answers[place] = Answer(
            request.write(part), request.media_type, rows=len(request), deferred=deferred
        )
    return answers


def _with_more(
    loaded: Loaded, request: Request, frame: pd.DataFrame, scored: ScoredRows
) -> tables.Scored:
    """The scores of one request, with the reasons in words or the columns it came with."""
    table = loaded.model.scored_table(frame, scored, request.because)
    table = frame.join(table) if request.inputs else table
    return tables.Scored(table, tables.to_records(table), slice(None))


def _refusal(error: Exception) -> Answer:
    if isinstance(error, ApiError):
        return Answer.refusal(error.status, str(error))
    if isinstance(error, MemoryError):
        return Answer.refusal(413, "the table needs more memory than there is; send fewer rows.")
    if isinstance(error, _BAD_TABLE):
        return Answer.refusal(422, str(error))
    traceback.print_exception(error)
    return Answer.refusal(500, "something went wrong while scoring; the server's log has more.")


# --- kinds of jobs -------------------------------------------------------------------------------


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
    columns, classes = model.encoder.columns_, model.classifier.classes_
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
    (row,) = tables.to_records(model.scored_table(frame, scored))
    (explanation,) = model.explainer.explain(frame, scored)
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
        "classes": classes,
        **parts,
    }


def _check(loaded: Loaded, job: Job) -> Answer:
    given = tables.read_rows(job.body, job.media_type)
    frame = given if isinstance(given, pd.DataFrame) else tables.to_frame(given)
    findings = check_table(loaded.model.profile, frame, loaded.model.target)
    return Answer(
        tables.dump_json({"rows": len(frame), "findings": [asdict(each) for each in findings]})
    )


_READERS: dict[str, Callable[[Loaded, Job], Request]] = {
    "predict": _read_predict,
    "infer": _read_infer,
    "invocations": _read_invocations,
}
_OTHERS: dict[str, Callable[[Loaded, Job], Answer]] = {
    "describe": _describe,
    "metadata": _metadata,
    "row": _row,
    "check": _check,
}

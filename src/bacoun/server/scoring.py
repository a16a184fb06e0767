"""Scorer: jobs -> answers, in a worker process. Requests for the same model are scored together."""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bacoun.server.dialects import tables
from bacoun.server.errors import ApiError
from bacoun.server.jobs import Answer, Job, Model
from bacoun.server.kinds import OTHERS, READERS, Loaded, Request
from bacoun.server.settings import Limits
from bacoun.tabular.scored_rows import ScoredRows

_AGAIN_SECONDS = 5.0  # until a model that could not be loaded is tried again: it may be a slow copy


class _Failure(NamedTuple):
    stamp: tuple[int, ...]
    message: str
    at: float

    @property
    def is_long_ago(self) -> bool:
        return time.monotonic() - self.at > _AGAIN_SECONDS


# What a table can be refused with; anything else is a mistake of ours.
_BAD_TABLE = (ValueError, TypeError, OverflowError, UnicodeError)


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
        self.failed: dict[str, _Failure] = {}

    def answer(self, jobs: Sequence[Job]) -> list[Answer]:
        """Answers to jobs that are all for the same model, in their order."""
        try:
            loaded = self._load(jobs[0].model)
        except Exception as error:  # also what a damaged file makes of code that trusts it
            reason = (str(error) or type(error).__name__).replace(
                jobs[0].model.path, jobs[0].model.name
            )
            return [Answer.refusal(503, f"the model cannot be loaded: {reason}")] * len(jobs)
        answers: dict[int, Answer] = {}
        requests: dict[int, Request] = {}
        for place, job in enumerate(jobs):
            try:
                if job.kind in OTHERS:
                    answers[place] = OTHERS[job.kind](loaded, job)
                else:
                    requests[place] = self._checked(READERS[job.kind](loaded, job))
            except Exception as error:
                answers[place] = _refusal(error)
        answers |= self._scored(loaded, requests)
        return [answers[place] for place in range(len(jobs))]

    def _load(self, asked: Model) -> Loaded:
        """The model, loaded again if it was replaced; the old one while the new is unreadable."""
        loaded = self.loaded.get(asked.path)
        if loaded is not None and loaded.stamp == asked.stamp:
            return loaded
        failure = self.failed.get(asked.path)
        if failure is None or failure.stamp != asked.stamp or failure.is_long_ago:
            try:
                fresh = Loaded.of(asked, self.watch, self.watch_inputs)
                self.loaded[asked.path] = loaded = fresh
                self.failed.pop(asked.path, None)
            except Exception as error:
                message = str(error) or type(error).__name__
                self.failed[asked.path] = _Failure(asked.stamp, message, time.monotonic())
                if loaded is not None:
                    print(f"bacoun: the old model stays: {message}", file=sys.stderr, flush=True)
                else:
                    raise
        elif loaded is None:
            raise ValueError(failure.message)
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
            batch = loaded.model.score_rows(frames)
            answers: dict[int, Answer] = {}
            for group, scored in zip(groups, batch, strict=True):
                answers |= _written(loaded, {place: requests[place] for place in group}, scored)
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
            except (ValueError, OSError) as error:  # a full disk must not stop the service
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


def _written(loaded: Loaded, requests: dict[int, Request], scored: ScoredRows) -> dict[int, Answer]:
    """The answers to requests whose rows were scored together, one after the other."""
    table = scored.table
    answers, start, records = {}, 0, cache(partial(tables.to_records, table))
    is_deferred = scored.reason != ""
    for place, request in requests.items():
        rows = slice(start, start + len(request))
        start += len(request)
        part = tables.Scored(table, rows, records)
        if request.because or request.inputs:
            part = _with_more(loaded, request, scored.take(np.r_[rows]))
        deferred = int(is_deferred[rows].sum())
        answers[place] = Answer(
            request.write(part), request.media_type, rows=len(request), deferred=deferred
        )
    return answers


def _with_more(loaded: Loaded, request: Request, scored: ScoredRows) -> tables.Scored:
    """The scores of one request, with the reasons in words or the columns it came with."""
    table = loaded.model.with_because(scored) if request.because else scored.table
    table = scored.frame.join(table) if request.inputs else table
    return tables.Scored(table, slice(None))


def _refusal(error: Exception) -> Answer:
    if isinstance(error, ApiError):
        return Answer.refusal(error.status, str(error))
    if isinstance(error, MemoryError):
        return Answer.refusal(413, "the table needs more memory than there is; send fewer rows.")
    if isinstance(error, _BAD_TABLE):
        return Answer.refusal(422, str(error))
    traceback.print_exception(error)
    return Answer.refusal(500, "something went wrong while scoring; the server's log has more.")

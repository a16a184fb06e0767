"""BatchScorer: jobs for the same model -> answers, scored in one pass, in a worker process."""

import sys
import traceback
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd

from bacoun.server.dialects import DIALECTS
from bacoun.server.dialects.dialect import ScoringRequest
from bacoun.server.dialects.formats import Scored, check_length, to_frame, to_records
from bacoun.server.jobs import Answer, Job
from bacoun.server.settings import Settings
from bacoun.server.workers.models import LoadedModel, LoadedModels
from bacoun.server.workers.questions import QUESTIONS, plain_nearest
from bacoun.tabular.scored_rows import ScoredRows
from bacoun.web.errors import ApiError

# What a table can be refused with; anything else is a mistake of ours.
_BAD_TABLE = (ValueError, TypeError, OverflowError, UnicodeError)


class BatchScorer:
    """Answers jobs; keeps the models that it was asked for."""

    def __init__(self, settings: Settings) -> None:
        self.limits, self.models = settings.limits, LoadedModels(settings)

    def answer(self, jobs: Sequence[Job]) -> list[Answer]:
        """Answers to jobs that are all for the same model, in their order."""
        try:
            loaded = self.models[jobs[0].model]
        except ValueError as error:
            return [Answer.refusal(503, f"the model cannot be loaded: {error}")] * len(jobs)
        answers: dict[int, Answer] = {}
        requests: dict[int, ScoringRequest] = {}
        most = pixels_left = self.limits.photo_pixels
        for place, job in enumerate(jobs):
            try:
                if job.kind in QUESTIONS:
                    answers[place] = QUESTIONS[job.kind](loaded, job)
                else:
                    request = self._read(loaded, job)
                    n_pixels = loaded.count_pixels(request.rows, most)
                    if n_pixels > pixels_left:
                        raise ApiError(503, "the server is busy with photos; try again later.")
                    pixels_left -= n_pixels
                    requests[place] = request
            except Exception as error:
                answers[place] = _refusal(error)
        answers |= _scored(loaded, requests)
        return [answers[place] for place in range(len(jobs))]

    def _read(self, loaded: LoadedModel, job: Job) -> ScoringRequest:
        request = DIALECTS[job.kind].read(loaded, job)
        if request.because:
            check_length(request.rows, self.limits.explained_rows, "a request with because=true")
        check_length(request.rows, self.limits.rows)
        return request


def _scored(loaded: LoadedModel, requests: dict[int, ScoringRequest]) -> dict[int, Answer]:
    """Score all tables in one pass; if that fails, one by one, to tell whose fault it is."""
    if not requests:
        return {}
    try:
        groups = _grouped(requests)
        frames = [_together(list(group.values())) for group in groups]
        batch = loaded.model.score_rows(frames)
        answers: dict[int, Answer] = {}
        for group, scored in zip(groups, batch, strict=True):
            answers |= _written(loaded, group, scored)
    except Exception as error:
        if len(requests) == 1:
            return dict.fromkeys(requests, _refusal(error))
        return {place: _scored(loaded, {place: requests[place]})[place] for place in requests}
    if loaded.watch is not None:
        try:
            loaded.watch.add(batch)
        except (ValueError, OSError) as error:  # a full disk must not stop the service
            print(f"bacoun: the log was not written: {error}", file=sys.stderr, flush=True)
    return answers


def _grouped(requests: dict[int, ScoringRequest]) -> list[dict[int, ScoringRequest]]:
    """Requests that can be put into one table: those with the same columns in lists."""
    groups: dict[Any, dict[int, ScoringRequest]] = {}
    for place, request in requests.items():
        is_frame = isinstance(request.rows, pd.DataFrame)
        groups.setdefault(place if is_frame else tuple(request.rows), {})[place] = request
    return list(groups.values())


def _together(requests: list[ScoringRequest]) -> pd.DataFrame:
    first = requests[0].rows
    if isinstance(first, pd.DataFrame):
        return first
    return to_frame({name: [v for each in requests for v in each.rows[name]] for name in first})


def _written(
    loaded: LoadedModel, requests: dict[int, ScoringRequest], scored: ScoredRows
) -> dict[int, Answer]:
    """The answers to requests whose rows were scored together, one after the other."""
    answers, start, table = {}, 0, scored.table
    records = cache(partial(to_records, table))
    is_deferred = scored.reason != ""
    for place, request in requests.items():
        rows = slice(start, start + len(request))
        start += len(request)
        part = Scored(table, rows, records)
        if request.because or request.inputs:
            part = _told(loaded, request, scored.take(np.r_[rows]))
        counts = {"rows": len(request), "deferred": int(is_deferred[rows].sum())}
        answers[place] = Answer(request.write(part), request.media_type, **counts)
    return answers


def _told(loaded: LoadedModel, request: ScoringRequest, scored: ScoredRows) -> Scored:
    """Scored rows with what else a request asks for."""
    table, nearest = scored.table, None
    if request.because:
        explanations = loaded.model.explain_rows(scored)
        table = table.assign(because=list(map(str, explanations)))
        if loaded.model.known:
            told = [each.nearest for each in explanations]
            known = loaded.model.nearest(scored) if request.nearest else told
            nearest = list(map(plain_nearest, known))
    return Scored(scored.frame.join(table) if request.inputs else table, nearest=nearest)


def _refusal(error: Exception) -> Answer:
    if isinstance(error, ApiError):
        return Answer.refusal(error.status, str(error))
    if isinstance(error, MemoryError):
        return Answer.refusal(413, "the table needs more memory than there is; send fewer rows.")
    if isinstance(error, _BAD_TABLE):
        return Answer.refusal(422, str(error))
    traceback.print_exception(error)
    return Answer.refusal(500, "something went wrong while scoring; the server's log has more.")

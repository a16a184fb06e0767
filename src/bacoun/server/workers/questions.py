"""Questions about a model that score no table: what it is, what it says of one row, a check."""

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any

import pandas as pd

from bacoun.columns.photo_files import data_uri
from bacoun.server.dialects import open_inference
from bacoun.server.dialects.formats import check_length, dump_json, read_rows, to_frame, to_records
from bacoun.server.jobs import Answer, Job
from bacoun.server.workers.models import LoadedModel
from bacoun.tabular.explanation import Explanation, Nearest


def _row(loaded: LoadedModel, job: Job) -> Answer:
    """One row, the typical one with some values changed, and all that is known about it."""
    model, described = loaded.model, loaded.description
    values = {column["name"]: column["typical"] for column in described["columns"]}
    values |= loaded.cells(_one_row(job) if job.body else job.options["values"])
    frame = pd.DataFrame({name: pd.Series([value], dtype=object) for name, value in values.items()})
    (scored,) = model.score_rows([frame])
    (record,) = to_records(scored.table)
    (explanation,) = model.explain_rows(scored)
    (nearest,) = model.nearest(scored)
    answer = {"row": values, "scored": record, "explanation": _plain(explanation)}
    return Answer(dump_json({**described, **answer, "nearest": plain_nearest(nearest)}), rows=1)


def _one_row(job: Job) -> dict[str, Any]:
    columns = read_rows(job.body, job.media_type)
    check_length(columns, 1, "this address")
    return {name: value for name, (value,) in columns.items()}


def plain_nearest(known: Iterable[Nearest]) -> list[dict[str, Any]]:
    """Known texts and photos as plain values, thumbnails as data URIs."""
    return [
        {
            **each._asdict(),
            "kind": each.kind,
            "thumbnail": None if each.thumbnail is None else data_uri(each.thumbnail),
        }
        for each in known
    ]


def _plain(explanation: Explanation) -> dict[str, Any]:
    parts = ("surprises", "unseen", "pulls")
    return {
        "because": explanation.in_words(with_nearest=False),
        "reason": explanation.reason,
        "n_repairs": explanation.n_repairs,
        "rows_like_this": explanation.rows_like_this,
        "classes": [{"label": label, "probability": p} for label, p in explanation.classes],
        **{name: [item._asdict() for item in getattr(explanation, name)] for name in parts},
    }


def _check(loaded: LoadedModel, job: Job) -> Answer:
    rows = read_rows(job.body, job.media_type)
    check_length(rows, job.options["max_rows"])
    loaded.count_pixels(rows, job.options["max_pixels"])
    frame = rows if isinstance(rows, pd.DataFrame) else to_frame(rows)
    findings = loaded.model.check(frame)
    return Answer(dump_json({"rows": len(frame), "findings": list(map(asdict, findings))}))


QUESTIONS: dict[str, Callable[[LoadedModel, Job], Answer]] = {
    "describe": lambda loaded, job: Answer(dump_json(loaded.description)),
    "metadata": lambda loaded, job: Answer(dump_json(open_inference.metadata(loaded))),
    "row": _row,
    "check": _check,
}

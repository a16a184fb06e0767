"""A dialect is one module and one line: its address is served and documented, its bodies scored."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from fastapi import APIRouter, Request

from bacoun.server.app import create_app
from bacoun.server.dialects import DIALECTS
from bacoun.server.dialects.dialect import ScoringRequest
from bacoun.server.dialects.formats import dump_json, from_records, load_json
from bacoun.server.http.bodies import media_type_of
from bacoun.server.jobs import Job
from bacoun.server.settings import Limits, Settings
from bacoun.server.workers.batches import BatchScorer
from bacoun.server.workers.catalog import Catalog
from bacoun.web.documents import answers

LINES = "application/x-ndjson"


def routes(backend):
    router = APIRouter(tags=["score"])

    @router.post("/v1/models/{name}/lines", responses=answers(404, 408, 413, 415, 422))
    async def score_lines(name: str, request: Request):
        """Score JSON lines, one object for each row."""
        media_type = media_type_of(request, (LINES,))
        return await backend.ask_with_body(request, "lines", name, media_type)

    return router


def read(model, job):
    rows = [load_json(line) for line in job.body.splitlines()]
    return ScoringRequest(from_records(rows, "the lines"), write, LINES)


def write(scored):
    return b"".join(dump_json(record) + b"\n" for record in scored.records)


@pytest.fixture
def lines(monkeypatch):
    monkeypatch.setitem(DIALECTS, "lines", SimpleNamespace(routes=routes, read=read))


def body_of(rows):
    return b"\n".join(dump_json(row) for row in rows)


def test_a_new_dialect_is_served_documented_and_scored(lines, saved, model, new):
    document = create_app(Catalog(), Settings(playground=False)).openapi()
    assert "/v1/models/{name}/lines" in document["paths"]
    asked = Catalog.of([saved])["tumors"]
    rows = json.loads(new.head(3).to_json(orient="records"))
    scorer = BatchScorer(Settings(limits=Limits(rows=3)))
    good, long, bad = scorer.answer(
        [Job("lines", asked, body, LINES) for body in (body_of(rows), body_of(rows * 2), b"{")]
    )
    decisions = [load_json(line)["decision"] for line in good.body.splitlines()]
    assert decisions == model.score(new.head(3))["decision"].tolist()
    assert (good.status, good.rows, long.status, bad.status) == (200, 3, 413, 400)


def test_the_process_that_accepts_requests_imports_neither_torch_nor_pandas_nor_pil():
    code = (
        "import sys; from bacoun.server.app import create_app;"
        "from bacoun.server.settings import Settings;"
        "from bacoun.server.workers.catalog import Catalog;"
        "create_app(Catalog(), Settings()).openapi();"
        "print([name for name in ('torch', 'pandas', 'sklearn', 'PIL') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"

"""Whatever is sent, the server answers within its document, and refuses what is malformed.

By default these are a few hundred requests, always the same ones. The environment variable
BACOUN_FUZZ asks for as many new ones as it says, and twice as many malformed bodies:

    BACOUN_FUZZ=5000 pytest tests/server/test_fuzzing.py    or: make fuzz
"""

import json
import os

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.server.conftest import TOKEN

from bacoun.server.app import create_app
from bacoun.server.settings import Settings
from bacoun.server.workers.catalog import Catalog
from bacoun.web.errors import CODES

N_REQUESTS = int(os.environ.get("BACOUN_FUZZ", 0))
ALLOWED = {"Authorization": f"Bearer {TOKEN}"}


def as_many(short, long):
    return settings(
        max_examples=long or short,
        derandomize=N_REQUESTS == 0,  # so that a chance find does not fail an unrelated change
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )


DOCUMENT = create_app(Catalog(), Settings(playground=False)).openapi()
OPERATIONS = [
    f"{method.upper()} {path}" for path, methods in DOCUMENT["paths"].items() for method in methods
]


@pytest.fixture(scope="module")
def operations():
    """All operations of the document, by name."""
    import schemathesis  # takes longer to import than to collect all tests of a folder

    found = schemathesis.openapi.from_dict(DOCUMENT).get_all_operations()
    return {each.ok().label: each.ok() for each in found}


def test_every_operation_is_asked_below(operations):
    assert sorted(operations) == sorted(OPERATIONS)


def requests_to(operation):
    """Requests that follow the document and, where that is possible, such as do not."""
    from schemathesis import GenerationMode

    good = operation.as_strategy(generation_mode=GenerationMode.POSITIVE)
    if operation.body or operation.query:
        return good | operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)
    return good


def checks():
    """No error inside, and status, type and content as the document says."""
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    conformance = checks.status_code_conformance, checks.content_type_conformance
    return [not_a_server_error, *conformance, checks.response_schema_conformance]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_address_answers_as_its_document_says(strict, operations, operation):
    @given(case=requests_to(operations[operation]))
    @as_many(6, -(-N_REQUESTS // len(OPERATIONS)))
    def ask(case):
        if "name" in case.path_parameters and len(repr(case.body)) % 2:
            case.path_parameters["name"] = "iris"  # which no generator would find
        case.call_and_validate(base_url=strict.address, checks=checks(), headers=ALLOWED)

    ask()


# --- malformed bodies -----------------------------------------------------------------------------

COLUMNS = ["sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)"]
ROW = dict.fromkeys(COLUMNS, 1.5)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)
BAD_VALUES = (
    st.lists(st.integers(), min_size=2, max_size=3)  # of one, it is a tensor of one column
    | st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
    | st.sampled_from(["1e999", "-1e999", 10**400, "1,5", "one", "\ud800", "0x1F", True])
    | st.floats(min_value=1e308).map(lambda value: f"{value}e5")
)


def arrow_table():
    table, sink = pa.table({name: [1.5] for name in COLUMNS}), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


ARROW = arrow_table()
INFER = {
    "inputs": [{"name": name, "shape": [1], "datatype": "FP64", "data": [1.5]} for name in COLUMNS]
}
GOOD = {
    "/v1/models/iris/predict": {"rows": [ROW]},
    "/v1/models/iris/check": {"rows": [ROW]},
    "/v2/models/iris/infer": INFER,
    "/invocations": {"instances": [ROW]},
}
JSON, CSV, STREAM = "application/json", "text/csv", "application/vnd.apache.arrow.stream"


@st.composite
def malformed(draw):
    """An address, a media type, and a body that is certainly no table of this model."""
    path = draw(st.sampled_from(sorted(GOOD)))
    good = json.dumps(GOOD[path])
    kind = draw(st.sampled_from(["cut", "value", "name", "json", "bytes", "csv", "arrow"]))
    if kind == "cut":
        return path, JSON, good[: draw(st.integers(0, len(good) - 1))].encode()
    if kind == "value" and path != "/v1/models/iris/check":
        return path, JSON, good.replace("1.5", json.dumps(draw(BAD_VALUES)), 1).encode()
    if kind == "name" and path != "/v1/models/iris/check":
        name = json.dumps(draw(st.text(max_size=30).filter(lambda each: each != COLUMNS[0])))
        return path, JSON, good.replace(json.dumps(COLUMNS[0]), name).encode()
    if kind == "json":
        return path, JSON, json.dumps({draw(st.text(max_size=9)): draw(ANYTHING)}).encode()
    if kind == "csv" and path != "/v2/models/iris/infer":
        return path, CSV, draw(st.text(max_size=200)).encode("utf-8", "surrogatepass")
    if kind == "arrow" and path.startswith("/v1"):
        end = draw(st.integers(0, len(ARROW) // 2))
        return path, STREAM, ARROW[:end] + draw(st.binary(max_size=100))
    return path, JSON, b"\xff" + draw(st.binary(max_size=200))


@pytest.fixture(scope="module")
def client(strict):
    with strict.client(headers=ALLOWED) as opened:
        yield opened


@given(request=malformed())
@as_many(150, 2 * N_REQUESTS)
def test_a_malformed_body_is_refused(client, request):
    path, kind, body = request
    answer = client.post(path, content=body, headers={"Content-Type": kind})
    if path.endswith("/check") and answer.status_code == 200:
        return  # any table can be compared with the training table
    assert 400 <= answer.status_code < 500, (answer.status_code, answer.text[:300])
    assert answer.json().keys() == {"error", "code"}
    assert answer.json()["code"] == CODES[answer.status_code]
    assert answer.json()["error"].strip()


@given(place=st.integers(0, len(ARROW) - 1), byte=st.integers(0, 255))
@as_many(40, N_REQUESTS)
def test_a_flipped_byte_of_arrow_is_read_or_refused(client, place, byte):
    body = ARROW[:place] + bytes([byte]) + ARROW[place + 1 :]
    answer = client.post("/v1/models/iris/predict", content=body, headers={"Content-Type": STREAM})
    assert answer.status_code in (200, 400, 413, 422), (answer.status_code, answer.text[:300])

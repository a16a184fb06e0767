"""Answers are those of the library, in every dialect."""

import io
import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

NUMBERS = ["total", "aleatoric", "epistemic", "ood_score", "ood_probability", "log_density"]
ARROW = "application/vnd.apache.arrow.stream"


@pytest.fixture(scope="module")
def client(server):
    with server.client() as opened:
        yield opened


@pytest.fixture(scope="module")
def expected(model, new):
    return model.score(new, because=True)


def records(frame):
    return json.loads(frame.to_json(orient="records"))


def check_same(found, expected):
    assert len(found) == len(expected)
    for name in ["prediction", "decision", "reason"]:
        assert found[name].fillna("").astype(str).tolist() == expected[name].astype(str).tolist()
    names = [*NUMBERS, *(name for name in expected if name.startswith("p_"))]
    for name in names:  # rows that are scored together may change the last digits
        near = 5e-3 if name in ("ood_score", "log_density") else 1e-4
        values = found[name].to_numpy(float), expected[name].to_numpy(float)
        np.testing.assert_allclose(*values, atol=near, rtol=1e-4)


def as_csv(frame):
    return frame.to_csv(index=False).encode()


def as_arrow(frame):
    table, sink = pa.Table.from_pandas(frame, preserve_index=False), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def test_rows_of_json_are_scored_as_by_the_library(client, new, expected):
    answer = client.post("/v1/models/tumors/predict", json={"rows": records(new)})
    assert answer.status_code == 200, answer.text
    check_same(pd.DataFrame(answer.json()["rows"]), expected)
    assert "because" not in answer.json()["rows"][0]


@pytest.mark.parametrize(("kind", "write"), [("text/csv", as_csv), (ARROW, as_arrow)])
def test_tables_are_scored_as_by_the_library(client, new, expected, kind, write):
    answer = client.post(
        "/v1/models/tumors/predict?inputs=true&because=true",
        content=write(new),
        headers={"Content-Type": kind},
    )
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].split(";")[0] == kind
    if kind == ARROW:
        found = pa.ipc.open_stream(answer.content).read_all().to_pandas()
    else:
        found = pd.read_csv(io.BytesIO(answer.content))
    assert list(found) == [*new, *expected]
    check_same(found, expected)
    said = found["because"].fillna("")
    assert (said != "").equals(expected["because"] != "")


def test_timestamps_of_arrow_come_back_as_text(client, new, expected):
    dated = new.assign(admitted=pd.to_datetime(new["admitted"]))
    answer = client.post(
        "/v1/models/tumors/predict?inputs=true",
        content=as_arrow(dated),
        headers={"Content-Type": ARROW, "Accept": "application/json"},
    )
    assert answer.status_code == 200, answer.text
    found = pd.DataFrame(answer.json()["rows"])
    check_same(found, expected)
    assert found["admitted"].str.startswith("2024-").all()


def test_the_answer_has_the_format_that_accept_names(client, new):
    answer = client.post(
        "/v1/models/tumors/predict",
        json={"rows": records(new.head(2))},
        headers={"Accept": "text/csv"},
    )
    assert len(pd.read_csv(io.BytesIO(answer.content))) == 2
    refused = client.post(
        "/v1/models/tumors/predict", json={"rows": []}, headers={"Accept": "image/png"}
    )
    assert refused.status_code == 406


def tensor(name, values):
    kind = "BYTES" if isinstance(values[0], str) else "FP64"
    return {"name": name, "shape": [len(values), 1], "datatype": kind, "data": values}


def test_the_open_inference_protocol_takes_one_tensor_for_each_column(client, new, expected):
    rows = new.head(20)
    columns = {name: json.loads(rows[name].to_json(orient="values")) for name in rows}
    columns["smoker"] = [float(value) for value in columns["smoker"]]
    body = {"id": "42", "inputs": [tensor(name, values) for name, values in columns.items()]}
    answer = client.post("/v2/models/tumors/infer", json=body).json()
    assert (answer["id"], answer["model_name"]) == ("42", "tumors")
    outputs = {each["name"]: each for each in answer["outputs"]}
    described = client.get("/v2/models/tumors").json()
    kinds = {each["name"]: each["datatype"] for each in described["outputs"]}
    assert all(kinds[name] == each["datatype"] for name, each in outputs.items())
    assert all(each["shape"] == [20] for each in outputs.values())
    check_same(pd.DataFrame({k: v["data"] for k, v in outputs.items()}), expected.head(20))
    assert {each["name"] for each in described["inputs"]} == set(new)

    body["outputs"] = [{"name": "decision"}]
    only = client.post("/v2/models/tumors/infer", json=body).json()["outputs"]
    assert [each["name"] for each in only] == ["decision"]


def test_the_binary_extension_of_the_protocol_is_read(client, model, new):
    rows, tensors, payload = new.head(7), [], b""
    for name in rows:
        if rows[name].dtype.kind in "fb":
            content, kind = rows[name].to_numpy("<f8").tobytes(), "FP64"
        else:
            words = [value.encode() for value in rows[name]]
            content = b"".join(len(word).to_bytes(4, "little") + word for word in words)
            kind = "BYTES"
        size = {"binary_data_size": len(content)}
        tensors.append({"name": name, "shape": [7], "datatype": kind, "parameters": size})
        payload += content
    header = json.dumps({"inputs": tensors}).encode()
    answer = client.post(
        "/v2/models/tumors/infer",
        content=header + payload,
        headers={"Inference-Header-Content-Length": str(len(header))},
    )
    assert answer.status_code == 200, answer.text
    outputs = {each["name"]: each["data"] for each in answer.json()["outputs"]}
    check_same(pd.DataFrame(outputs), model.score(rows))


@pytest.mark.parametrize("key", ["dataframe_split", "dataframe_records", "instances", "inputs"])
def test_bodies_of_mlflow_are_scored(client, model, new, key):
    rows = new.head(5)
    value = records(rows)
    if key == "dataframe_split":
        value = json.loads(rows.to_json(orient="split"))
    if key == "inputs":
        value = {name: [row[name] for row in value] for name in rows}
    answer = client.post("/v1/models/tumors/invocations", json={key: value})
    assert answer.status_code == 200, answer.text
    check_same(pd.DataFrame(answer.json()["predictions"]), model.score(rows))


def test_invocations_without_a_name_need_a_server_of_one_model(client):
    answer = client.post("/invocations", json={"instances": []})
    assert answer.status_code == 404
    assert "/v1/models/NAME/invocations" in answer.json()["error"]


def test_a_row_from_the_address_starts_at_a_familiar_one(client):
    found = client.get("/models/tumors").json()
    assert found["scored"]["decision"] == "accept"
    assert found["explanation"]["reason"] == ""
    strange = client.get("/models/tumors", params={"ward": "Z"}).json()
    assert strange["scored"]["reason"] == "unfamiliar"
    assert strange["explanation"]["surprises"][0]["column"] == "ward"
    refused = client.get("/models/tumors", params={"wart": "Z"})
    assert refused.status_code == 422
    assert refused.json()["error"] == "'wart' is not a column of this model."


def test_a_typical_row_is_no_row_of_training(client, model, new):
    found = client.get("/v1/models/tumors").json()
    row = {each["name"]: each["typical"] for each in found["columns"]}
    known = model.neighborhood.rows * model.neighborhood.scale + model.neighborhood.mean
    features = model.encoder.transform(pd.DataFrame([row]))
    assert not np.isclose(known, features, rtol=1e-5).all(axis=1).any()


def test_a_table_is_checked_as_by_the_library(client, new):
    body = as_csv(new.assign(**{"mean radius": 1000 * new["mean radius"]}))
    answer = client.post(
        "/v1/models/tumors/check", content=body, headers={"Content-Type": "text/csv"}
    )
    assert any("1000" in each["message"] for each in answer.json()["findings"])


def test_machines_can_ask_how_the_server_is(client):
    assert client.get("/healthz").json() == client.get("/ping").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"status": "ready"}
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v2/health/ready").json() == {"ready": True}
    assert client.get("/v2/models/iris/ready").json() == {"name": "iris", "ready": True}
    assert client.get("/v1/models").json() == {"models": ["iris", "tumors"]}
    metrics = client.get("/metrics").text
    assert 'bacoun_rows_total{model="tumors"}' in metrics
    assert 'bacoun_requests_total{path="/healthz",status="200"}' in metrics

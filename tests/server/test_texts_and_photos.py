"""Texts and photos over HTTP: the server reads no files, and tells the nearest known ones."""

import base64
import io
import json
import re
import socket
import struct
import zlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image
from tests.browser import CONTRAST, chromium

from bacoun.columns.photo_files import data_uri
from bacoun.server.jobs import Job
from bacoun.server.settings import Settings
from bacoun.server.workers.batches import BatchScorer
from bacoun.server.workers.catalog import Catalog
from bacoun.tabular import TableModel, read_table

JSON, CSV, ARROW = "application/json", "text/csv", "application/vnd.apache.arrow.stream"
MOST_BYTES = 1_000_000  # of a body


def as_png(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


GOOD = as_png(Image.radial_gradient("L"))


def as_cell(photo):
    return data_uri(photo, "image/png")


@pytest.fixture(scope="module")
def folder(fast, shapes, ticket_model, tmp_path_factory):
    """Two models: "shapes" of a photo and a number, "tickets" of a text and others."""
    folder = tmp_path_factory.mktemp("items")
    table = read_table(shapes)
    table = table[~table["photo"].str.contains("broken|empty")].reset_index(drop=True)
    table["weight"] = np.random.default_rng(0).normal(5, 1, len(table)).round(2)
    model = TableModel.fit(table, "class", photo_folder=shapes, classifier=fast())
    model.save(folder / "shapes")
    ticket_model.save(folder / "tickets")
    return folder


@pytest.fixture(scope="module")
def server(folder, start):
    options = ["--no-playground", "--watch", "--timeout", "300", "--max-body", MOST_BYTES]
    with start(folder, *options) as started:
        yield started


@pytest.fixture(scope="module")
def client(server):
    with server.client() as opened:
        yield opened
        restarts = r"^bacoun_worker_restarts (\S+)"
        assert float(re.search(restarts, opened.get("/metrics").text, re.MULTILINE)[1]) == 0


@pytest.fixture(scope="module")
def model(folder):
    return TableModel.load(folder / "shapes")


@pytest.fixture(scope="module")
def known(model, shapes):
    """A photo of training: the first disc that was not held out for calibration."""
    (name, *_) = sorted(name for name in model.known["photo"].texts if name.startswith("disc"))
    return (shapes / "disc" / name).read_bytes()


def as_arrow(columns):
    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def as_tensors(columns):
    kinds = {
        name: "BYTES" if isinstance(values[0], str) else "FP64" for name, values in columns.items()
    }
    inputs = [
        {"name": name, "shape": [len(values)], "datatype": kinds[name], "data": values}
        for name, values in columns.items()
    ]
    return json.dumps({"inputs": inputs}).encode()


def as_csv(columns):
    return pd.DataFrame(columns).to_csv(index=False).encode()


def as_rows(key):
    return lambda columns: json.dumps({key: pd.DataFrame(columns).to_dict("records")}).encode()


# Each way to send a table of "shapes": address, media type, and body.
WAYS = {
    "JSON": ("/v1/models/shapes/predict", JSON, as_rows("rows")),
    "CSV": ("/v1/models/shapes/predict", CSV, as_csv),
    "Arrow": ("/v1/models/shapes/predict", ARROW, as_arrow),
    "check": ("/v1/models/shapes/check", JSON, as_rows("rows")),
    "Open Inference": ("/v2/models/shapes/infer", JSON, as_tensors),
    "MLflow": ("/v1/models/shapes/invocations", JSON, as_rows("instances")),
    "MLflow CSV": ("/v1/models/shapes/invocations", CSV, as_csv),
}


def send(client, way, columns, query=""):
    path, media_type, write = WAYS[way]
    return client.post(path + query, content=write(columns), headers={"Content-Type": media_type})


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Where a photo is that this process, and so the server, can read."""
    path = tmp_path_factory.mktemp("secret") / "secret.png"
    path.write_bytes(GOOD)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        address = f"http://127.0.0.1:{listener.getsockname()[1]}/secret.png"
        yield {"path": str(path), "file": path.as_uri(), "http": address, "blank": f" {path}"}
        with pytest.raises(BlockingIOError):  # nobody came
            listener.accept()


@pytest.mark.parametrize("kind", ["path", "file", "http", "blank"])
@pytest.mark.parametrize("way", WAYS)
def test_no_client_makes_the_server_read_a_file(client, model, sources, way, kind):
    columns = {"photo": [sources[kind]], "weight": [5.0]}
    if kind == "path":  # the library would
        assert not model.explain(pd.DataFrame(columns))[0].unseen
    answer = send(client, way, columns)
    assert answer.status_code == 422
    assert "must be data URIs" in answer.json()["error"]
    page = client.post("/models/shapes", json={"rows": [{"photo": sources[kind]}]})
    assert (page.status_code, page.json()["code"]) == (422, "unprocessable")
    page = client.get("/models/shapes", params={"photo": sources[kind]})
    assert (page.status_code, page.json()["code"]) == (422, "unprocessable")


@pytest.mark.parametrize("way", [way for way in WAYS if way != "check"])
def test_photos_are_scored_as_by_the_library_in_every_dialect(client, model, known, way):
    columns = {"photo": [as_cell(known), as_cell(GOOD)], "weight": [5.0, 5.5]}
    answer = send(client, way, columns)
    assert answer.status_code == 200, answer.text
    expected = model.score(pd.DataFrame(columns))["total"]
    if answer.headers["content-type"] == ARROW:
        found = pa.ipc.open_stream(answer.content).read_all()["total"].to_pylist()
    elif answer.headers["content-type"].startswith(CSV):
        found = pd.read_csv(io.BytesIO(answer.content))["total"].tolist()
    elif "outputs" in answer.json():
        found = {each["name"]: each["data"] for each in answer.json()["outputs"]}["total"]
    else:
        rows = answer.json().get("rows") or answer.json()["predictions"]
        found = [row["total"] for row in rows]
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def upload(client, photo, **columns):
    headers = {"Content-Type": "image/png"}
    return client.post("/v1/models/shapes/photos", content=photo, headers=headers, params=columns)


def test_a_photo_is_a_body_and_its_answer_that_of_a_table(client, known):
    answer = upload(client, known, weight="50")
    row = {"photo": as_cell(known), "weight": 50}
    table = client.post("/v1/models/shapes/predict?because=true", json={"rows": [row]})
    assert answer.json() == table.json()
    (found,) = answer.json()["rows"]
    assert found["reason"] == "unfamiliar"
    assert found["because"].startswith("weight = 50")
    assert [each["label"] for each in found["nearest"]] == ["disc"] * 3
    similarities = [each["similarity"] for each in found["nearest"]]
    assert similarities == sorted(similarities, reverse=True)
    shown = base64.b64decode(
        found["nearest"][0]["thumbnail"].removeprefix("data:image/jpeg;base64,")
    )
    assert Image.open(io.BytesIO(shown)).size == (40, 40)


def test_a_known_photo_is_accepted_and_nearest_to_itself(client, known):
    (found,) = upload(client, known, weight="5").json()["rows"]
    assert (found["decision"], found["because"]) == ("accept", "")
    assert found["nearest"][0]["similarity"] == pytest.approx(1)
    assert {each["column"] for each in found["nearest"]} == {"photo"}


@pytest.mark.parametrize(
    ("path", "media_type", "status", "said"),
    [
        ("shapes/photos", "image/png", 422, "it lacks 'weight'"),
        ("shapes/photos?weigth=5", "image/png", 422, "'weigth' is not a column"),
        ("shapes/photos?weight=5", "application/pdf", 415, "must be image/jpeg or"),
        ("tickets/photos", "image/png", 422, "one column of photos"),
        ("nothing/photos", "image/png", 404, "no model of that name"),
    ],
)
def test_what_is_no_upload_is_refused(client, path, media_type, status, said):
    headers = {"Content-Type": media_type}
    answer = client.post(f"/v1/models/{path}", content=GOOD, headers=headers)
    assert answer.status_code == status
    assert said in answer.json()["error"]


def png_of(width, height):
    """A PNG of one bit for each pixel, all zero, which is small however many they are."""

    def chunk(name, body):
        check = struct.pack(">I", zlib.crc32(name + body))
        return struct.pack(">I", len(body)) + name + body + check

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    pixels = zlib.compress(bytes((width + 7) // 8 + 1) * height, 9)
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


BAD = {
    "it is empty": b"",
    "it is none of JPEG": b"%PDF-1.7 renamed",
    "it is damaged": GOOD[: len(GOOD) // 2],
    "more than 100 million pixels": png_of(60_000, 60_000),
}


@pytest.mark.parametrize("why", BAD)
def test_a_photo_that_cannot_be_read_is_deferred_and_changes_no_other_row(client, why):
    rows = [{"photo": as_cell(photo), "weight": 5.0} for photo in (GOOD, BAD[why], GOOD)]
    table = client.post("/v1/models/shapes/predict?because=true", json={"rows": rows})
    first, bad, last = table.json()["rows"]
    alone = client.post("/v1/models/shapes/predict?because=true", json={"rows": rows[:1]})
    expected = pytest.approx(alone.json()["rows"][0]["total"], rel=1e-4)
    assert (first["total"], last["total"]) == (expected, expected)
    assert (bad["decision"], bad["reason"], bad["nearest"]) == ("defer", "unfamiliar", [])
    assert "cannot be read" in bad["because"]
    assert why in bad["because"]
    (uploaded,) = upload(client, BAD[why], weight="5").json()["rows"]
    assert (uploaded["decision"], uploaded["because"]) == ("defer", bad["because"])


@pytest.mark.parametrize("way", WAYS)
def test_many_large_pictures_in_small_files_are_refused_together(client, way):
    bomb = as_cell(png_of(10_000, 9_000))
    answer = send(client, way, {"photo": [bomb] * 3, "weight": [5.0] * 3})
    assert answer.status_code == 413
    assert "may have 250000000 pixels; these have 270000000" in answer.json()["error"]
    if way == "JSON":
        assert send(client, way, {"photo": [bomb], "weight": [5.0]}).status_code == 200


def test_large_pictures_that_wait_together_are_not_all_decoded(folder):
    asked, options = Catalog.of([folder])["shapes"], {"values": {"weight": "5"}}
    bodies = [png_of(10_000, 9_000)] * 3 + [GOOD]
    jobs = [Job("photos", asked, body, "image/png", options) for body in bodies]
    answers = BatchScorer(Settings()).answer(jobs)
    assert [answer.status for answer in answers] == [200, 200, 503, 200]


def test_photos_count_as_bytes_of_the_body(client):
    rng = np.random.default_rng(0)
    noise = as_png(Image.fromarray(rng.integers(0, 256, (550, 550, 3), dtype=np.uint8)))
    assert MOST_BYTES * 3 / 4 < len(noise) < MOST_BYTES
    assert upload(client, noise, weight="5").status_code == 200
    answer = send(client, "JSON", {"photo": [as_cell(noise)], "weight": [5.0]})
    assert answer.status_code == 413
    assert upload(client, noise * 2, weight="5").status_code == 413


def test_deferred_rows_tell_the_nearest_known_texts(client, tickets, ticket_model):
    typical = ticket_model.typical_row()
    texts = typical["ticket"], "Steel prices rose by four percent", None
    rows = [typical | {"ticket": text} for text in texts]
    path = "/v1/models/tickets/predict?because=true"
    known, strange, gap = client.post(path, json={"rows": rows}).json()["rows"]
    assert (known["decision"], known["nearest"], gap["nearest"]) == ("accept", [], [])
    assert "unlike the known texts" in strange["because"]
    assert len(strange["nearest"]) == 3
    for each in strange["nearest"]:
        assert each["label"] in tickets["team"][tickets["ticket"] == each["text"]].tolist()
        assert (each["kind"], each["thumbnail"]) == ("text", None)
    plain = client.post("/v1/models/tickets/predict", json={"rows": rows}).json()["rows"]
    assert not any("nearest" in row for row in plain)


def test_only_json_rows_have_the_nearest(client):
    columns = {"photo": [as_cell(GOOD)], "weight": [50.0]}
    head = send(client, "CSV", columns, "?because=true").text.splitlines()[0]
    assert head.endswith(",because")
    body = json.loads(as_tensors(columns)) | {"parameters": {"because": True}}
    outputs = client.post("/v2/models/shapes/infer", json=body).json()["outputs"]
    described = client.get("/v2/models/shapes").json()
    assert outputs[-1]["name"] == "because"
    assert {each["name"] for each in outputs} == {each["name"] for each in described["outputs"]}
    kinds = {each["name"]: each["datatype"] for each in described["inputs"]}
    assert kinds == {"photo": "BYTES", "weight": "FP64"}


@pytest.mark.parametrize(
    "text",
    ["\0", "x" * 500_000, "\u202e" * 100, "<script>"],
    ids=["nul", "long", "overrides", "markup"],
)
def test_any_text_is_scored(client, ticket_model, text):
    rows = [ticket_model.typical_row() | {"ticket": text}]
    answer = client.post("/v1/models/tickets/predict?because=true", json={"rows": rows})
    assert answer.status_code == 200, answer.text
    assert answer.json()["rows"][0]["decision"] == "defer"


def test_a_row_in_a_body_is_one_row(client):
    row = {"weight": "900"}
    found = client.post("/models/shapes", json={"rows": [row]}).json()
    assert found["row"]["photo"].startswith("data:image/jpeg;base64,")  # the typical one
    assert found["explanation"]["surprises"][0]["column"] == "weight"
    assert len(found["nearest"]) == 3
    assert found == client.get("/models/shapes", params=row).json()
    refused = client.post("/models/shapes", json={"rows": [row, row]})
    assert refused.status_code == 413


# --- in a browser ---------------------------------------------------------------------------------

ANSWERED = "document.getElementById('verdict')?.textContent.length > 5"


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


def check_readable(browser, width):
    assert browser.run("document.documentElement.scrollWidth") <= width
    assert browser.run(CONTRAST) >= 4.5
    assert browser.complaints() == []


def drop(browser, selector, name, content):
    """Drop a file on an element."""
    encoded = base64.b64encode(content).decode()
    browser.run(f"""(() => {{
      const bytes = Uint8Array.from(atob("{encoded}"), (each) => each.charCodeAt(0));
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File([bytes], "{name}", {{type: "image/png"}}));
      document.querySelector("{selector}").dispatchEvent(
        new DragEvent("drop", {{dataTransfer, bubbles: true}}));
    }})()""")


@pytest.mark.parametrize(("width", "theme"), [(1200, "light"), (390, "dark")])
def test_a_dropped_photo_is_shown_with_its_decision_and_neighbors(
    server, browser, known, width, theme
):
    browser.visit(f"{server.address}/models/shapes?weight=6", width=width, theme=theme)
    browser.until(ANSWERED)
    drop(browser, "#form .drop", "new.png", known)
    nearest = "[...document.querySelectorAll('#nearest img')]"
    browser.until(f"{nearest}[0]?.alt.endsWith('disc')")
    browser.until("document.querySelector('#nearest .known').textContent.includes('1.00')")
    pictures = "[...document.querySelectorAll('#form img, #nearest img')]"
    assert (
        browser.until(f"{pictures}.every((each) => each.naturalWidth === 40) && {pictures}.length")
        == 4
    )
    assert browser.run("document.querySelector('#form img').alt") == "new.png"
    assert browser.run("document.querySelector('#verdict .decision').textContent") == "disc"
    assert browser.run("location.search") == "?weight=6"  # all but the photo
    check_readable(browser, width)

    drop(browser, "#form .drop", "wide.png", as_png(Image.new("L", (900, 200))))
    browser.until("document.querySelector('#verdict .tag').textContent === 'defer'")
    browser.until("document.querySelector('#form img').naturalWidth === 900")
    check_readable(browser, width)
    drop(browser, "#form .drop", "broken.png", BAD["it is damaged"])
    browser.until("document.querySelector('#verdict').textContent.includes('cannot be read')")
    assert browser.run("document.querySelector('.blamed [data-column]').dataset.column") == "photo"
    assert browser.run(f"{nearest}.length") == 0
    browser.run("document.getElementById('reset').click()")
    browser.until(f"{nearest}.length === 3")
    assert browser.run("location.search") == ""


@pytest.mark.parametrize(("width", "theme"), [(1200, "dark"), (390, "light")])
def test_a_text_is_changed_and_the_nearest_known_ones_are_quoted(
    server, browser, tickets, width, theme
):
    browser.visit(f"{server.address}/models/tickets", width=width, theme=theme)
    browser.until(ANSWERED)
    browser.run(
        "(() => { const area = document.querySelector('#form textarea');"
        "area.value = 'Steel prices rose\\nby four percent';"
        "area.dispatchEvent(new Event('input')); })()"
    )
    browser.until("document.querySelector('#verdict .tag').textContent === 'defer'")
    assert browser.run("new URLSearchParams(location.search).get('ticket')").startswith("Steel")
    quotes = browser.run("[...document.querySelectorAll('#nearest q')].map((q) => q.textContent)")
    assert len(quotes) == 3
    assert set(quotes) <= set(tickets["ticket"])
    assert "similarity" in browser.run("document.querySelector('#nearest li').textContent")
    assert (
        browser.run("document.querySelector('.blamed small').textContent")
        == "unlike the known texts"
    )
    assert "nearest known" not in browser.run("document.getElementById('verdict').textContent")
    check_readable(browser, width)
    browser.visit(server.address + "/models/tickets" + browser.run("location.search"), width=width)
    browser.until("document.querySelector('#form textarea')?.value.startsWith('Steel')")

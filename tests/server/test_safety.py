"""What a server refuses, and that it stays up: tokens, hosts, paths, sizes, slow clients."""

import asyncio
import gzip
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager

import httpx
import pyarrow
import pytest
import uvicorn
from tests.server.conftest import TOKEN

from bacoun.cli import main
from bacoun.server.app import create_app
from bacoun.server.http.protocol import protocol_with
from bacoun.server.jobs import Job
from bacoun.server.settings import Limits, Settings
from bacoun.server.workers.catalog import Catalog
from bacoun.server.workers.pool import Pool
from bacoun.server.workers.worker import score_jobs
from bacoun.web.errors import CODES, ApiError


def check_refused(answer, status):
    assert answer.status_code == status, answer.text
    assert answer.json().keys() == {"error", "code"}
    assert answer.json()["code"] == CODES[status]
    assert "\n" not in answer.json()["error"]


@pytest.fixture(scope="module")
def allowed(strict):
    with strict.client(headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        yield client


ROW = {f"{part} {size} (cm)": 1.0 for part in ("sepal", "petal") for size in ("length", "width")}


@pytest.mark.parametrize("given", [None, "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", ""])
@pytest.mark.parametrize("path", ["/v1/models", "/models/iris", "/metrics", "/openapi.json"])
def test_a_missing_or_wrong_token_is_refused(strict, given, path):
    headers = {} if given is None else {"Authorization": given}
    answer = httpx.get(f"{strict.address}{path}", headers=headers)
    check_refused(answer, 401)
    assert answer.headers["www-authenticate"] == "Bearer"


def test_the_token_opens_and_health_needs_none(strict, allowed):
    assert allowed.get("/v1/models").json() == {"models": ["iris"]}
    assert allowed.post("/invocations", json={"instances": [ROW]}).status_code == 200
    assert httpx.get(f"{strict.address}/healthz").status_code == 200
    page = httpx.get(f"{strict.address}/models/iris", headers={"Accept": "text/html"})
    assert page.status_code == 200
    assert "iris" not in page.text  # the page without its data


def test_a_host_of_another_name_is_refused(strict):
    answer = httpx.get(f"{strict.address}/healthz", headers={"Host": "evil.example"})
    check_refused(answer, 421)


@pytest.mark.parametrize(
    "name",
    [
        *("..", "../iris", "..%2Firis", "%2e%2e%2firis", "iris%00", "/etc/passwd"),
        *("%2Fetc%2Fpasswd", "iris%2F..%2Firis", ".", "~", "iris/../../iris", "IRIS"),
    ],
)
@pytest.mark.parametrize("base", ["/v1/models/{}", "/models/{}/report", "/v2/models/{}/infer"])
def test_only_the_names_of_models_are_known(strict, allowed, base, name):
    path = base.format(name)
    with socket.create_connection(strict.address.removeprefix("http://").split(":")) as raw:
        head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
        raw.sendall(f"{head}Connection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    status = int(answer.split()[1])
    assert status in (400, 404, 405), answer[:200]
    assert json.loads(answer.split(b"\r\n\r\n")[1])["code"] == CODES[status]


def test_a_link_out_of_the_folder_is_not_inside(saved, tmp_path):
    (tmp_path / "folder").mkdir()
    os.symlink(saved / "tumors", tmp_path / "folder" / "linked")
    with pytest.raises(FileNotFoundError, match="must hold models"):
        Catalog.of([tmp_path / "folder"])
    os.symlink("iris", tmp_path / "folder" / "alias")
    with pytest.raises(ApiError):
        Catalog([], [tmp_path / "folder"])["linked"]


def test_large_bodies_are_refused_before_and_while_they_are_read(strict, allowed):
    rows = {"rows": [ROW] * 1000}
    check_refused(allowed.post("/v1/models/iris/predict", json=rows), 413)

    def endless():  # no Content-Length
        for _ in range(10_000):
            yield b" " * 1000

    headers = {"Content-Type": "application/json"}
    try:
        answer = allowed.post("/v1/models/iris/predict", content=endless(), headers=headers)
        check_refused(answer, 413)
    except httpx.WriteError:
        pass  # closed while we were still sending
    assert allowed.get("/v1/models").status_code == 200


def test_too_many_rows_are_refused(allowed):
    check_refused(allowed.post("/invocations", json={"inputs": {k: [1] * 51 for k in ROW}}), 413)
    assert allowed.post("/invocations", json={"inputs": {k: [1] * 50 for k in ROW}}).is_success


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 408),
        (b"POST /invoca", 408),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", 408),
        (
            b"POST /invocations HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Authorization: Bearer correct-horse-battery\r\nContent-Length: 1000\r\n\r\n{",
            408,
        ),
        (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 70_000, 431),
        (b"nonsense\r\n\r\n", 400),
    ],
)
def test_slow_or_broken_clients_are_sent_away(strict, sent, status):
    with socket.create_connection(strict.address.removeprefix("http://").split(":")) as raw:
        raw.settimeout(20)
        raw.sendall(sent)
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert answer.startswith(f"HTTP/1.1 {status} ".encode()), answer[:100]
    assert json.loads(answer.split(b"\r\n\r\n")[1])["code"] == CODES[status]


def test_a_second_request_may_not_be_slow_either(strict):
    with socket.create_connection(strict.address.removeprefix("http://").split(":")) as raw:
        raw.settimeout(20)
        raw.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert raw.recv(65536).startswith(b"HTTP/1.1 200")
        raw.sendall(b"GET /healthz HT")
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert b"HTTP/1.1 408 " in answer


@pytest.mark.parametrize(
    ("path", "body", "kind", "status"),
    [
        ("predict", b"{", "application/json", 400),
        ("predict", b"[" * 100_00, "application/json", 400),
        ("predict", b"\xff\xfe\x00", "application/json", 400),
        ("predict", b'{"rows": [{"petal width (cm)": NaN}]}', "application/json", 400),
        ("predict", b"[]", "application/json", 422),
        ("predict", b'{"rows": []}', "application/json", 422),
        ("predict", b'{"rows": [{}]}', "application/json", 422),
        ("predict", b'{"rows": [{"petal width (cm)": [1]}]}', "application/json", 422),
        ("predict", b'{"rows": [{"a": 1}]}', "application/json", 422),
        ("predict", b"a,b\n1\n", "text/csv", 422),
        ("predict", b"", "text/csv", 422),
        ("predict", b"ARROW1", "application/vnd.apache.arrow.stream", 400),
        ("predict", b"{}", "image/png", 415),
        ("predict", b"{}", "", 415),
        ("invocations", b'{"instances": [], "inputs": []}', "application/json", 422),
    ],
)
def test_bodies_that_are_no_tables_are_refused(allowed, path, body, kind, status):
    answer = allowed.post(
        f"/v1/models/iris/{path}", content=body, headers={"Content-Type": kind} if kind else {}
    )
    check_refused(answer, status)


def test_infinite_and_huge_numbers_are_refused(allowed):
    for value in ("1e999", 10**400, "1e400"):
        answer = allowed.post("/invocations", json={"instances": [ROW | {next(iter(ROW)): value}]})
        check_refused(answer, 422)


def test_other_hosts_need_a_token_which_must_be_long():
    with pytest.raises(ValueError, match="needs a token"):
        Settings(host="0.0.0.0")
    with pytest.raises(ValueError, match="at least 16"):
        Settings(token="short")
    assert Settings(host="::1").is_loopback
    assert not Settings(host="0.0.0.0", token=TOKEN).is_loopback


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--host", "0.0.0.0"], "needs a token"),
        (["nowhere"], "is neither"),
        (["--watch-inputs"], "pass both"),
        (["--port", "70000"], "from 0 to 65535"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_code_2(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("BACOUN_TOKEN", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as stop:
        main(["serve", *arguments])
    assert stop.value.code == 2
    printed = capsys.readouterr().err
    assert said in printed
    assert len(printed.splitlines()) == 1


# --- issue 30 -------------------------------------------------------------------------------------


def addresses(app):
    """Every GET address of the application, models filled in by `{name}`."""
    for route in app.routes:
        if "GET" in (getattr(route, "methods", None) or ()):
            yield route.path


def every_get_address():
    settings = Settings(host="0.0.0.0", token=TOKEN)
    return sorted(addresses(create_app(Catalog(), settings)))


OPEN = {"/healthz", "/readyz", "/v2/health/live", "/v2/health/ready", "/favicon.ico"}
OPEN |= {"/static/report.css", "/static/report.js"}


@pytest.mark.parametrize("path", every_get_address())
def test_no_route_shows_data_without_the_token_whatever_is_accepted(strict, path):
    """30.1: `Accept: text/html` is no key."""
    known, unknown = (path.replace("{name}", name) for name in ("iris", "no-such-model"))
    for accept in ("*/*", "application/json", "text/html", "text/html,*/*;q=0.8"):
        answer = httpx.get(strict.address + known, headers={"Accept": accept}, timeout=60)
        if path in OPEN:
            assert answer.status_code in (200, 204)
        elif answer.status_code != 401:  # a page: it holds nothing of a model, so all have the same
            assert "text/html" in accept
            assert answer.headers["content-type"].startswith("text/html")
            other = httpx.get(strict.address + unknown, headers={"Accept": accept}, timeout=60)
            assert (other.status_code, other.content) == (answer.status_code, answer.content)


def test_with_the_token_every_data_route_answers(strict):
    headers = {"Authorization": f"Bearer {TOKEN}"}
    for path in ("/v1/models", "/v1/models/iris", "/v2/models/iris", "/metrics", "/openapi.json"):
        assert httpx.get(strict.address + path, headers=headers, timeout=60).status_code == 200
    report = httpx.get(f"{strict.address}/models/iris/report", headers=headers)
    assert "the report" in report.text


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_pages_of_other_sites_cannot_use_a_server_without_a_token(server, headers):
    """30.12: a body without a content type reaches no model, and no fit is started."""
    with server.client(headers=headers) as client:
        check_refused(client.post("/v2/models/iris/infer", content=b"{}"), 403)
        check_refused(client.get("/?data=moons", headers={"Accept": "application/json"}), 403)
        check_refused(client.get("/models/iris"), 403)
        assert client.get("/models", headers={"Accept": "text/html"}).status_code == 200


def test_its_own_pages_and_programs_can(server):
    own = {"Origin": server.address, "Sec-Fetch-Site": "same-origin"}
    for headers in (own, {}, {"Sec-Fetch-Site": "none"}):
        with server.client(headers=headers) as client:
            assert client.get("/v1/models").status_code == 200


NO_FILES = """
import asyncio, os, resource, sys, time
from pathlib import Path
from bacoun.server.app import create_app
from bacoun.server.workers.catalog import Catalog
from bacoun.web.errors import ApiError
from bacoun.server.jobs import Job
from bacoun.server.backend import Backend
from bacoun.server.settings import Limits, Settings

async def main(folder):
    limits = Limits(seconds=300)
    backend = Backend(Catalog.of([Path(folder)]), Settings(limits=limits))
    backend.pool.start()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, hard))
    backend.is_prepared = True

    def reason_to_wait():
        try:
            backend.check_ready()
        except ApiError as error:
            return str(error)
        return ""

    answer = await backend.ask("describe", "iris")
    print(answer.status_code, reason_to_wait())
    try:
        await backend.ask("describe", "iris")
    except ApiError as error:
        print(error.status)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    ends = time.monotonic() + 300
    while reason_to_wait() and time.monotonic() < ends:
        await asyncio.sleep(0.1)
    print(reason_to_wait() == "", (await backend.ask("describe", "iris")).status_code)
    await backend.pool.close()

if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
"""


def test_a_worker_that_cannot_be_started_is_tried_again(saved, tmp_path):
    """30.3: too many open files are answered 503, said at /readyz, and got over."""
    script = tmp_path / "script.py"
    script.write_text(NO_FILES)
    command = [sys.executable, str(script), str(saved / "iris")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr
    refused, busy, again = run.stdout.splitlines()
    assert refused.startswith("503 a process that scores cannot be started")
    assert (busy, again) == ("503", "True 200")


@contextmanager
def answering(body, **limits):
    """A server in a thread that always answers the same; it and its port."""

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    protocol = protocol_with(Limits(**limits))
    config = uvicorn.Config(answer, port=0, http=protocol, lifespan="off", log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started)
    yield server.server_state, server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    thread.join(timeout=20)


def wait_until(is_so, seconds=20):
    ends = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_connections_are_capped():
    """30.3: what is beyond gets a sentence and is closed, so that files are left for workers."""
    with answering(b"hello", connections=3) as (state, port):
        held = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        wait_until(lambda: len(state.connections) == 3)
        check_refused(httpx.get(f"http://127.0.0.1:{port}/"), 503)
        held.pop().close()
        wait_until(lambda: len(state.connections) == 2)
        assert httpx.get(f"http://127.0.0.1:{port}/").text == "hello"
        for each in held:
            each.close()


def test_an_answer_that_nobody_reads_is_given_up():
    """30.15: unread answers were held without limit."""
    with answering(bytes(30_000_000), slow_seconds=0.3) as (state, port):
        with socket.create_connection(("127.0.0.1", port)) as idle:
            idle.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wait_until(lambda: len(state.connections) == 1)
            wait_until(lambda: not state.connections)
        whole = httpx.get(f"http://127.0.0.1:{port}/")  # who reads gets all of it
        assert len(whole.content) == 30_000_000


def test_unread_answers_are_limited_together():
    """30.15: many clients that do not read hold a bounded number of bytes."""
    limits = {"slow_seconds": 60.0, "held_bytes": 50_000_000}
    with answering(bytes(30_000_000), **limits) as (state, port):
        idle = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        for each in idle:
            each.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait_until(lambda: len(state.connections) == 1)
        for each in idle:
            each.close()


def test_headers_behind_another_request_have_the_same_limit(strict):
    """30.15: only the first request of a connection was measured."""
    first = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(strict.address.removeprefix("http://").split(":")) as raw:
        raw.settimeout(20)
        raw.sendall(first + b"GET /healthz HTTP/1.1\r\nX: " + b"a" * 65_000)
        answer = b"".join(iter(lambda: raw.recv(65536), b""))
    assert b"HTTP/1.1 431 " in answer


def test_too_many_fits_are_refused_before_the_stream_begins(server):
    """30.15: as events they were answered 200, and the stream broke."""
    events = {"Accept": "text/event-stream"}
    with server.client(headers=events) as client, ExitStack() as opened:
        answers = [
            opened.enter_context(client.stream("GET", "/", params={"seed": 100 + k}))
            for k in range(20)
        ]
        refused = [answer for answer in answers if answer.status_code != 200]
        assert 0 < len(refused) < 20
        for answer in refused:
            answer.read()
            check_refused(answer, 503)


OPTIONS = {"because": False, "inputs": False, "answer": "text/csv"}


def test_a_model_with_many_requests_does_not_hold_up_another(saved):
    """30.8: models take turns."""
    catalog = Catalog.of([saved])
    row = ",".join(f"{value}.{'0' * 300}" for value in (1, 2, 3, 4))
    rows = [",".join(ROW), *[row] * 2000]  # of so many bytes that each is a batch
    large = Job("predict", catalog["iris"], "\n".join(rows).encode(), "text/csv", OPTIONS)

    async def ask():
        pool = Pool(Settings(limits=Limits(seconds=1200)), score_jobs)
        pool.start()
        many = [asyncio.create_task(pool.ask(large)) for _ in range(4)]
        await asyncio.sleep(0)
        other = await pool.ask(Job("describe", catalog["tumors"]))
        n_done = sum(task.done() for task in many)
        statuses = {answer.status for answer in await asyncio.gather(*many)}
        await pool.close()
        return other.status, n_done, statuses

    status, n_done, statuses = asyncio.run(ask())
    assert (status, statuses) == (200, {200})
    assert n_done <= 2


def arrow_of_nulls(n_rows, n_columns=1):
    table = pyarrow.table({f"x{k}": pyarrow.nulls(n_rows) for k in range(n_columns)})
    sink = pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


SMALL_BUT_HEAVY = {
    "application/vnd.apache.arrow.stream": arrow_of_nulls(300_000_000),
    "application/json": json.dumps({"rows": [{f"k{k}": 1} for k in range(8000)]}).encode(),
    "text/csv": b",".join(b"c%d" % k for k in range(100_000)) + b"\n" + b"," * 99_999 + b"\n",
}


@pytest.mark.parametrize("media_type", SMALL_BUT_HEAVY)
@pytest.mark.parametrize("verb", ["check", "predict"])
def test_a_small_body_of_a_large_table_is_refused_before_it_is_built(server, media_type, verb):
    """30.8: 456 bytes of nulls blocked a worker for 30 s, 160 kB of keys took 3.2 GB."""
    headers = {"Content-Type": media_type}
    with server.client(headers=headers) as client:
        body = SMALL_BUT_HEAVY[media_type]
        check_refused(client.post(f"/v1/models/iris/{verb}", content=body), 413)


def test_a_check_has_the_limit_of_rows_of_a_prediction(allowed):
    rows = {"rows": [ROW] * 51}
    check_refused(allowed.post("/v1/models/iris/check", json=rows), 413)
    assert allowed.post("/v1/models/iris/check", json={"rows": [ROW] * 50}).status_code == 200


@pytest.fixture
def restarts(server):
    """A function that says how many workers were replaced."""

    def count():
        with server.client() as client:
            text = client.get("/metrics").text
        return float(re.search(r"^bacoun_worker_restarts (\S+)", text, re.MULTILINE)[1])

    return count


def test_a_model_that_is_copied_slowly_is_served_in_the_end(server, folder, restarts):
    """30.9: only the stamp of model.json was looked at, and a failure was for good."""
    slow, broken, before = folder / "slow", folder / "broken", restarts()
    shutil.copytree(folder / "iris", slow)
    tensors = (slow / "model.safetensors").read_bytes()
    (slow / "model.safetensors").write_bytes(tensors[:1000])
    with server.client() as client:
        body = {"rows": [ROW]}
        check_refused(client.post("/v1/models/slow/predict", json=body), 503)
        (slow / "model.safetensors").write_bytes(tensors)
        assert client.post("/v1/models/slow/predict", json=body).status_code == 200
        (slow / "model.json").write_text('{"format": 2}')  # not a model: a KeyError inside
        assert client.post("/v1/models/slow/predict", json=body).status_code == 200  # the old one
        broken.mkdir()
        (broken / "model.json").write_text("[]")
        (broken / "model.safetensors").write_bytes(b"")
        check_refused(client.post("/v1/models/broken/predict", json=body), 503)
    shutil.rmtree(slow)
    shutil.rmtree(broken)
    assert restarts() == before  # no worker died of it


def test_a_compressed_body_is_refused_by_its_encoding(server):
    """30.15: the header was ignored, and the body called broken JSON."""
    body = gzip.compress(json.dumps({"rows": [ROW]}).encode())
    headers = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    with server.client(headers=headers) as client:
        check_refused(client.post("/v1/models/iris/predict", content=body), 415)

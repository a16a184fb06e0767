"""Under load a model is replaced, and a worker is killed, and no request is lost."""

import itertools
import os
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from sklearn.datasets import load_iris

from bacoun.tabular import TableModel

IRIS = load_iris(as_frame=True).frame


@pytest.fixture
def load(server):
    """A function that asks two models from 20 threads; returns the answers to one of them.

    It calls `meanwhile` with a function that waits until a condition on the answers so far is true.
    """

    def run(meanwhile):
        stop, rows = threading.Event(), IRIS.drop(columns="target").to_dict(orient="records")
        answers = []

        def ask(number):
            with server.client(limits=httpx.Limits(max_connections=1)) as client:
                for count in itertools.count():
                    row = rows[(number * 37 + count) % len(rows)]
                    answer = client.post("/v1/models/iris/predict", json={"rows": [row]})
                    answers.append((row, answer))
                    if number % 5 == 0:
                        assert client.get("/v1/models/tumors").status_code == 200
                    if stop.is_set():
                        return

        with ThreadPoolExecutor(20) as pool:
            asked = [pool.submit(ask, number) for number in range(20)]

            def wait_until(is_so):
                while not is_so(answers):
                    assert not any(future.done() for future in asked), asked
                    threading.Event().wait(0.01)

            try:
                meanwhile(wait_until)
            finally:
                stop.set()
            for future in asked:
                future.result()
        return answers

    return run


def workers_of(server):
    """Processes that were started by any thread of the server."""
    tasks = Path(f"/proc/{server.process.pid}/task").glob("*/children")
    children = [child for task in tasks for child in task.read_text().split()]
    return [int(child) for child in children if "spawn_main" in _command(child)]


def _command(process):
    return Path(f"/proc/{process}/cmdline").read_text()


@pytest.mark.skipif(not Path("/proc").exists(), reason="looks for processes in /proc")
def test_a_killed_worker_loses_no_request(server, load):
    before = workers_of(server)
    assert before

    def kill(wait_until):
        for count in (20, 60):
            wait_until(lambda answers, count=count: len(answers) > count)
            for worker in workers_of(server):
                os.kill(worker, signal.SIGKILL)
        wait_until(lambda answers: len(answers) > 100)

    answers = load(kill)
    assert {answer.status_code for _, answer in answers} == {200}
    assert not set(before) & set(workers_of(server))
    assert any("done again" in line for line in server.lines)


def test_a_replaced_model_is_taken_up_and_no_request_is_lost(server, load, folder, fast):
    old = TableModel.load(folder / "iris")
    new = TableModel.fit(IRIS, "target", classifier=fast(random_state=1), random_state=1)

    def replace(wait_until):
        wait_until(lambda answers: len(answers) > 20)
        new.save(folder / "iris", overwrite=True)
        wait_until(lambda answers: len({answer.json()["version"] for _, answer in answers}) > 1)

    answers = load(replace)
    assert {answer.status_code for _, answer in answers} == {200}
    versions = list(dict.fromkeys(answer.json()["version"] for _, answer in answers))
    assert len(versions) == 2
    table = IRIS.drop(columns="target")
    expected = {
        version: model.score(table) for version, model in zip(versions, (old, new), strict=True)
    }
    places = {tuple(row): place for place, row in enumerate(table.to_numpy().tolist())}
    for row, answer in answers:
        scored = expected[answer.json()["version"]].iloc[places[tuple(row.values())]]
        (found,) = answer.json()["rows"]
        assert found["decision"] == scored["decision"]
        assert found["total"] == pytest.approx(scored["total"], abs=1e-4)


def test_a_model_that_is_damaged_or_gone_is_said_to_be(server, folder):
    with server.client() as client:
        shutil.copytree(folder / "iris", folder / "damaged")
        (folder / "damaged" / "model.json").write_text("{")
        answer = client.get("/v1/models/damaged")
        assert answer.status_code == 503
        assert str(folder) not in answer.json()["error"]
        assert "damaged" in client.get("/v1/models").json()["models"]
        shutil.rmtree(folder / "damaged")
        assert client.get("/v1/models/damaged").status_code == 404
        assert client.get("/v1/models").json() == {"models": ["iris", "tumors"]}


def test_the_server_stops_after_the_requests_it_has(start, saved):
    rows = IRIS.drop(columns="target").to_dict(orient="list")
    body = {"inputs": {name: 100 * values for name, values in rows.items()}}
    with start(saved / "iris", "--no-playground") as server, ThreadPoolExecutor(4) as pool:
        url = f"{server.address}/invocations"
        asked = [pool.submit(httpx.post, url, json=body, timeout=60) for _ in range(4)]
        with server.client() as client:
            while "bacoun_active_requests 5.0" not in client.get("/metrics").text:
                assert not all(each.done() for each in asked), "they were too fast to be caught"
        server.process.send_signal(signal.SIGTERM)
        assert [each.result().status_code for each in asked] == [200] * 4
        assert server.process.wait(timeout=30) in (0, -signal.SIGTERM)

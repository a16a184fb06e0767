"""`bacoun predict` on many Parquet files: one answer, wherever it is computed, who ever dies."""

import json
import os
import signal
import subprocess
import sys
import threading
import time

import fsspec
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import load_iris

from bacoun.cli import main
from bacoun.many.parts import PartWriter, survey_file
from bacoun.tabular import Scorer, TableModel

distributed = pytest.importorskip("distributed")

IRIS = load_iris(as_frame=True).frame.rename(columns={"target": "kind"})
RNG = np.random.default_rng(0)
N_FILES, N_GROUPS, ROWS = 3, 10, 2048  # rows of a row group, as many as are scored at once
N_PARTS = N_FILES * N_GROUPS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model, and three files of ten row groups each, in one of which rows are far away."""
    folder = tmp_path_factory.mktemp("cluster")
    TableModel.fit(IRIS, "kind", quick=True).save(folder / "model")
    (folder / "new").mkdir()
    for number in range(N_FILES):
        rows = IRIS.drop(columns="kind").sample(N_GROUPS * ROWS, replace=True, random_state=number)
        rows += RNG.normal(0, 0.1, rows.shape) * (100 if number == 1 else 1)
        rows = rows.iloc[: -number or None].assign(visit=np.arange(len(rows) - number))
        rows.to_parquet(folder / "new" / f"{number}.parquet", row_group_size=ROWS, index=False)
    return folder


@pytest.fixture(scope="module")
def words(folder):
    """The command, without where to write to and who does the work."""
    return ["predict", str(folder / "model"), str(folder / "new" / "*.parquet"), "--no-because"]


@pytest.fixture(scope="module")
def expected(folder, words):
    """The folder that one process writes, without a cluster."""
    main([*words, "--out", str(folder / "expected")])
    return folder / "expected"


def parts(out):
    """The parts that are complete, and what changes if one is written again."""
    found = [path for path in out.glob("*.parquet") if not path.name.startswith(".")]
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in found}


def table(out):
    """All rows, in the order of the files."""
    listed = json.loads((out / "summary.json").read_text())["parts"]
    return pd.concat([pd.read_parquet(out / each["part"]) for each in listed], ignore_index=True)


def assert_same(out, expected):
    assert parts(out).keys() == parts(expected).keys()
    assert {path.name for path in out.iterdir()} == {*parts(out), "summary.json"}
    summaries = [(folder / "summary.json").read_text() for folder in (out, expected)]
    assert summaries[0] == summaries[1]
    pd.testing.assert_frame_equal(table(out), table(expected), rtol=0, atol=1e-6)


def wait_for_parts(out, n_parts):
    for _ in range(60_000):
        if len(parts(out)) >= n_parts:
            return
        time.sleep(0.005)
    raise AssertionError(f"{n_parts} parts must appear within minutes.")


# --- one process ----------------------------------------------------------------------------------


def test_parts_hold_the_rows_and_the_scores_of_the_library(folder, expected):
    files = sorted((folder / "new").glob("*.parquet"))
    before = [pd.read_parquet(file) for file in files]
    model = TableModel.load(folder / "model")
    scores = pd.concat([model.score(frame) for frame in before], ignore_index=True)
    whole = pd.concat(before, ignore_index=True)
    pd.testing.assert_frame_equal(table(expected)[list(whole)], whole)
    pd.testing.assert_frame_equal(table(expected)[list(scores)], scores, rtol=0, atol=1e-6)


def test_the_summary_counts_what_the_rows_say(folder, expected):
    rows, found = table(expected), json.loads((expected / "summary.json").read_text())
    assert found["rows"] == len(rows) == found["checked_rows"]
    assert found["accepted"] == (rows["decision"] == "accept").sum()
    deferred = rows.loc[rows["decision"] == "defer", "reason"]
    assert found["deferred"] == deferred.value_counts().to_dict()
    assert found["familiar"] == (rows["reason"] != "unfamiliar").sum()
    predicted = rows["prediction"].astype(str)
    assert found["predictions"] == predicted.value_counts().to_dict()
    assert found["class_shares"] == predicted.value_counts(normalize=True).to_dict()
    assert "out of range" in {each["kind"] for each in found["findings"]}
    assert len(found["parts"]) == N_PARTS
    assert sum(each["rows"] for each in found["parts"]) == len(rows)


def test_a_part_is_named_by_what_it_was_made_from(folder, expected):
    file = f"file://{folder}/new/0.parquet"
    (survey,) = survey_file(file)
    first, second = survey.groups[:2]
    score = Scorer(folder / "model", because=False)
    name = PartWriter(score, "x").name(first)
    assert len(name) == len("0" * 64 + ".parquet")
    assert name in parts(expected)
    changed = (folder / "new" / "0.parquet").stat().st_mtime_ns
    os.utime(folder / "new" / "0.parquet", (1, 1))
    touched = survey_file(file)[0].groups[0]
    os.utime(folder / "new" / "0.parquet", ns=(changed, changed))
    others = [
        PartWriter(score, "x").name(second),
        PartWriter(score, "x").name(touched),
        PartWriter(Scorer(folder / "model"), "x").name(first),
    ]
    assert len({name, *others}) == 4
    assert PartWriter(score, "elsewhere").name(first) == name


def test_addresses_in_memory_work_in_one_process(folder):
    memory = fsspec.filesystem("memory")
    memory.put(f"{folder}/new/2.parquet", "/new/2.parquet")
    words = ["predict", str(folder / "model"), "memory://new/*.parquet", "--no-because"]
    main([*words, "--out", "memory://out"])
    listed = json.loads(memory.cat("/out/summary.json"))["parts"]
    names = {each["part"] for each in listed}
    assert {path.rsplit("/", 1)[-1] for path in memory.ls("/out", detail=False)} == {
        *names,
        "summary.json",
    }
    found = [len(pd.read_parquet(f"memory://out/{name}")) for name in names]
    assert sorted(found) == [ROWS - 2, *[ROWS] * (N_GROUPS - 1)]


# --- a cluster ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("cluster")  # these workers are forked from the same process
def test_local_workers_give_the_answer_of_one_process(words, expected, tmp_path, capsys):
    main([*words, "--out", str(tmp_path / "out"), "--workers", "2"])
    said = capsys.readouterr()
    assert "bacoun: dashboard: http://" in said.err
    assert f"rows                 {N_PARTS * ROWS - 3:,}  in {N_PARTS} parts" in said.out
    assert_same(tmp_path / "out", expected)


def test_a_worker_killed_in_the_middle_loses_nothing(words, cluster, expected, tmp_path):
    out, killed = tmp_path / "out", []

    def kill():
        wait_for_parts(out, 3)
        killed.append(len(parts(out)))
        os.kill(pid, signal.SIGKILL)

    with distributed.Client(cluster) as client:
        pid = next(iter(client.run(os.getpid).values()))
        killer = threading.Thread(target=kill, daemon=True)
        killer.start()
        main([*words, "--out", str(out), "--scheduler", cluster.scheduler_address])
        killer.join()
        client.wait_for_workers(2)
        assert pid not in client.run(os.getpid).values()
    assert killed[0] < N_PARTS
    assert_same(out, expected)


def test_after_a_killed_client_only_what_is_missing_is_scored(
    words, cluster, expected, tmp_path, capsys
):
    out = tmp_path / "out"
    arguments = [*words, "--out", str(out), "--scheduler", cluster.scheduler_address]
    code = f"from bacoun.cli import main; main({arguments})"
    client = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    wait_for_parts(out, 3)
    client.kill()
    client.communicate()
    before = parts(out)
    assert 3 <= len(before) < N_PARTS
    assert not (out / "summary.json").exists()
    main(arguments)
    assert " of 30 parts are there already." in capsys.readouterr().err
    assert before.items() <= parts(out).items()
    assert_same(out, expected)

    # Again: nothing is missing.
    before = parts(out)
    main(arguments)
    assert "30 of 30 parts are there already." in capsys.readouterr().err
    assert parts(out) == before

    # Torn parts are scored again: one cut short, one empty, one that lacks rows.
    torn = sorted(before)[:3]
    whole = (out / torn[0]).read_bytes()
    (out / torn[0]).write_bytes(whole[: len(whole) // 2])
    (out / torn[1]).write_bytes(b"")
    pq.write_table(pq.read_table(out / torn[2]).slice(1), out / torn[2])
    main(arguments)
    after = parts(out)
    assert {name for name in before if before[name] == after[name]} == {*before} - {*torn}
    assert_same(out, expected)


def test_the_scorer_maps_over_partitions_on_the_cluster(folder, cluster, expected):
    from dask.dataframe import read_parquet

    score = Scorer(folder / "model", because=False)
    new = read_parquet(folder / "new", split_row_groups=1)
    with distributed.Client(cluster):
        scores = new.map_partitions(score, meta=score.meta)
        found = scores.compute().reset_index(drop=True)
    written = table(expected)[list(score.meta)]
    pd.testing.assert_frame_equal(found, written, rtol=0, atol=1e-6, check_dtype=False)


# --- options --------------------------------------------------------------------------------------


@pytest.fixture
def refused(folder, tmp_path, capsys):
    """A function that runs a command which must fail in one line, and returns that line."""

    def run(new, *more, out="out"):
        arguments = ["predict", str(folder / "model"), str(new), *more]
        with pytest.raises(SystemExit) as stopped:
            main([*arguments, *(["--out", str(tmp_path / out)] if out else [])])
        assert stopped.value.code == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert not list((tmp_path / "out").glob("*"))
        return line

    return run


def test_mistakes_are_one_line(refused, folder, tmp_path):
    pattern = folder / "new" / "*.parquet"
    (tmp_path / "file").write_text("mine")
    assert "matches none" in refused(folder / "new" / "*.parket")
    assert "--out must be a folder" in refused(pattern, out="file")
    assert (tmp_path / "file").read_text() == "mine"
    assert "got both" in refused(pattern, "--workers", "2", "--scheduler", "tcp://localhost:1")
    assert "greater than or equal to 1" in refused(pattern, "--workers", "0")
    assert "give --out FOLDER" in refused(pattern, out=None)
    assert "give --out FOLDER" in refused(pattern, "--json")
    assert "finished parts" in refused(pattern, "--overwrite")
    assert "must not hold files that are scored" in refused(pattern, out=folder / "new")
    (tmp_path / "a.csv").write_text("a\n1\n")
    assert "must be Parquet" in refused(tmp_path / "*.csv")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows.drop(columns="sepal length (cm)"), "1.parquet' lacks 'sepal length"),
        (lambda rows: rows.assign(total=0), "1.parquet' already has columns that would be added"),
        (lambda rows: rows.assign(**{"sepal length (cm)": "old"}), "1.parquet': column 'sepal"),
        (lambda rows: b"PAR1", "1.parquet' must be a complete Parquet file"),
        (lambda rows: rows.head(0), "must have at least one row"),
    ],
)
def test_the_file_with_the_mistake_is_named(refused, tmp_path, change, message):
    (tmp_path / "bad").mkdir()
    rows = IRIS.drop(columns="kind").head(3)
    good = change(rows) if "row" in message else rows
    (good if isinstance(good, pd.DataFrame) else rows).to_parquet(tmp_path / "bad" / "0.parquet")
    bad, path = change(rows), tmp_path / "bad" / "1.parquet"
    path.write_bytes(bad) if isinstance(bad, bytes) else bad.to_parquet(path)
    line = refused(tmp_path / "bad" / "*.parquet", out="elsewhere")
    assert message in line


def test_without_dask_the_package_to_install_is_named(refused, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    line = refused(folder / "new" / "*.parquet", "--workers", "2")
    assert "pip install 'bacoun[cluster]'" in line


def test_a_scheduler_that_does_not_answer_is_named(refused, folder, monkeypatch):
    monkeypatch.setattr("bacoun.many.cluster._SECONDS_TO_ANSWER", 0.2)
    line = refused(folder / "new" / "*.parquet", "--scheduler", "tcp://127.0.0.1:9")
    assert "'tcp://127.0.0.1:9' did not answer" in line


def test_parts_of_another_model_are_left_and_mentioned(folder, fast, tmp_path, capsys):
    TableModel.fit(IRIS, "kind", classifier=fast()).save(tmp_path / "other")
    new = tmp_path / "new[1].parquet"  # a file with such a name is a file, no pattern
    IRIS.drop(columns="kind").to_parquet(new)
    out, pattern = tmp_path / "out", str(tmp_path / "new*.parquet")
    for model in (folder / "model", tmp_path / "other"):
        before = parts(out)
        main(["predict", str(model), pattern, "--out", str(out)])
    assert "also holds 1 other parts" in capsys.readouterr().err
    assert before.items() < parts(out).items()
    assert len(json.loads((out / "summary.json").read_text())["parts"]) == 1
    main(["predict", str(folder / "model"), str(new), "--out", str(tmp_path / "one.parquet")])
    assert len(pd.read_parquet(tmp_path / "one.parquet")) == len(IRIS)

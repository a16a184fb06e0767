"""The log of a model: what it counts, that it is shared, and what it does not store."""

import json
import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer

from bacoun.cli import main
from bacoun.files.identity import version_of
from bacoun.tabular import TableModel
from bacoun.watching.log import Watch
from bacoun.watching.reading import log_path, read_log

DATA = load_breast_cancer(as_frame=True)
TABLE = DATA.data.iloc[:, :6].assign(diagnosis=DATA.target_names[DATA.target])
TABLE = TABLE.sample(frac=1, random_state=0).reset_index(drop=True)
NEW = TABLE.iloc[350:].drop(columns="diagnosis")


@pytest.fixture(scope="module")
def model(fast):
    return TableModel.fit(TABLE[:350], "diagnosis", classifier=fast())


@pytest.fixture
def folder(model, tmp_path):
    model.save(tmp_path / "model")
    return tmp_path / "model"


def scored(model, frame):
    (rows,) = model.score_rows([frame])
    return rows


def test_it_counts_what_was_scored(model, folder):
    watch = Watch.beside(folder, model, "1")
    batches = [scored(model, NEW[:100]), scored(model, NEW[100:150])]
    watch.add(batches, np.random.default_rng(0))
    watch.add([scored(model, NEW[150:])], np.random.default_rng(1))
    found, expected = read_log(folder), model.score(NEW)
    assert found["rows"] == len(NEW)
    for reason in ("unfamiliar", "ambiguous"):
        assert found[reason] == pytest.approx((expected["reason"] == reason).mean())
    for label, shares in found["classes"].items():
        assert shares["predicted"] == pytest.approx((expected["prediction"] == label).mean())
        assert shares["training"] == pytest.approx((TABLE[:350]["diagnosis"] == label).mean())
    assert sum(each["rows"] for each in found["minutes"]) == len(NEW)
    assert not found["drift"]["alarm"]


def test_rows_are_stored_only_if_asked_for(model, folder):
    for version, inputs in (("1", False), ("2", True)):
        watch = Watch.beside(folder, model, version, inputs=inputs)
        watch.add([scored(model, NEW.head(3))])
    with sqlite3.connect(log_path(folder)) as log:
        stored = log.execute("select version, row from inputs").fetchall()
    log.close()
    assert [version for version, _ in stored] == ["2"] * 3
    assert json.loads(stored[0][1]) == NEW.iloc[0].to_dict()


def test_a_replaced_model_starts_anew(model, folder):
    Watch.beside(folder, model, "1").add([scored(model, NEW)])
    Watch.beside(folder, model, "2")
    assert read_log(folder)["version"] == "2"
    assert read_log(folder)["rows"] == 0


def test_several_writers_share_a_log(model, folder):
    part = scored(model, NEW.head(20))

    def write(_):
        Watch.beside(folder, model, "1").add([part])

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(8)))
    assert read_log(folder)["rows"] == 160


def test_other_units_are_noticed_and_the_command_says_so(model, folder, capsys):
    watch = Watch.beside(folder, model, "1")
    with pytest.raises(SystemExit) as stop:
        main(["watch", str(folder.with_name("nowhere"))])
    assert stop.value.code == 2
    assert "has no log yet" in capsys.readouterr().err
    watch.add([scored(model, NEW[:100])], np.random.default_rng(0))
    main(["watch", str(folder)])
    assert "none noticed (false alarms: at most 1%, ever)" in capsys.readouterr().out
    strange = NEW[100:].assign(**{"mean radius": 25.4 * NEW["mean radius"]})
    watch.add([scored(model, strange)], np.random.default_rng(0))
    with pytest.raises(SystemExit) as stop:
        main(["watch", str(folder), "--json"])
    assert stop.value.code == 1
    found = json.loads(capsys.readouterr().out)
    assert 100 < found["drift"]["at"] < 115
    assert next(iter(found["drift"]["evidence"])) in ("mean radius", "ood_score")


def test_a_file_that_is_no_log_is_refused(folder):
    log_path(folder).write_bytes(b"not a database" * 100)
    with pytest.raises(ValueError, match="must be a log of bacoun"):
        read_log(folder)


@pytest.mark.parametrize("kind", ["whole numbers", "heavy tails", "decimals"])
@pytest.mark.parametrize("seed", range(3))
def test_no_drift_is_seen_in_rows_of_the_same_kind(fast, tmp_path, kind, seed):
    """30.2: known rows are kept in float32; 1 and 5 of a 1-to-5 column are not beyond them."""
    rng = np.random.default_rng(seed)
    numbers = rng.normal(3, 1, (1400, 4))
    values = {
        "whole numbers": np.clip(np.rint(numbers), 1, 5),
        "heavy tails": np.sinh(5 * (numbers - 3)),
        "decimals": numbers.round(1) + 1000.1,
    }[kind]
    frame = pd.DataFrame(values, columns=list("abcd"))
    labels = np.where(numbers[:, 0] + rng.normal(size=1400) > 3, "yes", "no")
    model = TableModel.fit(frame[:400].assign(y=labels[:400]), "y", classifier=fast())
    model.save(tmp_path / "model")
    watch = Watch.beside(tmp_path / "model", model, "1")
    watch.add([scored(model, frame[400:])], np.random.default_rng(10 + seed))
    assert not read_log(tmp_path / "model")["drift"]["alarm"]


def test_after_a_rollback_the_log_is_that_of_the_model_in_the_folder(model, folder, fast):
    """30.14: the version that was served last was shown, although it was replaced."""
    first = version_of(folder)
    Watch.beside(folder, model, first).add([scored(model, NEW[:10])])
    kept = shutil.copytree(folder, folder.with_name("kept"))
    other = TableModel.fit(TABLE[:300], "diagnosis", classifier=fast())
    other.save(folder, overwrite=True)
    Watch.beside(folder, other, version_of(folder)).add([scored(other, NEW[:20])])
    assert read_log(folder)["rows"] == 20
    shutil.rmtree(folder)
    kept.rename(folder)
    found = read_log(folder)
    assert (found["rows"], found["version"]) == (10, first)


def test_a_full_disk_is_said_when_rows_are_counted_not_when_a_model_is_loaded(
    model, folder, full_disk
):
    """30.15: scoring was refused, as if the log were no log."""
    rows = scored(model, NEW[:3])
    with full_disk(0):
        watch = Watch.beside(folder, model, "1")
        with pytest.raises(OSError, match="' cannot be written: ") as info:
            watch.add([rows])
    assert str(info.value).startswith(f"'{log_path(folder)}'")


def test_a_deleted_log_is_begun_anew(model, folder):
    """30.15: nothing was counted any more."""
    watch = Watch.beside(folder, model, "1")
    watch.add([scored(model, NEW[:10])])
    for path in folder.parent.glob("*.sqlite*"):
        path.unlink()
    watch.add([scored(model, NEW[:3])])
    assert read_log(folder)["rows"] == 3

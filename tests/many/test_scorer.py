"""A Scorer is a small, picklable function that scores as the model it names."""

import pickle
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_iris

import bacoun
from bacoun.engine import threads
from bacoun.engine.threads import independent_workers
from bacoun.many import scorer
from bacoun.tabular import Scorer, TableModel

IRIS = load_iris(as_frame=True).frame
TABLE = IRIS.drop(columns="target").assign(
    kind=np.array(["setosa", "versicolor", "virginica"])[IRIS["target"]],
    ward=np.where(np.arange(len(IRIS)) % 2, "A", "B"),
)
NEW = TABLE.drop(columns="kind")


@pytest.fixture(scope="module")
def model():
    return TableModel.fit(TABLE, "kind", quick=True)


@pytest.fixture(scope="module")
def path(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("scorer") / "model"
    model.save(path)
    return path


@pytest.mark.parametrize("because", [True, False])
def test_it_scores_as_the_model_after_a_small_pickle(model, path, because):
    pickled = pickle.dumps(Scorer(path, because))
    assert len(pickled) < 500
    found = pickle.loads(pickled)(NEW)
    pd.testing.assert_frame_equal(found, model.score(NEW, because), rtol=0, atol=1e-6)


def test_another_process_scores_the_same(path):
    score = Scorer(path, because=False)
    with ProcessPoolExecutor(1, mp_context=get_context("forkserver")) as pool:
        (found,) = pool.map(score, [NEW])
    pd.testing.assert_frame_equal(found, score(NEW), rtol=0, atol=1e-6)


def test_it_is_public_under_its_short_name():
    assert bacoun.Scorer is Scorer


def test_it_adds_the_columns_of_the_command(model, path):
    assert list(Scorer(path).meta) == model.added_columns
    assert list(Scorer(path, because=False).meta) == model.added_columns[:-1]


@pytest.mark.parametrize("labels", [[3, 1, 2], ["a", "b", "c"], [True, False, True]])
def test_types_are_known_before_any_row_is_scored(fast, tmp_path, labels):
    table = NEW.assign(label=np.array(labels)[IRIS["target"]])
    TableModel.fit(table, "label", classifier=fast()).save(tmp_path / "model")
    score = Scorer(tmp_path / "model")
    assert len(score.meta) == 0
    pd.testing.assert_series_equal(score.meta.dtypes, score(NEW).dtypes)


def test_an_empty_partition_has_the_same_columns_and_its_own_index(path):
    score = Scorer(path)
    empty = NEW.set_index("ward").assign(ward="A").head(0)
    pd.testing.assert_series_equal(score(empty).dtypes, score.meta.dtypes)
    pd.testing.assert_index_equal(score(empty).index, empty.index)
    assert list(score.join(empty)) == [*empty, *score.meta]


def test_a_caller_cannot_spoil_the_types(path):
    Scorer(path).meta.insert(0, "mine", 1)
    assert "mine" not in Scorer(path).meta


def test_a_process_loads_the_model_once(path, monkeypatch):
    scorer._load.cache_clear()
    loaded, load = [], TableModel.load
    monkeypatch.setattr(TableModel, "load", lambda path: loaded.append(path) or load(path))
    score = Scorer(path, because=False)
    for each in (score, pickle.loads(pickle.dumps(score)), Scorer(path)):
        each(NEW.head(3))
    assert loaded == [str(path)]


def test_a_replaced_model_is_refused_by_its_old_scorer(fast, tmp_path):
    path = tmp_path / "model"
    models = [TableModel.fit(TABLE, "kind", classifier=fast(random_state=seed)) for seed in (0, 1)]
    models[0].save(path)
    old = Scorer(path, because=False)
    models[1].save(path, overwrite=True)
    with pytest.raises(ValueError, match="replaced by another"):
        old(NEW)
    pd.testing.assert_frame_equal(Scorer(path, because=False)(NEW), models[1].score(NEW))


def test_it_scores_on_one_thread_and_restores_the_others(path, monkeypatch):
    seen = []

    def look(model, frame, because):
        with independent_workers():
            seen.append((torch.get_num_threads(), started[-1]))
        return score(model, frame, because)

    started = []
    pool = threads.ThreadPoolExecutor
    monkeypatch.setattr(
        threads,
        "ThreadPoolExecutor",
        lambda n_workers: started.append(n_workers) or pool(n_workers),
    )

    score = TableModel.score
    made = Scorer(path, because=False)
    made(NEW.head(1))
    monkeypatch.setattr(TableModel, "score", look)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        made(NEW.head(3))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [(1, 1)]


def test_join_keeps_columns_and_a_repeated_index(path):
    score = Scorer(path, because=False)
    frame = NEW.head(4).set_axis([7, 7, 0, 7])
    found = score.join(frame)
    assert found.index.tolist() == [7, 7, 0, 7]
    pd.testing.assert_frame_equal(found[list(NEW)], frame)
    pd.testing.assert_frame_equal(found[list(score.meta)], score(frame))


def test_columns_that_would_be_added_must_not_be_there(path):
    with pytest.raises(ValueError, match="already has columns that would be added: 'total'"):
        Scorer(path).join(NEW.assign(total=1))


def test_a_folder_without_a_model_is_refused_at_once(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no model\.json"):
        Scorer(tmp_path)


def test_dask_maps_it_over_partitions_some_of_them_empty(path):
    dask_dataframe = pytest.importorskip("dask.dataframe")
    score = Scorer(path, because=False)
    frame = dask_dataframe.from_pandas(NEW, npartitions=3)
    few = frame[frame["sepal length (cm)"] > 7.0]  # none of the first partition
    expected = score(NEW[NEW["sepal length (cm)"] > 7.0])
    scores = few.map_partitions(score, meta=score.meta)
    pd.testing.assert_series_equal(scores.dtypes, expected.dtypes)
    found = scores.compute(scheduler="synchronous")
    pd.testing.assert_frame_equal(found, expected, rtol=0, atol=1e-5)

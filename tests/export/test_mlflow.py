"""MLflow saves, logs, loads and serves our models, without pickle, in a local file store."""

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris

import bacoun.mlflow as flavor
from bacoun.tabular import TableModel

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of MLflow and its libraries, about themselves
    import mlflow
    import mlflow.pyfunc

pytestmark = pytest.mark.filterwarnings("ignore")  # the same
IRIS = load_iris(as_frame=True).frame
NEW = IRIS.drop(columns="target").iloc[::7]


@pytest.fixture(scope="module")
def model(fast):
    table = IRIS.assign(
        kind=np.where(IRIS.index % 3 == 0, "wild", "garden"),
        big=IRIS["petal length (cm)"] > 4,
        leaves=(10 * IRIS["petal width (cm)"]).round().astype(int),
    )
    return TableModel.fit(table, "target", classifier=fast())


@pytest.fixture(scope="module")
def new():
    leaves = (10 * NEW["petal width (cm)"]).round().astype(int)
    return NEW.assign(kind="wild", big=NEW["petal length (cm)"] > 4, leaves=leaves)


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("mlflow") / "model"
    flavor.save_model(model, path)
    return path


def test_a_saved_model_scores_as_the_library_does(saved, model, new):
    loaded = mlflow.pyfunc.load_model(str(saved))
    pd.testing.assert_frame_equal(loaded.predict(new), model.score(new))
    said = loaded.predict(new, params={"because": True})["because"]
    assert said.tolist() == model.score(new, because=True)["because"].tolist()


def test_nothing_is_pickled_and_the_signature_knows_the_columns(saved, new):
    names = [path.name for path in saved.rglob("*") if path.is_file()]
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".joblib"))]
    assert {"MLmodel", "model.json", "model.safetensors", "input_example.json"} <= set(names)
    info = mlflow.models.get_model_info(str(saved))
    types = {each.name: each.type.name for each in info.signature.inputs.inputs}
    assert types == dict.fromkeys(new, "double") | {
        "kind": "string",
        "big": "boolean",
        "leaves": "long",
    }
    assert "prediction" in info.signature.outputs.input_names()


def test_the_input_example_can_be_scored(saved):
    example = json.loads((saved / "input_example.json").read_text())
    frame = pd.DataFrame(**example)
    (decision,) = mlflow.pyfunc.load_model(str(saved)).predict(frame)["decision"]
    assert decision in ("accept", "defer")


def test_a_wrong_column_is_refused_by_the_signature(saved, new):
    loaded = mlflow.pyfunc.load_model(str(saved))
    with pytest.raises(mlflow.exceptions.MlflowException, match="kind"):
        loaded.predict(new.drop(columns="kind"))


def test_a_logged_model_is_loaded_from_the_store(model, new, tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, "MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run():
        info = flavor.log_model(model)
    loaded = mlflow.pyfunc.load_model(info.model_uri)
    pd.testing.assert_frame_equal(loaded.predict(new), model.score(new))
    assert list(Path(tmp_path).rglob("MLmodel"))

"""MLflow: save and log a `TableModel`, and load it as a Python function. No pickle.

Needs the extra `bacoun[mlflow]`, which brings mlflow-skinny. The model is our own folder of JSON
and safetensors; `MLmodel` beside it names this module as its loader, so that `mlflow models serve`,
`mlflow.pyfunc.load_model`, `spark_udf` and the registry work.
"""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd

from bacoun.columns.column import Column
from bacoun.tabular import TableModel

_DATA = "bacoun"  # the folder of our model inside MLflow's
_TYPES = {"number": "double", "boolean": "boolean"}  # all others are text
_LIBRARIES = ("bacoun", "torch", "zuko", "numpy", "scikit-learn", "pandas")


def save_model(model: TableModel, path: str | os.PathLike[str], **options: Any) -> None:
    """Write a model in MLflow's format.

    Parameters
    ----------
    model : TableModel
        The model.
    path : path
        Folder to write; must not exist.
    **options
        Passed on to `mlflow.pyfunc.save_model`, such as `metadata`. `signature`, `input_example`
        and `pip_requirements` have good defaults.
    """
    import mlflow.pyfunc

    with _arguments(model, options) as arguments:
        mlflow.pyfunc.save_model(path=str(path), **arguments)


def log_model(model: TableModel, name: str = "model", **options: Any) -> Any:
    """Log a model to the current run of MLflow.

    Parameters
    ----------
    model : TableModel
        The model.
    name : str
        Of the logged model.
    **options
        Passed on to `mlflow.pyfunc.log_model`, such as `registered_model_name`. `signature`,
        `input_example` and `pip_requirements` have good defaults.

    Returns
    -------
    mlflow.models.model.ModelInfo
        With the `model_uri`.
    """
    import mlflow.pyfunc

    with _arguments(model, options) as arguments:
        return mlflow.pyfunc.log_model(name=name, **arguments)


class Scorer:
    """What MLflow calls: tables in, scored tables out."""

    def __init__(self, model: TableModel) -> None:
        self.model = model

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Score a table; `params={"because": True}` also says why rows are deferred."""
        frame = pd.DataFrame(model_input)
        return self.model.score(frame, because=bool((params or {}).get("because")))


def _load_pyfunc(path: str) -> Scorer:
    """MLflow's way in: load what `save_model` wrote.

    Photos are data URIs: a client of a service must not be able to make it read files.
    """
    return Scorer(TableModel.load(path).with_photos_in(None))


@contextmanager
def _arguments(model: TableModel, options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Arguments of MLflow's functions; the model is in a temporary folder, in our own format."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / _DATA
        model.save(folder)
        defaults = {
            "loader_module": "bacoun.mlflow",
            "data_path": str(folder),
            "signature": _signature(model),
            "input_example": _example(model),
            "pip_requirements": [f"{name}=={version(name)}" for name in _LIBRARIES],
        }
        yield defaults | options


def _type(column: Column) -> str:
    """The type of a column by MLflow's name, which takes no whole numbers for a double."""
    values = column.levels or ([] if column.whole else [0.5])
    if column.kind == "number" and not column.gaps and all(float(v).is_integer() for v in values):
        return "long"
    return _TYPES.get(column.kind, "string")


def _example(model: TableModel) -> pd.DataFrame:
    """A typical row, as a table with the types of the signature."""
    row = pd.DataFrame([model.typical_row()])
    doubles = [column.name for column in model.columns if _type(column) == "double"]
    return row.astype(dict.fromkeys(doubles, float))


def _signature(model: TableModel) -> Any:
    """Types of the columns that a model takes, and of those that it adds; parameters."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, ParamSchema, ParamSpec, Schema

    label = {"i": "long", "b": "boolean"}.get(model.classes.dtype.kind, "string")
    kinds = {"prediction": label, "decision": "string", "reason": "string"}
    inputs: list[Any] = [
        ColSpec(_type(column), column.name, required=not column.gaps) for column in model.columns
    ]
    outputs: list[Any] = [
        ColSpec(kinds.get(name, "double"), name) for name in model.added_columns[:-1]
    ]
    parameters = ParamSchema([ParamSpec("because", "boolean", default=False)])
    return ModelSignature(Schema(inputs), Schema(outputs), parameters)

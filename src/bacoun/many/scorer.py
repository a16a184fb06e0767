"""Scorer: a saved model as a small picklable function, for Dask, Spark, Ray and process pools."""

import os
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Lock

import pandas as pd

from bacoun.engine.threads import one_thread
from bacoun.files.model_folder import read_checksum
from bacoun.tabular.model import TableModel

_LOADING = Lock()  # so that two threads of a worker do not load the same model twice


@dataclass(frozen=True)
class Scorer:
    """A function from a DataFrame to its scores, small enough to be sent to many workers.

    Its pickle holds the path of a saved model and the model's checksum, not the weights. Each
    process loads the model once, when it first scores, and scores on one torch thread. A model that
    was replaced in the meantime is refused, so that all workers use the same one.

    Parameters
    ----------
    path : path
        Folder of a saved `TableModel`. All workers must be able to read it there.
    because : bool
        Add the column `because`, which says in words why a row is deferred. That takes a few
        milliseconds for each deferred row.
    photo_folder : path
        Folder that paths of photos are relative to; all workers must be able to read it there.

    Examples
    --------
    >>> import pickle, tempfile
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris(as_frame=True).frame
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     TableModel.fit(iris, "target", quick=True).save(f"{folder}/model")
    ...     scorer = Scorer(f"{folder}/model", because=False)
    ...     scores = pickle.loads(pickle.dumps(scorer))(iris.head(2) * 9)
    >>> scores["reason"].tolist()
    ['unfamiliar', 'unfamiliar']
    """

    path: str | os.PathLike[str]
    because: bool = True
    photo_folder: str | os.PathLike[str] = ""
    checksum: str = field(init=False)
    """Checksum of the saved model."""

    def __post_init__(self) -> None:
        # Absolute, because a worker may have another working directory.
        object.__setattr__(self, "path", str(Path(self.path).absolute()))
        object.__setattr__(self, "photo_folder", str(Path(self.photo_folder).absolute()))
        object.__setattr__(self, "checksum", read_checksum(self.path))

    @property
    def model(self) -> TableModel:
        """The model, loaded at most once in each process."""
        with _LOADING:
            return _load(str(self.path), self.checksum).with_photos_in(self.photo_folder)

    @property
    def meta(self) -> pd.DataFrame:
        """What is added to a table, without rows: the names of the columns and their dtypes."""
        return _meta(self).copy()

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Scores of each row of `frame`, with the same index: what `bacoun predict` adds.

        See `TableModel.score` for the columns. `frame` may be empty, as partitions often are.
        """
        if len(frame) == 0:
            return self.meta.set_axis(frame.index)
        model = self.model
        with one_thread():
            return model.score(frame, self.because)

    def join(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The columns of `frame`, then its scores."""
        self.model.refuse_taken(frame.columns, "the table", self.because)
        return pd.concat([frame, self(frame)], axis=1)


@lru_cache(maxsize=4)
def _load(path: str, checksum: str) -> TableModel:
    model = TableModel.load(path)
    if read_checksum(path) != checksum:
        raise ValueError(
            f"'{path}' must hold the model that the Scorer was made for; it was replaced by "
            "another. Make a new Scorer."
        )
    return model


@lru_cache(maxsize=4)
def _meta(scorer: Scorer) -> pd.DataFrame:
    """The columns of a scored row without content: types are not known from an empty table."""
    gaps = pd.DataFrame({name: [None] for name in scorer.model.column_names})
    with one_thread():
        return scorer.model.score(gaps, scorer.because).head(0)

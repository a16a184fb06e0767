"""fit_files: Parquet files, also larger than memory -> a TableModel.

One pass over the files draws a sample. Flows, forest and networks learn from it, as from any table.
The features of all training rows are then computed once, row group by row group, and kept on disk;
the posterior is a matter of sums over them. Each pass is a tree reduction over row groups, in this
process or on a Dask cluster.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from inspect import signature
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import pandas as pd
import torch
from safetensors.torch import load, save
from torch import Tensor

from bacoun.classifier import BaCOUnClassifier
from bacoun.columns.reading import listed, open_parquet, rows_per_chunk
from bacoun.engine.threads import one_thread
from bacoun.files.atomic import atomic_write
from bacoun.files.checkpoint import Checkpoint
from bacoun.files.checksums import checksum
from bacoun.files.model_folder import read_checksum, read_folder, write_folder
from bacoun.fitting import Fit
from bacoun.many.cluster import Engine, Result
from bacoun.many.parts import RowGroup, located
from bacoun.many.predict import find_files, survey_files
from bacoun.many.sketch import Sampling, Sketch
from bacoun.prediction import FeatureExtractor
from bacoun.serialization import pack_extractor, unpack_extractor
from bacoun.tabular.encoding import TableEncoder, find_ids
from bacoun.tabular.items import ItemColumns
from bacoun.tabular.labels import MIN_ROWS, label_values
from bacoun.tabular.model import Sampled, TableModel, check_settings

SAMPLE_ROWS = 500_000
_MOST_HELD_OUT = 100_000  # rows to calibrate on; more add no certainty worth their time
_CHECKED = ("random_state", "max_error", "calibration_share", "false_alarm", "confidence")
_FOLDER = "rows.checkpoint"  # Checkpoint.clear removes what ends so
_EXTRACTOR = "map"


class Place(NamedTuple):
    """A row group, and the number of its first row among those of all files."""

    start: int
    group: RowGroup

    def frames(self) -> Iterator[pd.DataFrame]:
        """Its chunks; the index is the number of the row."""
        for frame in self.group.frames():
            yield frame.set_axis(frame.index + self.start)


def fit_files(
    files: str | Sequence[str],
    target: str,
    *,
    sample_rows: int = SAMPLE_ROWS,
    engine: Engine | None = None,
    **settings: Any,
) -> TableModel:
    """Train a model on Parquet files that may be larger than memory.

    If the training rows are at most `sample_rows`, this is `TableModel.fit` on all of them.
    Otherwise flows, forest and networks learn from a sample, and the posterior from all rows.

    Parameters
    ----------
    files : str or sequence of str
        A pattern such as `folder/*.parquet`, or addresses of files, all with the same columns.
    target : str
        Name of the column with the labels.
    sample_rows : int
        Number of training rows that flows, forest and networks learn from, about. Rows that hold an
        extreme, a category or a gap of some column are added.
    engine : Engine, optional
        Where passes over the rows run; see `open_engine`. None: in this process.
    settings
        Arguments of `TableModel.fit`. `time` needs all rows in memory.
    """
    engine = engine or Engine()
    call = signature(TableModel.fit).bind(None, target, **settings)  # refuses a misspelled one
    call.apply_defaults()
    given = call.arguments
    check_settings(**{name: given[name] for name in _CHECKED})
    if sample_rows < 1:
        raise ValueError(f"sample_rows must be at least 1; got {sample_rows}.")
    paths = find_files(files) if isinstance(files, str) else list(files)
    places = _places(paths, engine)
    n_rows = sum(place.group.n_rows for place in places)
    share, group, seed = (given[n] for n in ("calibration_share", "group", "random_state"))
    if (1 - share) * n_rows <= sample_rows:
        return TableModel.fit(_read_all(paths), target, **settings)
    if given["time"] is not None:
        raise ValueError(
            f"time needs all rows in memory, at most {round(sample_rows / (1 - share)):,}; got "
            f"{n_rows:,}. Raise sample_rows if there is memory for them, or split at random."
        )
    first = next(places[0].frames())
    if target not in first:
        label_values(first, target)  # says so
    choices: dict[Any, Any] = {"photo": given["photos"], "text": given["text"]}
    ItemColumns.find(first, {target, group}, choices).refuse_sample()
    ids = tuple(name for name in find_ids(first.drop(columns=target)) if name != group)
    rate = min(1.0, sample_rows / ((1 - share) * n_rows))
    sampling = Sampling(target, group, ids, share, rate, _MOST_HELD_OUT, seed)
    sketch = engine.run(partial(_sketched, sampling=sampling), places, Sketch.merge)
    frame, known = _sampled(sketch)
    with _scratch(given["checkpoint"]) as folder:

        def fit_classifier(classifier: Any, encoder: Any, *sample: Any, checkpoint: Any) -> None:
            sample_of = [places, sampling]  # the same rows, wherever their features are computed
            fit = Fit(classifier, *sample, checkpoint=checkpoint, sample_of=sample_of)
            fit.learn_features()
            source = FeatureSource.of(classifier, encoder, sampling, folder)
            fit.infer_posterior(FileFeatures(places, sketch.n_training, source, engine))

        sampled = Sampled(**known, fit_classifier=fit_classifier)
        no_items = {"text": False, "photos": False}
        return TableModel.fit(frame, target, sampled=sampled, **settings | no_items)


def _places(files: Sequence[str], engine: Engine) -> list[Place]:
    surveys = survey_files(files, engine)
    for survey in surveys[1:]:
        differ = set(survey.columns) ^ set(surveys[0].columns)
        if differ:
            raise ValueError(
                f"all files must have the same columns; '{survey.file}' and '{surveys[0].file}' "
                f"differ in {listed(sorted(differ))}."
            )
    groups = [group for survey in surveys for group in survey.groups]
    starts = accumulate((group.n_rows for group in groups), initial=0)
    return [Place(start, group) for start, group in zip(starts, groups, strict=False)]


def _read_all(files: Sequence[str]) -> pd.DataFrame:
    frames = []
    for file in files:
        with open_parquet(*located(file)) as parquet:
            frames.append(parquet.read().to_pandas(ignore_metadata=True))
    return pd.concat(frames, ignore_index=True)


def _sketched(place: Place, sampling: Sampling) -> Sketch:
    with place.group.named():
        return Sketch.merge([Sketch.of(frame, sampling) for frame in place.frames()])


def _sampled(sketch: Sketch) -> tuple[pd.DataFrame, dict[str, Any]]:
    """The sampled and the held-out rows, and the arguments of `Sampled` but the last."""
    import pyarrow as pa

    train, sampling, n_rows = sketch.train, sketch.sampling, sketch.labels.total()
    drawn = label_values(train, sampling.target)
    rare = [label for label in sketch.labels if (drawn == label).sum() < MIN_ROWS]
    known = set(label_values(sketch.held_out, sampling.target).tolist())
    if rare or known != set(sketch.labels):
        label = (rare or sorted(set(sketch.labels) - known))[0]
        raise ValueError(
            f"each class in '{sampling.target}' must have at least {MIN_ROWS} rows in the sample, "
            f"and one to calibrate on; {label!r} has {sketch.labels[label]:,} of {n_rows:,} rows "
            "in all. Raise sample_rows, merge classes, or leave it out."
        )
    rows = pa.Table.from_pandas(pd.concat([train, sketch.held_out]), preserve_index=False)
    frame = rows.to_pandas(ignore_metadata=True)  # the types of `read_table`, not those of Arrow
    inputs = frame.iloc[: len(train)].drop(columns=sampling.target)
    ids = find_ids(inputs) | {name: "id" for name in sampling.ids if inputs[name].is_unique}
    facts = {
        "rows": n_rows,
        "training_rows": sketch.n_training,
        "copies": None,  # not counted
        "classes": {str(label): sketch.labels[label] for label in sorted(sketch.labels)},
        "data_digest": f"{sketch.digest:016x}",
    }
    return frame, {"n_train": len(train), "ids": ids, "facts": facts}


@contextmanager
def _scratch(checkpoint: str | os.PathLike[str] | Checkpoint | None) -> Iterator[Path]:
    """A folder for features: in that of the checkpoint, or a temporary one."""
    if checkpoint is None:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
    else:
        saved = checkpoint.folder if isinstance(checkpoint, Checkpoint) else Path(checkpoint)
        yield saved.absolute() / _FOLDER


@dataclass(frozen=True)
class FeatureSource:
    """Computes the features of row groups, or reads what was computed before."""

    sampling: Sampling  # which rows are held out, and where the labels are
    encoder: TableEncoder
    classes: np.ndarray  # the labels (K,), in order
    folder: str  # of features, and of what extracts them; all workers must find it there
    checksum: str  # of the extractor

    @classmethod
    def of(
        cls, classifier: BaCOUnClassifier, encoder: TableEncoder, sampling: Sampling, folder: Path
    ) -> Self:
        """Save the feature extractor of a classifier, after steps 1 and 2, in the folder."""
        folder.mkdir(parents=True, exist_ok=True)
        content, path = pack_extractor(classifier.feature_extractor), folder / _EXTRACTOR
        write_folder(content, path, overwrite=True)
        return cls(sampling, encoder, classifier.classes_, str(folder), read_checksum(path))

    def chunks(self, place: Place) -> Iterator[tuple[Tensor, Tensor]]:
        """Features (n, L) and labels (n,) of the training rows in each chunk of a row group."""
        name = checksum([asdict(place.group), asdict(self.sampling), self.checksum])
        n_chunks = -(-place.group.n_rows // rows_per_chunk(place.group.n_columns))
        paths = [Path(self.folder, f"{name}-{number}.safetensors") for number in range(n_chunks)]
        contents: Iterator[dict[str, Tensor]] = map(self._made, place.frames(), paths)
        if all(path.exists() for path in paths):
            contents = (load(path.read_bytes()) for path in paths)
        for content in contents:
            yield content["features"], content["labels"]

    def _made(self, frame: pd.DataFrame, path: Path) -> dict[str, Tensor]:
        rows = frame[~self.sampling.is_held_out(self.sampling.hashes(frame))]
        extractor = _load_extractor(f"{self.folder}/{_EXTRACTOR}", self.checksum)
        labels = pd.Index(self.classes).get_indexer(label_values(rows, self.sampling.target))
        features = extractor(self.encoder.transform(rows)).float()
        content = {"features": features, "labels": torch.from_numpy(labels.astype(np.int64))}
        with atomic_write(path) as file:
            file.write(save(content))
        return content


@dataclass(frozen=True)
class FileFeatures:
    """Features of all `n_rows` training rows in some row groups: a `FeatureRows`."""

    places: list[Place]
    n_rows: int
    source: FeatureSource
    engine: Engine

    def reduce(
        self, function: Callable[[Tensor, Tensor], Result], merge: Callable[[list[Result]], Result]
    ) -> Result:
        """Merge the results of `function` on features (n, L) and labels (n,) of each chunk."""
        task = partial(_reduced, source=self.source, function=function, merge=merge)
        return self.engine.run(task, self.places, merge)


def _reduced(place: Place, source: FeatureSource, function: Any, merge: Any) -> Any:
    with one_thread(), place.group.named():
        return merge([function(*chunk) for chunk in source.chunks(place)])


@lru_cache(maxsize=2)
def _load_extractor(path: str, checksum: str) -> FeatureExtractor:
    """`checksum` tells one extractor from the next."""
    return unpack_extractor(read_folder(path))

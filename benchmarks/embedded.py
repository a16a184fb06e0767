"""Vectors of texts and photos, drawn at random: what is learned, and what is asked.

The texts go through MiniLM, the photos through EfficientNet-Lite0, each once.
"""

from __future__ import annotations

import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
import pandas as pd
from PIL import Image
from reproduction.datasets.sources import fetch
from reproduction.datasets.unpack import BBC, CIFAR, CIFAR_ANSWERS
from scipy.stats import entropy

from bacoun.encoders import EfficientNetLite0, MiniLM, encode_cached

N_SENTENCES = 20  # of each intent
N_BBC_TRAIN = 600
N_CIFAR_CLASSES, N_CIFAR_TRAIN = 6, 800
FIRST_CIFAR_ROW = 2500  # of 5000; the photos before it are development data
SOLAR_TRAIN_SHARE = 0.6
_CIFAR_ROWS_OF_CLASS = 500
_CELLS = "elpv_dataset/data"


@dataclass(frozen=True)
class Draw:
    """Vectors of a case with one seed.

    Attributes
    ----------
    train : (N, D)
    labels : (N,)
    known : (n, D)
        Test rows of the classes of training.
    of_known : (n,)
        Their classes.
    unknown : (m, D)
        Rows that are to be told from the known ones.
    disagreement : (n,), or None
        Entropy of people's answers about each known row, in nats.
    unclear : (k, D), or None
        Rows of the same kind as the known ones, on which experts disagree.
    """

    train: np.ndarray
    labels: np.ndarray
    known: np.ndarray
    of_known: np.ndarray
    unknown: np.ndarray
    disagreement: np.ndarray | None = None
    unclear: np.ndarray | None = None


def of_texts(texts: Iterable[str]) -> np.ndarray:
    """Vectors (N, 384) of unit length."""
    return encode_cached(MiniLM(), list(texts))


def of_photos(photos: Iterable[bytes]) -> np.ndarray:
    """Vectors (N, 1280) of photos, given as the content of their files."""
    return encode_cached(EfficientNetLite0(), list(photos))


# --- texts ----------------------------------------------------------------------------------------


@cache
def _clinc() -> dict[str, pd.DataFrame]:
    """Columns `text` and `intent`, by part."""
    with gzip.open(fetch("clinc") / "clinc150.json.gz", "rt") as file:
        parts = json.load(file)
    return {name: pd.DataFrame(rows, columns=["text", "intent"]) for name, rows in parts.items()}


def clinc(n_intents: int, seed: int) -> Draw:
    """Some of CLINC's 150 intents with 20 sentences each; unknown are questions of no intent."""
    parts, rng = _clinc(), np.random.default_rng(seed)
    train, test = parts["train"], parts["test"]
    intents = rng.permutation(np.unique(train["intent"]))[:n_intents]
    own = (train[train["intent"] == intent] for intent in intents)
    train = pd.concat([rows.iloc[rng.permutation(len(rows))[:N_SENTENCES]] for rows in own])
    test = test[test["intent"].isin(intents)]
    return Draw(
        of_texts(train["text"]),
        train["intent"].to_numpy(str),
        of_texts(test["text"]),
        test["intent"].to_numpy(str),
        of_texts(parts["oos_test"]["text"]),
    )


def bbc(seed: int) -> Draw:
    """News of four topics; unknown is the fifth, another one for each seed from 0 to 4."""
    news, rng = pd.read_csv(fetch("bbc") / BBC), np.random.default_rng(seed)
    topics = news["topic"].to_numpy(str)
    is_known = topics != np.unique(topics)[seed]
    train, known = _split(rng, is_known, N_BBC_TRAIN)
    x = of_texts(news["text"])
    return Draw(x[train], topics[train], x[known], topics[known], x[~is_known])


# --- photos ---------------------------------------------------------------------------------------


def cifar(seed: int) -> Draw:
    """Photos of six of ten classes; unknown are those of the other four."""
    images, labels, answers = _cifar()
    rng = np.random.default_rng(seed)
    is_known = np.isin(labels, rng.permutation(10)[:N_CIFAR_CLASSES])
    train, known = _split(rng, is_known, N_CIFAR_TRAIN)
    x = of_photos(map(_as_png, images))
    disagreement = entropy(answers[known], axis=1)
    return Draw(x[train], labels[train], x[known], labels[known], x[~is_known], disagreement)


@cache
def _cifar() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, labels and the shares of people's answers, of the second half of 5000 test images.

    The 5000 are the first 500 of each class. A file with them alone says which they are.
    """
    with np.load(fetch("cifar10") / CIFAR) as arrays:
        images, labels = arrays["images"], arrays["labels"]
        index = arrays["index"] if "index" in arrays else np.arange(len(labels))
    answers = np.load(fetch("cifar10h") / CIFAR_ANSWERS)[index]
    rank_in_class = pd.Series(labels).groupby(labels).cumcount()
    rows = np.flatnonzero(rank_in_class < _CIFAR_ROWS_OF_CLASS)[FIRST_CIFAR_ROW:]
    return images[rows], labels[rows], answers[rows]


def _as_png(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image).save(file, "PNG")
    return file.getvalue()


def solar(seed: int) -> Draw:
    """Monocrystalline solar cells, with or without a defect; unknown are polycrystalline ones.

    Unclear cells are monocrystalline, and experts do not agree that there is a defect, or is none.
    """
    rng = np.random.default_rng(seed)
    with zipfile.ZipFile(fetch("elpv") / "elpv.zip") as archive:
        table = io.BytesIO(archive.read(f"{_CELLS}/labels.csv"))
        cells = pd.read_csv(table, sep=r"\s+", names=["path", "defect", "kind"])
        x = of_photos(archive.read(f"{_CELLS}/{path}") for path in cells["path"])
    is_mono = (cells["kind"] == "mono").to_numpy()
    is_clear = cells["defect"].isin([0.0, 1.0]).to_numpy()
    n_train = round(SOLAR_TRAIN_SHARE * (is_mono & is_clear).sum())
    train, known = _split(rng, is_mono & is_clear, n_train)
    defect = (cells["defect"] > 0.5).to_numpy(int)
    unclear = x[is_mono & ~is_clear]
    return Draw(x[train], defect[train], x[known], defect[known], x[~is_mono], unclear=unclear)


def _split(
    rng: np.random.Generator, is_wanted: np.ndarray, n_train: int
) -> tuple[np.ndarray, np.ndarray]:
    """Places of `n_train` wanted rows, and of the other wanted ones, in random order."""
    places = rng.permutation(np.flatnonzero(is_wanted))
    return places[:n_train], places[n_train:]


@dataclass(frozen=True)
class Case:
    """How a case is drawn, with which seeds, and what it is, in a few words."""

    draw: Callable[[int], Draw]
    n_seeds: int
    about: str


CASES = {
    **{
        f"clinc {n}": Case(partial(clinc, n), 5, f"{n} intents of CLINC, 20 sentences each")
        for n in (15, 50, 150)
    },
    "bbc": Case(bbc, 5, "BBC news, one of five topics left out in turn"),
    "cifar": Case(cifar, 10, "800 photos of six of CIFAR's classes, the other four are unknown"),
    "solar": Case(solar, 3, "monocrystalline solar cells, polycrystalline ones are unknown"),
}

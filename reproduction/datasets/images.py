"""Images to train on and out-of-distribution images: grey, 28 x 28, white on black as MNIST."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits

from reproduction.datasets.dataset import Dataset
from reproduction.datasets.sources import fetch
from reproduction.datasets.unpack import (
    CIFAR,
    EMNIST_BALANCED,
    EMNIST_LETTERS,
    PathLike,
    read_idx,
)

Pair = tuple[np.ndarray, np.ndarray]
OTHERS = ("emnist-balanced", "emnist-letters", "usps", "cifar10")
_SIDE = 28
_DIGITS_TRAIN = 1297  # and 500 to test with, in the order of the file
_N_LEFT_OUT = 2  # of the ten digits, in development images
_LARGEST_SHARE = 0.7  # of development images to train on
_LUMINANCE = np.array([0.299, 0.587, 0.114], dtype=np.float32)  # ITU-R BT.601


def load_images(name: str, split: str = "train", path: PathLike | None = None) -> Pair:
    """Images (N, 28, 28), float32 from 0 (black) to 1 (white), and labels (N,), int64.

    Parameters
    ----------
    name : str
        "mnist"; "usps" and "cifar10", brought to 28 x 28 and grey; "emnist-letters" (26 classes);
        "emnist-balanced" (47 classes, digits among them); or "digits", scikit-learn's, which are
        8 x 8 and need no file.
    split : "train" or "test"
        Of EMNIST and CIFAR-10 there is a test set alone.
    path : path, optional
        A folder with the files; None looks in `BACOUN_DATA` and the cache, then downloads.
    """
    if name not in _READERS:
        raise ValueError(f"name must be one of {sorted(_READERS)}; got {name!r}.")
    reader, splits = _READERS[name]
    if split not in splits:
        raise ValueError(f"split of {name} must be one of {list(splits)}; got {split!r}.")
    folder = Path() if name == "digits" else fetch(name, path)
    images, labels = reader(folder, split)
    return images.astype(np.float32), labels.astype(np.int64)


def normalized(images: np.ndarray, mean: float, sd: float) -> np.ndarray:
    """Images less `mean`, over `sd`: those of the training pixels, .1307 and .3081 in MNIST."""
    if not sd > 0:
        raise ValueError(f"sd must be positive; got {sd}. Take the training set's.")
    return ((images - mean) / sd).astype(np.float32)


def _read_mnist(folder: Path, split: str) -> Pair:
    stem = {"train": "train", "test": "t10k"}[split]
    images = read_idx(folder / f"{stem}-images-idx3-ubyte.gz")
    return _shades(images), read_idx(folder / f"{stem}-labels-idx1-ubyte.gz")


def _read_usps(folder: Path, split: str) -> Pair:
    with np.load(folder / "usps.npz") as arrays:
        images, labels = arrays[f"{split}_images"], arrays[f"{split}_labels"]
    return _resized(_shades(images)), labels


def _read_letters(folder: Path, split: str) -> Pair:
    return _read_emnist(folder / EMNIST_LETTERS)


def _read_balanced(folder: Path, split: str) -> Pair:
    return _read_emnist(folder / EMNIST_BALANCED)


def _read_emnist(file: Path) -> Pair:
    with np.load(file) as arrays:
        return _shades(arrays["images"]), arrays["labels"]


def _read_cifar(folder: Path, split: str) -> Pair:
    with np.load(folder / CIFAR) as arrays:
        images, labels = arrays["images"], arrays["labels"]
    return _resized(_shades(images) @ _LUMINANCE), labels


def _read_digits(folder: Path, split: str) -> Pair:
    bunch = load_digits()
    rows = slice(_DIGITS_TRAIN) if split == "train" else slice(_DIGITS_TRAIN, None)
    return bunch.images[rows] / 16, bunch.target[rows]


def _shades(pixels: np.ndarray) -> np.ndarray:
    return pixels.astype(np.float32) / 255


def _resized(images: np.ndarray) -> np.ndarray:
    """Images (N, H, W) at 28 x 28: bilinear, each new pixel averaging all it covers."""
    channel = torch.from_numpy(images)[:, None]
    size = (_SIDE, _SIDE)
    resized = torch.nn.functional.interpolate(channel, size, mode="bilinear", antialias=True)
    return resized[:, 0].clamp(0, 1).numpy()


_BOTH, _TEST = ("train", "test"), ("test",)
_READERS: dict[str, tuple[Callable[[Path, str], Pair], tuple[str, ...]]] = {
    "mnist": (_read_mnist, _BOTH),
    "usps": (_read_usps, _BOTH),
    "emnist-letters": (_read_letters, _TEST),
    "emnist-balanced": (_read_balanced, _TEST),
    "cifar10": (_read_cifar, _TEST),
    "digits": (_read_digits, _BOTH),
}


def load_mnist(
    *,
    n_train: int = 60_000,
    others: Sequence[str] = OTHERS,
    n_asked: int = 2000,
    random_state: int = 0,
) -> Dataset:
    """MNIST to train on, and images of other kinds to evaluate.

    Parameters
    ----------
    n_train : int
        Training images, drawn at random.
    others : sequence of str
        Sets to evaluate, as `load_images` names them.
    n_asked : int
        Images of each region, at most, drawn at random; "in" are test images of MNIST.
    """
    rng = np.random.default_rng(random_state)
    rng.permutation(10)  # unused, but without it a seed would draw other images than in the records
    images, labels = _some(load_images("mnist"), n_train, rng)
    test_images, test_labels = load_images("mnist", "test")
    regions = {"in": (test_images, test_labels)}
    regions |= {name: load_images(name, "test") for name in others}
    asked = {name: _some(pair, n_asked, rng) for name, pair in regions.items()}
    return Dataset(
        points=images,
        labels=labels,
        test_points=test_images,
        test_labels=test_labels,
        regions={name: pair[0] for name, pair in asked.items()},
        region_labels={name: pair[1] for name, pair in asked.items()},
        feature_names=[f"pixel {row} {column}" for row in range(_SIDE) for column in range(_SIDE)],
    )


def _some(pair: Pair, n_images: int, rng: np.random.Generator) -> Pair:
    """A random choice of at most `n_images` images and their labels."""
    images, labels = pair
    chosen = rng.permutation(len(images))[:n_images]
    return images[chosen], labels[chosen]


def development_images(name: str, n_train: int, n_asked: int, random_state: int) -> Dataset:
    """Images of eight digits to train and to evaluate on, and of two that are left out.

    Parameters
    ----------
    name : "mnist" or "digits"
        Of MNIST, the training file alone is read.
    n_train : int
        Training images, at most; never more than 70 % of those there are.
    n_asked : int
        Held-out images, at most; of the left-out digits there are half as many.
    random_state : int
        Which digits are left out, and which images are drawn.
    """
    images, labels = _development_file(name)
    rng = np.random.default_rng(random_state)
    left_out = np.isin(labels, rng.permutation(10)[:_N_LEFT_OUT])
    known, unknown = (rng.permutation(np.flatnonzero(rows)) for rows in (~left_out, left_out))
    n_train = min(n_train, int(_LARGEST_SHARE * len(known)))
    train, held_out = known[:n_train], known[n_train : n_train + n_asked]
    unknown = unknown[: n_asked // 2]
    return Dataset(
        points=images[train],
        labels=labels[train],
        test_points=images[held_out],
        test_labels=labels[held_out],
        regions={"left out": images[unknown]},
        region_labels={"left out": labels[unknown]},
        feature_names=[f"pixel {row} {column}" for row, column in np.ndindex(*images.shape[1:])],
    )


def _development_file(name: str) -> tuple[np.ndarray, np.ndarray]:
    if name == "mnist":
        return load_images("mnist", "train")
    if name == "digits":
        halves = (load_images("digits", split) for split in ("train", "test"))
        images, labels = (np.concatenate(pair) for pair in zip(*halves, strict=True))
        return images, labels
    raise ValueError(f"a set of development images must be 'mnist' or 'digits'; got {name!r}.")

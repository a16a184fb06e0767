"""What the tests of studies share: methods that fit in a moment, and stand-ins for image files."""

import numpy as np
import pytest
from reproduction.datasets.unpack import CIFAR, EMNIST_BALANCED, EMNIST_LETTERS, write_idx
from reproduction.studies.images import as_bytes
from reproduction.studies.regions import _load
from scipy import ndimage

from reproduction.datasets import load_images

_STEPS = {
    "features": {"hidden": [8, 16], "epochs": 4},
    "posterior": {"kind": "laplace", "n_draws": 30},
}
_METHODS = {
    "BaCOUn": _STEPS
    | {
        "kind": "bacoun",
        "boundary": {"n_components": 4, "shell": {"epochs": 2, "blocks": 1, "hidden": 8}},
        "n_boundary": 100,
    },
    "NLM": _STEPS | {"kind": "nlm"},
    "Deep ensemble": {"kind": "ensemble", "n_members": 2, "network": {"hidden": [8], "epochs": 2}},
}


@pytest.fixture(autouse=True)
def _fresh_data():
    """Data sets are read again, because tests replace the files behind them."""
    _load.cache_clear()


@pytest.fixture
def small_methods():
    """BaCOUn, NLM and a deep ensemble, as the settings of an experiment."""
    return {name: dict(settings) for name, settings in _METHODS.items()}


@pytest.fixture(scope="session")
def image_folder(tmp_path_factory):
    """scikit-learn's digits at 28 x 28 in place of MNIST; altered ones in place of the others."""
    root = tmp_path_factory.mktemp("data")
    shades, labels = _large_digits()
    large = as_bytes(shades)
    (root / "mnist").mkdir()
    for stem, rows in (("train", slice(0, 500)), ("t10k", slice(500, 800))):
        write_idx(root / "mnist" / f"{stem}-images-idx3-ubyte.gz", large[rows])
        write_idx(root / "mnist" / f"{stem}-labels-idx1-ubyte.gz", labels[rows].astype(np.uint8))
    (root / "usps").mkdir()
    half = large[:60, ::2, ::2]
    parts = {f"{s}_images": half for s in ("train", "test")}
    np.savez(root / "usps" / "usps.npz", **parts, train_labels=labels[:60], test_labels=labels[:60])
    (root / "emnist").mkdir()
    for name in (EMNIST_LETTERS, EMNIST_BALANCED):
        np.savez(root / "emnist" / name, images=large[:60].swapaxes(1, 2), labels=labels[:60])
    (root / "cifar10").mkdir()
    colors = np.random.default_rng(0).integers(0, 256, (60, 32, 32, 3), dtype=np.uint8)
    np.savez(root / "cifar10" / CIFAR, images=colors, labels=labels[:60])
    return root


def _large_digits():
    """scikit-learn's digits at 28 x 28, and their labels."""
    splits = [load_images("digits", split) for split in ("train", "test")]
    images, labels = (np.concatenate(parts) for parts in zip(*splits, strict=True))
    return ndimage.zoom(images, (1, 3.5, 3.5), order=1).clip(0, 1), labels


@pytest.fixture
def cache(monkeypatch, tmp_path_factory):
    """A cache for fits that only the tests of this session see."""
    folder = tmp_path_factory.getbasetemp() / "cache of studies"
    monkeypatch.setenv("BACOUN_CACHE", str(folder))
    return folder


@pytest.fixture
def files_read(monkeypatch, cache):
    """scikit-learn's digits at 28 x 28 in place of every file; which were read, and their parts."""
    read = []
    large, labels = _large_digits()
    rows = {("mnist", "train"): slice(0, 600), ("mnist", "test"): slice(600, 900)}

    def stand_in(name, split="train"):
        read.append((name, split))
        if name == "digits":
            return load_images(name, split)
        own = rows.get((name, split), slice(900, 960))
        turned = large if name in ("mnist", "usps") else large.swapaxes(1, 2)
        return turned[own], labels[own]

    monkeypatch.setattr("reproduction.datasets.images.load_images", stand_in)
    return read

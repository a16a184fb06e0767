"""What the tests of studies share: methods that fit in a moment, and stand-ins for image files."""

import numpy as np
import pytest
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


@pytest.fixture
def small_methods():
    """BaCOUn, NLM and a deep ensemble, as the settings of an experiment."""
    return {name: dict(settings) for name, settings in _METHODS.items()}


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
    images, labels = (
        np.concatenate(pair)
        for pair in zip(*(load_images("digits", split) for split in ("train", "test")), strict=True)
    )
    large = ndimage.zoom(images, (1, 3.5, 3.5), order=1).clip(0, 1)
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

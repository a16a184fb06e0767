"""Images come upright, white on black, at one size and on one scale."""

import os
from functools import cache

import numpy as np
import pytest
from reproduction.datasets.catalog import SOURCES
from reproduction.datasets.images import load_images, normalized
from reproduction.datasets.unpack import write_idx

needs_data = pytest.mark.skipif(
    "BACOUN_DATA" not in os.environ, reason="BACOUN_DATA is not set, so there are no image files"
)
EVERY = {
    ("mnist", "train"): (60_000, 10),
    ("mnist", "test"): (10_000, 10),
    ("usps", "train"): (7291, 10),
    ("usps", "test"): (2007, 10),
    ("emnist-letters", "test"): (9984, 26),
    ("emnist-balanced", "test"): (9964, 47),
    ("cifar10", "test"): (5000, 10),
}
load = cache(load_images)


def bytes_like(*shape: int) -> np.ndarray:
    pixels = np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)
    pixels.flat[:2] = 0, 255
    return pixels


@needs_data
@pytest.mark.parametrize(("name", "split"), EVERY)
def test_every_set_has_its_shape_scale_and_classes(name, split):
    n_points, n_classes = EVERY[name, split]
    images, labels = load(name, split)
    assert images.shape == (n_points, 28, 28)
    assert (images.dtype, labels.dtype) == (np.float32, np.int64)
    assert (images.min(), images.max()) == (0, 1)
    assert np.unique(labels).tolist() == list(range(n_classes))


@needs_data
@pytest.mark.parametrize("name", ["usps", "emnist-balanced"])
def test_digits_look_like_mnists_only_as_they_stand(name):
    train, digits = load("mnist", "test")
    means = standardized(np.stack([train[digits == digit].mean(axis=0) for digit in range(10)]))
    images, labels = load(name, "test")
    images, labels = images[labels < 10], labels[labels < 10]

    def hit_rate(pictures: np.ndarray) -> float:
        """How often the mean digit with the largest correlation is the right one."""
        return float(((standardized(pictures) @ means.T).argmax(axis=1) == labels).mean())

    changed = [images.swapaxes(1, 2), images[:, ::-1], images[:, :, ::-1], 1 - images]
    assert hit_rate(images) > max(map(hit_rate, changed)) + 0.1


def standardized(pictures: np.ndarray) -> np.ndarray:
    flat = pictures.reshape(len(pictures), -1)
    centered = flat - flat.mean(axis=1, keepdims=True)
    return centered / np.linalg.norm(centered, axis=1, keepdims=True)


@needs_data
def test_mnist_has_the_moments_everybody_quotes():
    images, _ = load("mnist", "train")
    assert images.mean() == pytest.approx(0.1307, abs=1e-4)
    assert images.std() == pytest.approx(0.3081, abs=1e-4)


def test_mnist_is_read_as_it_stands(tmp_path):
    pixels, labels = bytes_like(5, 28, 28), np.arange(5, dtype=np.uint8)
    for stem in ("train", "t10k"):
        write_idx(tmp_path / f"{stem}-images-idx3-ubyte.gz", pixels)
        write_idx(tmp_path / f"{stem}-labels-idx1-ubyte.gz", labels)
    images, found = load_images("mnist", path=tmp_path)
    np.testing.assert_allclose(images, pixels / 255, rtol=1e-6)
    assert found.tolist() == labels.tolist()


def test_small_images_grow_and_keep_their_place(tmp_path):
    pixels = np.zeros((1, 16, 16), dtype=np.uint8)
    pixels[0, :8, :4] = 255  # a light corner, top left
    arrays = {f"{split}_images": pixels for split in ("train", "test")}
    labels = {f"{split}_labels": np.array([3]) for split in ("train", "test")}
    np.savez(tmp_path / "usps.npz", **arrays, **labels)
    images, found = load_images("usps", "test", tmp_path)
    assert images.shape == (1, 28, 28)
    assert images[0, :13, :6].min() == 1
    assert images[0, 15:].max() == images[0, :, 8:].max() == 0
    assert images.mean() == pytest.approx(pixels.mean() / 255, abs=0.01)
    assert found.tolist() == [3]


def test_colors_become_their_luminance(tmp_path):
    colors = np.array([[255, 255, 255], [255, 0, 0], [0, 255, 0], [0, 0, 255]], dtype=np.uint8)
    pixels = np.broadcast_to(colors[:, None, None], (4, 32, 32, 3))
    np.savez(tmp_path / SOURCES["cifar10"].files[0], images=pixels, labels=np.arange(4))
    images, _ = load_images("cifar10", "test", tmp_path)
    assert images.shape == (4, 28, 28)
    expected = np.broadcast_to(np.array([1, 0.299, 0.587, 0.114])[:, None, None], images.shape)
    np.testing.assert_allclose(images, expected, atol=1e-5)


def test_built_in_digits_need_no_file():
    train, test = load_images("digits", "train"), load_images("digits", "test")
    assert train[0].shape == (1297, 8, 8)
    assert test[0].shape == (500, 8, 8)
    for images, labels in (train, test):
        assert images.dtype == np.float32
        assert (images.min(), images.max()) == (0, 1)
        assert np.unique(labels).tolist() == list(range(10))


def test_normalizing_by_own_moments_gives_mean_zero_and_sd_one():
    images = bytes_like(20, 28, 28) / 255
    standard = normalized(images, images.mean(), images.std())
    assert standard.dtype == np.float32
    assert standard.mean() == pytest.approx(0, abs=1e-5)
    assert standard.std() == pytest.approx(1, abs=1e-5)
    with pytest.raises(ValueError, match=r"sd must be positive; got 0\.0"):
        normalized(images, 0.0, 0.0)


def test_unknown_names_and_splits_are_answered_with_the_known_ones():
    with pytest.raises(ValueError, match=r"one of \['cifar10', .*\]; got 'minst'"):
        load_images("minst")
    with pytest.raises(
        ValueError, match=r"split of cifar10 must be one of \['test'\]; got 'train'"
    ):
        load_images("cifar10")
    with pytest.raises(ValueError, match=r"\['train', 'test'\]; got 'valid'"):
        load_images("mnist", "valid")

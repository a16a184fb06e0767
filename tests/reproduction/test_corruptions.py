"""Corruptions keep images images, spare what they should, and grow with their strength."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reproduction.studies.corruptions import FAMILIES, blurred, corrupted, rotated, warped
from scipy import ndimage

from reproduction import read_experiment
from reproduction.datasets import load_images

NOTHING = {
    "blur": 0.0,
    "rotation": 0.0,
    "noise": 0.0,
    "translation": 0.0,
    "contrast": 1.0,
    "elastic": 0.0,
}
STRONG = {
    "blur": 1.5,
    "rotation": 60,
    "noise": 0.5,
    "translation": 3,
    "contrast": 0.2,
    "elastic": 2.0,
}
RANDOM = ("noise", "translation", "elastic")
SETS = [
    (28, read_experiment("shifts").options["shifts"]),
    (28, read_experiment("choice").options["shifts"]["mnist"]),
    (8, read_experiment("choice").options["shifts"]["digits"]),
]


def digits(n_images, side=8):
    images = load_images("digits")[0][:n_images]
    zoom = side / images.shape[1]
    return ndimage.zoom(images, (1, zoom, zoom), order=1).clip(0, 1)


@pytest.mark.parametrize("family", FAMILIES)
@settings(max_examples=10, deadline=None)
@given(st.integers(1, 6), st.sampled_from([(8, 8), (28, 28), (9, 12)]), st.integers(0, 99))
def test_shape_and_range_are_kept(family, n_images, shape, seed):
    images = np.random.default_rng(seed).random((n_images, *shape), dtype=np.float32)
    before = images.copy()
    result = corrupted(images, family, STRONG[family], seed)
    assert result.shape == images.shape
    assert result.dtype == np.float32
    assert result.min() >= 0
    assert result.max() <= 1
    np.testing.assert_array_equal(images, before)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("side", [8, 28])
def test_no_strength_changes_nothing(family, side):
    images = digits(5, side)
    np.testing.assert_allclose(corrupted(images, family, NOTHING[family], 0), images, atol=1e-6)


@pytest.mark.parametrize("family", FAMILIES)
def test_the_seed_decides_all_that_is_random_and_nothing_else(family):
    images = digits(8, 28)
    first, again, other = (corrupted(images, family, STRONG[family], seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert np.array_equal(first, other) == (family not in RANDOM)


@pytest.mark.parametrize(("side", "strengths"), SETS)
def test_strengths_are_listed_in_the_order_of_growing_shift(side, strengths):
    images = digits(50, side)
    for family, values in strengths.items():
        levels = [NOTHING[family], *values]
        gaps = [np.abs(corrupted(images, family, level, 0) - images).mean() for level in levels]
        assert (np.diff(gaps) > 0).all(), family


def test_the_strengths_reported_on_are_not_those_of_the_choice():
    reported, chosen = SETS[0][1], SETS[1][1]
    shared = {(f, s) for f in reported for s in reported[f] if s in chosen[f]}
    assert shared == {("translation", 1), ("translation", 3)}  # whole pixels leave no choice


def test_a_full_turn_ends_where_it_began():
    images = digits(5, 28)
    np.testing.assert_allclose(rotated(images, 360), images, atol=1e-4)


def test_blur_keeps_the_light_that_does_not_leave_the_image():
    images = np.pad(digits(5), ((0, 0), (10, 10), (10, 10)))
    blur = blurred(images, 1.5)
    np.testing.assert_allclose(blur.sum(axis=(1, 2)), images.sum(axis=(1, 2)), rtol=1e-4)
    assert (blur.max(axis=(1, 2)) < images.max(axis=(1, 2))).all()


@pytest.mark.parametrize("pixels", [1, 2, 4])
def test_translation_moves_by_whole_pixels_in_all_four_directions(pixels):
    images = np.zeros((60, 11, 11), dtype=np.float32)
    images[:, 5, 5] = 1
    moved = corrupted(images, "translation", pixels, 0)
    _, rows, columns = np.nonzero(moved > 0.999)
    assert len(rows) == 60
    steps = {(int(row) - 5, int(column) - 5) for row, column in zip(rows, columns, strict=True)}
    assert steps == {(pixels, 0), (-pixels, 0), (0, pixels), (0, -pixels)}


def test_what_is_moved_out_of_the_image_does_not_come_back():
    white = np.ones((20, 8, 8), dtype=np.float32)
    moved = corrupted(white, "translation", 3, 0)
    np.testing.assert_allclose(moved.sum(axis=(1, 2)), 8 * 5, rtol=1e-5)


def test_an_elastic_distortion_moves_points_as_far_as_it_says():
    ramp = np.broadcast_to(np.linspace(0, 1, 64, dtype=np.float32), (40, 64, 64))
    inner = (slice(None), slice(2, -2), slice(2, -2))  # at the rim, black comes in from outside
    moves = [
        63 * (warped(images, 0.5, np.random.default_rng(0)) - images)[inner]
        for images in (ramp, ramp.swapaxes(1, 2))  # shades tell columns, then rows
    ]
    assert np.sqrt(np.square(moves).sum(axis=0).mean()) == pytest.approx(0.5, rel=0.1)


def test_an_unknown_corruption_is_refused_with_the_list():
    with pytest.raises(ValueError, match=r"must be one of .*'blur'.*; got 'fog'"):
        corrupted(digits(1), "fog", 1.0, 0)

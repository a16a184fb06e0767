"""Corruptions of grey images, such as a camera or a scanner causes.

Images are (N, H, W), float32 from 0 (black) to 1 (white), of any size; they keep shape and range.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import ndimage

_SMOOTH = 7  # an elastic field is smooth over a seventh of the image: 4 of 28 pixels (Simard 2003)


def blurred(images: np.ndarray, sd: float) -> np.ndarray:
    """Images after a Gaussian filter with a standard deviation of `sd` pixels."""
    return _as_images(ndimage.gaussian_filter(images, (0, sd, sd), mode="constant"))


def rotated(images: np.ndarray, degrees: float) -> np.ndarray:
    """Images rotated counter-clockwise, filled with black."""
    return _as_images(ndimage.rotate(images, degrees, axes=(2, 1), reshape=False, order=1))


def noisy(images: np.ndarray, sd: float, rng: np.random.Generator) -> np.ndarray:
    """Images plus Gaussian noise of standard deviation `sd`, clipped to black and white."""
    return _as_images(images + sd * rng.standard_normal(images.shape))


def translated(images: np.ndarray, pixels: float, rng: np.random.Generator) -> np.ndarray:
    """Images moved up, down, left or right, each in a direction of its own; black fills the gap.

    A fraction of a pixel is interpolated linearly.
    """
    steps = np.array([(-1, 0), (1, 0), (0, -1), (0, 1)])
    direction = rng.integers(len(steps), size=len(images))
    moved = np.empty(images.shape)
    for each, step in enumerate(steps):
        own = direction == each
        moved[own] = ndimage.shift(images[own], (0, *(pixels * step)), order=1)
    return _as_images(moved)


def dimmed(images: np.ndarray, factor: float) -> np.ndarray:
    """Images with every pixel times `factor`: less contrast the smaller it is."""
    return _as_images(images * factor)


def warped(images: np.ndarray, pixels: float, rng: np.random.Generator) -> np.ndarray:
    """Images after an elastic distortion that moves points by `pixels`, root mean square."""
    smooth = max(images.shape[1:]) / _SMOOTH
    field = rng.standard_normal((2, *images.shape))
    field = ndimage.gaussian_filter(field, (0, 0, smooth, smooth))
    length = np.sqrt(np.square(field).sum(axis=0).mean(axis=(1, 2), keepdims=True))
    image, row, column = np.indices(images.shape, dtype=np.float64)
    up, across = pixels * field / length
    where = np.stack([image, row + up, column + across])
    return _as_images(ndimage.map_coordinates(images, where, order=1))


Corruption = Callable[[np.ndarray, float, np.random.Generator], np.ndarray]
"""From images, a strength in the corruption's own unit, and a source of randomness, to images."""

FAMILIES: dict[str, Corruption] = {
    "blur": lambda images, sd, _: blurred(images, sd),
    "rotation": lambda images, degrees, _: rotated(images, degrees),
    "noise": noisy,
    "translation": translated,
    "contrast": lambda images, factor, _: dimmed(images, factor),
    "elastic": warped,
}


def corrupted(images: np.ndarray, family: str, strength: float, seed: int) -> np.ndarray:
    """Images under one family of corruptions.

    The same seed gives each image the same direction and pattern at every strength, so that
    strengths are compared on equal terms.
    """
    if family not in FAMILIES:
        raise ValueError(f"a corruption must be one of {sorted(FAMILIES)}; got {family!r}.")
    return FAMILIES[family](images, strength, np.random.default_rng(seed))


def _as_images(pixels: np.ndarray) -> np.ndarray:
    clipped: np.ndarray = pixels.clip(0, 1).astype(np.float32)
    return clipped

"""Texts and photos on their way into an encoder: checked, and in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bacoun.encoders.photos import photo_bytes, read_photo

_BATCH = 32


class Texts:
    """What is done with texts."""

    def content(self, item: Any) -> bytes:
        """A text in UTF-8; halves of characters, which that has not, become question marks."""
        if not isinstance(item, str):
            raise ValueError(f"a text must be a str; got {item!r:.80}. If it is missing, pass ''.")
        return item.encode("utf-8", "replace")

    def encode(self, run: Callable[[list[str]], np.ndarray], items: Sequence[Any]) -> np.ndarray:
        """Vectors (N, D) from a function of a batch."""
        texts = [self.content(item).decode() for item in items]
        order = sorted(range(len(texts)), key=lambda i: len(texts[i]))  # for little padding
        batches = [[texts[i] for i in order[j : j + _BATCH]] for j in range(0, len(texts), _BATCH)]
        vectors = [run(batch) for batch in batches] or [run([""])[:0]]
        result = np.empty((len(texts), vectors[0].shape[1]), dtype=np.float32)
        result[order] = np.concatenate(vectors)
        return result


@dataclass(frozen=True)
class Photos:
    """What is done with photos: they become (pixels / 255 - mean) / std, (n, 3, size, size)."""

    size: int
    mean: Sequence[float]
    std: Sequence[float]

    def content(self, item: Any) -> bytes:
        """The bytes of the file."""
        return photo_bytes(item)

    def encode(self, run: Callable[[np.ndarray], np.ndarray], items: Sequence[Any]) -> np.ndarray:
        """Vectors (N, D) from a function of a batch."""
        batches = [items[i : i + _BATCH] for i in range(0, len(items), _BATCH)]
        blank = np.zeros((1, 3, self.size, self.size), dtype=np.float32)
        vectors = [run(self._images(batch)) for batch in batches] or [run(blank)[:0]]
        return np.concatenate(vectors).astype(np.float32, copy=False)

    def _images(self, items: Sequence[Any]) -> np.ndarray:
        pixels = np.stack([read_photo(item, self.size) for item in items]) / np.float32(255)
        mean, std = (np.array(each, dtype=np.float32) for each in (self.mean, self.std))
        images = (pixels - mean) / std
        return np.ascontiguousarray(images.transpose(0, 3, 1, 2))


def mean_over_places(output: np.ndarray) -> np.ndarray:
    """Vectors (N, D) from an output (N, D), (N, places, D) or (N, D, H, W)."""
    axes = {2: (), 3: (1,), 4: (2, 3)}.get(output.ndim)
    if axes is None:
        raise ValueError(f"a network must give (N, D) or (N, D, H, W); got {output.shape}.")
    return output.mean(axis=axes)

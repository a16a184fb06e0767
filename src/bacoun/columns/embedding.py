"""Embedding: texts or photos of a column -> vectors, by an encoder that is known by its spec."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from bacoun.columns.writing_style import WritingStyle
from bacoun.encoders import (
    HasSpec,
    PhotoError,
    encode_cached,
    from_spec,
    unreadable_photos,
)
from bacoun.files.checksums import checksum

Progress = Callable[[int, int], None]

# By the checksum of their spec: encoders of the user's own, and those that need trust.
_REMEMBERED: dict[str, HasSpec] = {}


@dataclass(frozen=True)
class Embedding:
    """How the texts or photos of a column become vectors (N, D)."""

    encoder: Mapping[str, Any]  # the spec
    center: tuple[float, ...]  # the mean vector in training, in place of a gap
    style: WritingStyle | None = None  # of texts

    @classmethod
    def of(cls, encoder: HasSpec, items: Sequence[str], style: WritingStyle | None) -> Self:
        """Describe training items, all of which can be read."""
        center = encode_cached(encoder, items).mean(axis=0, dtype=np.float64)
        return cls(remember(encoder), tuple(center.tolist()), style)

    def encode(self, items: Sequence[str]) -> tuple[np.ndarray, dict[int, str]]:
        """Vectors (N, D), and why some photos, by index, cannot be read; these get the center."""
        vectors, unreadable = embed(encoder_of(self.encoder), items)
        vectors = vectors.astype(np.float64)
        vectors[[*unreadable]] = self.center
        return vectors, unreadable


def embed(
    encoder: HasSpec, items: Sequence[str], on_progress: Progress | None = None
) -> tuple[np.ndarray, dict[int, str]]:
    """Vectors (N, D), and why some photos, by index, cannot be read; those vectors are NaN."""
    try:
        return encode_cached(encoder, items, on_progress), {}
    except PhotoError:
        unreadable = unreadable_photos(items)
    readable = np.delete(np.arange(len(items)), [*unreadable])
    encoded = encode_cached(encoder, [items[i] for i in readable.tolist()], on_progress)
    vectors = np.full((len(items), encoded.shape[1]), np.nan, dtype=np.float32)
    vectors[readable] = encoded
    return vectors, {i: reason_in(message) for i, message in unreadable.items()}


def reason_in(message: str) -> str:
    """Why a photo cannot be read, without its path."""
    return message.rsplit("must be a photo; it ", 1)[-1].rstrip(".")


def remember(encoder: HasSpec) -> dict[str, Any]:
    """The spec of an encoder, by which `encoder_of` finds it again in this process."""
    spec = encoder.spec
    _REMEMBERED[checksum(spec)] = encoder
    return spec


def encoder_of(spec: Mapping[str, Any]) -> HasSpec:
    """The encoder of a spec: one that is remembered, if its weights are the same, or a new one."""
    known = _REMEMBERED.get(checksum(dict(spec)))
    if known is not None and checksum(known.spec) == checksum(dict(spec)):
        return known
    return from_spec(spec)

"""Texts or photos (N) -> vectors (N, D), by encoders that others have trained.

Nothing here imports torch before it is needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bacoun.encoders.cache import EmbeddingCache, encode_cached
from bacoun.encoders.encoder import Encoder, HasSpec, MissingPackageError, Pretrained
from bacoun.encoders.networks import EfficientNetLite0, SentenceTransformers, TimmModel, TorchModel
from bacoun.encoders.onnx import MiniLM, OnnxModel
from bacoun.encoders.photos import (
    PhotoError,
    count_pixels,
    read_photo,
    thumbnail,
    unreadable_photos,
)

KINDS: dict[str, type[Pretrained]] = {
    "minilm": MiniLM,
    "efficientnet-lite0": EfficientNetLite0,
    "onnx": OnnxModel,
    "sentence-transformers": SentenceTransformers,
    "torch": TorchModel,
    "timm": TimmModel,
}


def as_encoder(encoder: str | Encoder) -> Encoder:
    """The encoder itself, or the one that a name of `KINDS` stands for."""
    if isinstance(encoder, str):
        kind = _kind(encoder)
        try:
            return kind()
        except TypeError:
            raise ValueError(
                f"the encoder '{encoder}' has settings without default; pass {kind.__name__}(...)."
            ) from None
    if isinstance(encoder, Encoder):
        return encoder
    raise ValueError(f"encoder must be a name or have a method encode; got {encoder!r:.80}.")


def from_spec(spec: Mapping[str, Any], *, trusted: bool = False) -> Pretrained:
    """Undo `encoder.spec`; other weights than those of the spec are refused.

    With `trusted`, reading the weights may run code that the settings name, or download them.
    """
    try:
        encoder = _kind(spec["kind"])(**spec["settings"])
        expected = str(spec["fingerprint"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"the encoder was not stored completely: {error}.") from error
    if encoder.needs_trust and not trusted:
        raise ValueError(
            f"{encoder} runs code or downloads weights; that is done only if trusted is True."
        )
    if encoder.fingerprint != expected:
        raise ValueError(
            f"{encoder} must have the weights of the fit, with the checksum {expected[:12]}; got "
            f"{encoder.fingerprint[:12]}. Put the old weights back, or fit again."
        )
    return encoder


def _kind(name: str) -> type[Pretrained]:
    if name not in KINDS:
        raise ValueError(f"an encoder must be one of {', '.join(KINDS)}; got '{name}'.")
    return KINDS[name]


__all__ = [
    "KINDS",
    "EfficientNetLite0",
    "EmbeddingCache",
    "Encoder",
    "HasSpec",
    "MiniLM",
    "MissingPackageError",
    "OnnxModel",
    "PhotoError",
    "Pretrained",
    "SentenceTransformers",
    "TimmModel",
    "TorchModel",
    "as_encoder",
    "count_pixels",
    "encode_cached",
    "from_spec",
    "read_photo",
    "thumbnail",
    "unreadable_photos",
]

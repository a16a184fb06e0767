"""Nested plain values and tensors <-> a folder of JSON and safetensors. No pickle.

`model.json` holds plain values and names the tensors in `model.safetensors`. It also holds a
checksum of both, so that a truncated or altered folder is refused.
"""

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from bacoun.files.atomic import atomic_folder, left_behind
from bacoun.files.checksums import checksum, checksum_of_file
from bacoun.files.identity import DOCUMENT, TENSORS

FORMAT = 3
MAY_LIE_BESIDE = ("report.html",)  # what our commands write into the folder of a model


def write_folder(content: dict[str, Any], path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write nested plain values and tensors to the folder `path`, atomically."""
    target = Path(path)
    if target.exists() and not overwrite:
        raise FileExistsError(
            f"path must not exist yet; '{target}' does. Choose another, or pass overwrite=True."
        )
    if target.exists() and not _may_be_replaced(target):
        raise FileExistsError(
            f"overwrite=True replaces a saved model; '{target}' is something else, or holds other "
            "files. Choose another, or move them away."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    tensors: dict[str, Tensor] = {}
    plain = _take_out_tensors(content, "", tensors)
    with atomic_folder(target) as folder:
        try:
            save_file(tensors, folder / TENSORS)
        except SafetensorError as error:
            raise OSError(f"'{target}' cannot be written: {error}.") from error
        parts = {"format": FORMAT, "tensors_checksum": checksum_of_file(folder / TENSORS)} | plain
        document = parts | {"checksum": checksum(parts)}
        (folder / DOCUMENT).write_text(json.dumps(document, indent=1, allow_nan=False))
        shutil.copymode(folder / DOCUMENT, folder / TENSORS)  # safetensors writes for the owner
        for path in (folder / DOCUMENT, folder / TENSORS):
            with path.open("rb+") as file:
                os.fsync(file.fileno())


def read_folder(path: str | os.PathLike[str], device: str = "cpu") -> dict[str, Any]:
    """Read what `write_folder` wrote; a damaged folder raises a ValueError."""
    folder = Path(path)
    document = _read_document(folder)
    del document["checksum"], document["format"]
    if document.pop("tensors_checksum") != checksum_of_file(folder / TENSORS):
        raise ValueError(f"'{folder / TENSORS}' was changed after saving; save the model again.")
    try:
        tensors = load_file(folder / TENSORS, device=device)
    except SafetensorError as error:
        raise ValueError(f"'{folder / TENSORS}' is damaged; save the model again.") from error
    return {name: _put_back_tensors(value, tensors) for name, value in document.items()}


def read_checksum(path: str | os.PathLike[str]) -> str:
    """Checksum of the model in the folder `path`: two models with the same one are equal."""
    return str(_read_document(Path(path))["checksum"])


@contextmanager
def refuse_incomplete(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn what goes wrong while a model is rebuilt from `path` into one sentence."""
    try:
        yield
    except (KeyError, TypeError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"'{path}' does not hold a complete model: {reason}.") from error


def plain(value: Any) -> Any:
    """A value without NumPy scalars, which a grid search leaves behind and JSON does not know."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.tolist() if isinstance(value, np.generic | np.ndarray) else value


def _read_document(folder: Path) -> dict[str, Any]:
    """The plain values of a model, with their checksum, which is compared."""
    for name in (DOCUMENT, TENSORS):
        if not (folder / name).is_file():
            raise FileNotFoundError(
                f"path must be a folder with {DOCUMENT} and {TENSORS}; '{folder}' has no {name}."
                + _what_was_left(folder)
            )
    try:
        document: dict[str, Any] = json.loads((folder / DOCUMENT).read_text())
        written = document["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"'{folder / DOCUMENT}' is damaged; save the model again.") from error
    if written != FORMAT:
        raise ValueError(
            f"'{folder}' has format {written}, this version of bacoun reads {FORMAT}. "
            "Fit the model again, or install the version of bacoun that wrote it."
        )
    content = {name: value for name, value in document.items() if name != "checksum"}
    if document.get("checksum") != checksum(content):
        raise ValueError(f"'{folder / DOCUMENT}' was changed after saving; save the model again.")
    return document


def _what_was_left(folder: Path) -> str:
    """A hint if a save that was killed left a model beside a folder that is missing."""
    left = [] if folder.exists() else left_behind(folder)
    complete = next((path for path in left if (path / DOCUMENT).exists()), None)
    return f" A save was interrupted: rename '{complete}' to it." if complete else ""


def _take_out_tensors(value: Any, name: str, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value)
    if isinstance(value, Tensor):
        # A copy, because safetensors refuses tensors that share memory, as tied weights do.
        tensors[name] = value.detach().cpu().clone(memory_format=torch.contiguous_format)
        return {"$tensor": name}
    take = partial(_take_out_tensors, tensors=tensors)
    if isinstance(value, dict):
        return {key: take(item, f"{name}/{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [take(item, f"{name}/{i}") for i, item in enumerate(value)]
    return value


def _put_back_tensors(value: Any, tensors: dict[str, Tensor]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"$tensor"}:
            return tensors[value["$tensor"]]
        return {key: _put_back_tensors(item, tensors) for key, item in value.items()}
    if isinstance(value, list):
        return [_put_back_tensors(item, tensors) for item in value]
    return value


def _may_be_replaced(target: Path) -> bool:
    """Whether a folder is empty, or a model of ours with nothing foreign in it."""
    if not target.is_dir():
        return False
    names = {path.name for path in target.iterdir()}
    if not names or not names <= {DOCUMENT, TENSORS, *MAY_LIE_BESIDE} or DOCUMENT not in names:
        return not names
    try:
        return "format" in json.loads((target / DOCUMENT).read_text())
    except (ValueError, TypeError, OSError):
        return TENSORS in names  # damaged, but ours

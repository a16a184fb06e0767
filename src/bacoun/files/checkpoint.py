"""Checkpoints: a fit that was killed resumes after its last finished step.

A resumed fit starts from the top with the generator it began with. Finished steps are loaded, and
so are the chains of a running sampler; everything else is recomputed.
"""

import os
import re
import shutil
import time
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

import joblib
import numpy as np
from sklearn.base import BaseEstimator
from torch import Generator, Tensor, nn

from bacoun.files.model_folder import read_folder, write_folder

State = dict[str, Any]
"""Plain values and tensors, nested."""

_RUN, _LOCK = "$run", "fit.lock"
_held: dict[Path, IO[str]] = {}  # locks of this process, which an interrupted fit may still have
_WITHOUT_EFFECT = {"verbose", "n_jobs"}  # settings that may change from one attempt to the next


class Checkpoint:
    """States by name in a folder, each written atomically.

    The folder is made when needed; only its entries `*.checkpoint` are ever read, replaced or
    removed. A loop that runs for long saves its state `every_seconds`.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Checkpoint(folder).save("loop", {"epoch": 3})
    ...     Checkpoint(folder).load("loop")
    {'epoch': 3}
    """

    def __init__(self, folder: str | os.PathLike[str], every_seconds: float = 60.0) -> None:
        self.folder = Path(folder)
        self.every_seconds = every_seconds
        self._last_save = time.monotonic()
        self._run: str | None = None  # of which the states are; None: any

    def begin(self, run: State, generator: Generator) -> None:
        """Set `generator` to where the run began; refuse the folder of another run.

        `run` holds everything that the result depends on, by name: data and settings.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(
                f"checkpoint must be a folder; '{self.folder}' is a file. Choose another name."
            )
        self._lock()
        hashes = {name: fingerprint(value) for name, value in run.items()}
        begun = self.load("run")
        self._run = fingerprint(hashes)
        if begun is None:
            self._remove_states()
            self.save("run", {"hashes": hashes, "generator": generator.get_state()})
            return
        differ = [name for name in hashes if begun["hashes"].get(name) != hashes[name]]
        if differ:
            raise ValueError(
                f"checkpoint must hold a fit of the same {' and '.join(differ)}; '{self.folder}' "
                "holds another. Delete that folder to start anew, or choose another."
            )
        generator.set_state(begun["generator"])

    def load(self, name: str, device: Any = "cpu") -> State | None:
        """The state saved under `name`; None if there is none, or if it is damaged."""
        with suppress(ValueError, FileNotFoundError):
            state = read_folder(self._path(name), str(device))
            if state.pop(_RUN, None) == self._run or self._run is None:
                return state
        return None

    def save(self, name: str, state: State) -> None:
        """Replace the state saved under `name`."""
        if self.load(name) is None:  # what a process left that was killed while it cleared
            shutil.rmtree(self._path(name), ignore_errors=True)
        write_folder(state | {_RUN: self._run}, self._path(name), overwrite=True)
        self._last_save = time.monotonic()

    def is_due(self) -> bool:
        """Whether the last save was `every_seconds` ago or longer."""
        return time.monotonic() - self._last_save >= self.every_seconds

    def clear(self) -> None:
        """Remove all states, and the folder if nothing else is in it."""
        self._remove_states()
        (self.folder / _LOCK).unlink(missing_ok=True)
        if (lock := _held.pop(self.folder.resolve(), None)) is not None:
            lock.close()
        with suppress(OSError):  # not there, or not empty
            self.folder.rmdir()

    def _lock(self) -> None:
        """Keep other processes from this folder until this one ends, or the fit has."""
        folder = self.folder.resolve()
        if fcntl is None or folder in _held:
            return
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / _LOCK).open("a")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise ValueError(
                f"another fit is using the checkpoint '{self.folder}'. Wait for it, or choose "
                "another output."
            ) from None
        _held[folder] = lock

    def _remove_states(self) -> None:
        for path in [*self.folder.glob("*.checkpoint"), *self.folder.glob(".*.checkpoint.*.tmp")]:
            shutil.rmtree(path)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.checkpoint"


def fingerprint(value: Any) -> str:
    """A hash of data or settings: equal for equal values, in any process.

    >>> fingerprint([1.0, "a"]) == fingerprint((np.float64(1.0), "a")) != fingerprint([1.0, "b"])
    True
    """
    return str(joblib.hash(_hashable(value)))


def _hashable(value: Any) -> Any:
    """Arrays, numbers and text, nested in lists, that stand for a value."""
    if isinstance(value, Tensor):
        return np.ascontiguousarray(value.detach().cpu().numpy())
    if isinstance(value, np.ndarray | np.generic):
        is_array = isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
        return np.ascontiguousarray(value) if is_array else _hashable(value.tolist())
    if isinstance(value, nn.Module):
        return [repr(value), _hashable(dict(value.state_dict()))]
    if isinstance(value, dict):
        return [[str(key), _hashable(value[key])] for key in sorted(value, key=str)]
    if isinstance(value, list | tuple):
        return [_hashable(item) for item in value]
    if isinstance(value, BaseEstimator):
        settings = value.get_params(deep=False)
        decisive = {name: settings[name] for name in settings.keys() - _WITHOUT_EFFECT}
        return [type(value).__qualname__, _hashable(decisive)]
    return re.sub("0x[0-9a-fA-F]+", "", repr(value))  # without the address in memory

"""A fit that can be killed at any time: its loops leave their state in a folder and go on from it.

A resumed fit starts again from the top, with the generator it began with. What is quick is done
again, to the same bits; a loop that finds its state here jumps to where it was. So loops, and
results too dear to work out twice, are all that a checkpoint holds.
"""

from __future__ import annotations

import copy
import hashlib
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import Generator, Tensor, nn

from bacoun.storage import read_model, write_model

State = dict[str, Any]
"""Plain values and tensors, nested."""

_WITHOUT_EFFECT = {"verbose", "n_jobs"}  # settings that may change from one attempt to the next


class Checkpoint:
    """States by name in a folder, each written whole or not at all.

    Parameters
    ----------
    folder : str or PathLike
        Made when needed. Only its entries `*.checkpoint` are ever read, replaced or removed.
    every_seconds : float
        Least time between two saves, all names and sections together.
    clock : callable
        The time in seconds.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Checkpoint(folder).save("loop", lambda: {"epoch": 3}, now=True)
    ...     Checkpoint(folder).load("loop")
    {'epoch': 3}
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        every_seconds: float = 60.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = Path(folder)
        self._prefix = ""
        self._throttle = _Throttle(every_seconds, clock)

    def section(self, name: str) -> Self:
        """The same checkpoint for a part of the work, whose names do not meet the others'."""
        part = copy.copy(self)
        part._prefix = f"{self._prefix}{name}."
        return part

    def begin(self, run: State, generator: Generator) -> None:
        """Bring `generator` to where the run began; refuse a folder in which another run did.

        Parameters
        ----------
        run : dict
            All that the result depends on, by name: data and settings.
        """
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(
                f"checkpoint must be a folder; '{self.folder}' is a file. Choose another name."
            )
        ours = {name: fingerprint(value) for name, value in run.items()}
        begun = self.load("run")
        if begun is None:
            self.clear()
            first = {"run": ours, "generator": generator.get_state()}
            self.save("run", first.copy, now=True)
            return
        differ = [name for name in ours if begun["run"].get(name) != ours[name]]
        if differ:
            raise ValueError(
                f"checkpoint must hold a fit of the same {' and '.join(differ)}; '{self.folder}' "
                "holds another. Delete that folder to start anew, or choose another."
            )
        for cut_short in self.folder.glob("*.checkpoint/.*"):
            shutil.rmtree(cut_short, ignore_errors=True)
        generator.set_state(begun["generator"])

    def load(self, name: str) -> State | None:
        """The last state saved under `name`; None if there is none, or none undamaged."""
        for entry in reversed(self._entries(name)):
            with suppress(ValueError, FileNotFoundError):
                return read_model(entry)
        return None

    def save(self, name: str, state: Callable[[], State], *, now: bool = False) -> None:
        """Write what `state()` returns, unless the last save was a moment ago; `now` does anyway.

        The state before it is removed only once the new one stands: there is always one to load.
        """
        if not now and not self._throttle.is_due():
            return
        before = self._entries(name)
        number = _number(before[-1]) + 1 if before else 1
        # A job of a killed fit may live on for a while: the process is named, so none gets in the
        # way of another.
        entry = self._place(name) / f"{number}-{os.getpid()}"
        write_model(state(), entry, overwrite=False)
        for old in before:
            shutil.rmtree(old, ignore_errors=True)
        self._throttle.start()

    def once(self, name: str, generator: Generator, make: Callable[[], Any]) -> Any:
        """What `make()` returns, made only once; `generator` ends up where that left it."""
        saved = self.load(name)
        if saved is None:
            made = make()
            saved = {"made": made, "generator": generator.get_state()}
            self.save(name, saved.copy, now=True)
        generator.set_state(saved["generator"])
        return saved["made"]

    def clear(self) -> None:
        """Remove all states of this section, and the folder if nothing else is in it."""
        for place in self.folder.glob(f"{self._prefix}*.checkpoint"):
            shutil.rmtree(place)
        with suppress(OSError):  # not there, or not empty
            self.folder.rmdir()

    def _place(self, name: str) -> Path:
        return self.folder / f"{self._prefix}{name}.checkpoint"

    def _entries(self, name: str) -> list[Path]:
        """What was saved under `name`, the latest last."""
        return sorted(self._place(name).glob("[0-9]*"), key=_number)


class _Throttle:
    def __init__(self, every_seconds: float, clock: Callable[[], float]) -> None:
        self.every_seconds, self.clock = every_seconds, clock
        self.start()

    def start(self) -> None:
        self.started = self.clock()

    def is_due(self) -> bool:
        return self.clock() - self.started >= self.every_seconds


def _number(entry: Path) -> int:
    return int(entry.name.partition("-")[0])


def fingerprint(value: Any) -> str:
    """A digest of data or settings: equal for equal values, in any process.

    Examples
    --------
    >>> fingerprint([1.0, "a"]) == fingerprint((np.float64(1.0), "a")) != fingerprint([1.0, "b"])
    True
    """
    digest = hashlib.sha256()
    _feed(digest, value)
    return digest.hexdigest()


def _feed(digest: Any, value: Any) -> None:
    """Parts are preceded by their kind and size, so that no two values read the same."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().contiguous()
        digest.update(f"tensor {value.dtype} {tuple(value.shape)} ".encode())
        digest.update(value.reshape(-1).view(torch.uint8).numpy())
    elif isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        digest.update(f"array {value.dtype.str} {value.shape} ".encode())
        digest.update(np.ascontiguousarray(value))
    elif isinstance(value, np.ndarray | np.generic):
        _feed(digest, value.tolist())
    elif isinstance(value, nn.Module):
        _feed(digest, [repr(value), dict(value.state_dict())])
    elif isinstance(value, dict):
        digest.update(f"dict {len(value)} ".encode())
        for key in sorted(value, key=str):
            _feed(digest, str(key))
            _feed(digest, value[key])
    elif isinstance(value, list | tuple):
        digest.update(f"list {len(value)} ".encode())
        for item in value:
            _feed(digest, item)
    elif hasattr(value, "get_params") and not isinstance(value, type):
        settings = value.get_params(deep=False)
        kept = {name: settings[name] for name in settings.keys() - _WITHOUT_EFFECT}
        _feed(digest, [type(value).__qualname__, kept])
    else:
        text = re.sub("0x[0-9a-fA-F]+", "", repr(value))  # an address in memory says nothing
        digest.update(f"value {len(text)} {text} ".encode())

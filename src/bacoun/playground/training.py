"""Trainer: a process that fits models for pages, one at a time, and tells how far it is.

A fit that nobody waits for any more is given up. Results are kept for a while.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import signal
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from multiprocessing.connection import Connection
from typing import Any

from bacoun.server.errors import ApiError

_MAX_WAITING = 16
_MAX_KEPT = 64
_ATTEMPTS = 3
_SECONDS_BETWEEN_NEWS = 0.1
_SECONDS_TO_GIVE_UP = 5.0
_SECONDS_TO_FIT = 900.0

Event = dict[str, Any]


class _CanceledError(Exception):
    """Nobody waits any more."""


def run(connection: Connection, task: str) -> None:
    """In the process: do tasks, given as JSON, until the other end is closed.

    Parameters
    ----------
    task : str
        The function to call, as "module:name". It takes and returns plain values.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    from bacoun.engine.progress import progress_to

    module, _, name = task.partition(":")
    function: Callable[[dict[str, Any]], dict[str, Any]] = getattr(import_module(module), name)
    last = 0.0

    def tell(step: str, done: int, planned: int) -> None:
        nonlocal last
        if connection.poll():
            connection.recv()
            raise _CanceledError
        if done >= planned or time.monotonic() - last > _SECONDS_BETWEEN_NEWS:
            last = time.monotonic()
            connection.send({"event": "progress", "step": step, "done": done, "planned": planned})

    while True:
        try:
            asked = connection.recv()
        except (EOFError, OSError):
            return
        if asked is None:  # a fit was canceled just as it ended
            continue
        try:
            with progress_to(tell):
                result = json.dumps(function(asked), separators=(",", ":"), allow_nan=False)
            connection.send({"event": "done", "result": result})
        except (_CanceledError, EOFError, BrokenPipeError):  # or the server is gone
            with suppress(OSError):
                connection.send({"event": "canceled"})
        except (ValueError, ImportError) as error:
            connection.send({"event": "refused", "message": str(error)})


@dataclass(eq=False)
class _Fit:
    asked: dict[str, Any]
    events: list[asyncio.Queue[Event]] = field(default_factory=list)
    last: Event = field(default_factory=lambda: {"event": "waiting"})

    def publish(self, event: Event) -> None:
        self.last = event
        for queue in self.events:
            queue.put_nowait(event)


class Trainer:
    """Fits on demand.

    Parameters
    ----------
    task : str
        What is done, as "module:name"; see `run`.
    give_up : bool
        Cancel what nobody waits for.
    """

    def __init__(self, task: str, give_up: bool = True) -> None:
        self.task, self.give_up = task, give_up
        self._results: OrderedDict[str, str] = OrderedDict()
        self._fits: dict[str, _Fit] = {}
        self._order: list[str] = []
        self._working: asyncio.Task[None] | None = None
        self._process: Any = None
        self._connection: Connection | None = None

    async def warm_up(self) -> None:
        """Start the process, which imports torch, before anybody waits for it."""
        await asyncio.to_thread(self._ready)

    async def result(self, asked: dict[str, Any]) -> str:
        """The result as JSON; waits until it is there."""
        async for event in self.follow(asked):
            if event["event"] == "done":
                return str(event["result"])
            if event["event"] == "refused":
                raise ApiError(422, event["message"])
        raise ApiError(503, "the fit was stopped; try again.")

    async def follow(self, asked: dict[str, Any]) -> AsyncIterator[Event]:
        """Events of a fit: progress, at last "done" with the result, or "refused"."""
        key = json.dumps(asked, sort_keys=True)
        if key in self._results:
            self._results.move_to_end(key)
            yield {"event": "done", "result": self._results[key]}
            return
        queue: asyncio.Queue[Event] = asyncio.Queue()
        for _ in range(_ATTEMPTS):
            fit = self._fits.get(key) or self._enqueue(key, asked)
            fit.events.append(queue)
            try:
                yield fit.last
                while (event := await queue.get())["event"] == "progress":
                    yield event
            finally:
                fit.events.remove(queue)
            if event["event"] != "canceled":  # because the last one who waited had left
                yield event
                return

    def _enqueue(self, key: str, asked: dict[str, Any]) -> _Fit:
        self._order = [each for each in self._order if self._is_wanted(each)]
        if len(self._order) >= _MAX_WAITING:
            raise ApiError(503, "too many fits are waiting; try again in a moment.")
        fit = self._fits[key] = _Fit(asked)
        self._order.append(key)
        if self._working is None or self._working.done():
            self._working = asyncio.create_task(self._work())
        return fit

    def _is_wanted(self, key: str) -> bool:
        if self._fits[key].events or not self.give_up:
            return True
        del self._fits[key]
        return False

    async def _work(self) -> None:
        """Do what waits, in its order."""
        while self._order:
            await asyncio.sleep(0)  # whoever asked has to be listening by now
            key = self._order.pop(0)
            fit = self._fits[key]
            try:
                event = await self._fit(fit)
            except (EOFError, OSError):
                self.close()
                event = {"event": "canceled"}
            if event["event"] == "done":
                self._results[key] = event["result"]
                while len(self._results) > _MAX_KEPT:
                    self._results.popitem(last=False)
            del self._fits[key]
            fit.publish(event)

    async def _fit(self, fit: _Fit) -> Event:
        """The last event of one fit."""
        connection = await asyncio.to_thread(self._ready)
        connection.send(fit.asked)
        ends, told = time.monotonic() + _SECONDS_TO_FIT, False
        while True:
            if await asyncio.to_thread(connection.poll, 0.2):
                event: Event = connection.recv()
                if event["event"] != "progress":
                    return event
                fit.publish(event)
            elif time.monotonic() > ends:  # it does not listen
                raise EOFError
            if not told and self.give_up and not fit.events:
                connection.send(None)
                ends, told = time.monotonic() + _SECONDS_TO_GIVE_UP, True

    def _ready(self) -> Connection:
        """The pipe to a process that lives."""
        if self._connection is None or not self._process.is_alive():
            self.close()
            context = multiprocessing.get_context("spawn")
            here, there = context.Pipe()
            self._process = context.Process(target=run, args=(there, self.task), daemon=True)
            self._process.start()
            there.close()
            self._connection = here
        return self._connection

    def close(self) -> None:
        """End the process."""
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._process.kill()
            self._process.join()
            self._connection = None

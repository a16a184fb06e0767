"""Trainer: a process that fits models for pages, one at a time, and tells how far it is.

A fit that nobody waits for any more is given up. Results are kept for a while.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pkgutil import resolve_name
from typing import Any

from bacoun.engine.processes import Child, messages
from bacoun.web.errors import ApiError

_MAX_WAITING = 16  # beside the fit that runs
_MAX_KEPT = 64
_ATTEMPTS = 3
_SECONDS_BETWEEN_NEWS = 0.1
_SECONDS_TO_GIVE_UP = 5.0
_SECONDS_TO_FIT = 900.0

Event = dict[str, Any]


class _CanceledError(Exception):
    """Nobody waits any more."""


def run(connection: Connection, task: str) -> None:
    """In the process: do the task, "module:name", with settings that come through the pipe."""
    from bacoun.engine.progress import progress_to

    function: Callable[[dict[str, Any]], dict[str, Any]] = resolve_name(task)
    last = 0.0

    def tell(step: str, done: int, planned: int) -> None:
        nonlocal last
        if connection.poll():
            connection.recv()
            raise _CanceledError
        if done >= planned or time.monotonic() - last > _SECONDS_BETWEEN_NEWS:
            last = time.monotonic()
            connection.send({"event": "progress", "step": step, "done": done, "planned": planned})

    for settings in messages(connection):
        if settings is None:  # a fit was canceled just as it ended
            continue
        try:
            with progress_to(tell):
                result = json.dumps(function(settings), separators=(",", ":"), allow_nan=False)
            connection.send({"event": "done", "result": result})
        except (_CanceledError, EOFError, BrokenPipeError):  # or the server is gone
            with suppress(OSError):
                connection.send({"event": "canceled"})
        except (ValueError, ImportError) as error:
            connection.send({"event": "refused", "message": str(error)})


@dataclass(eq=False)
class _Fit:
    settings: dict[str, Any]
    listeners: list[asyncio.Queue[Event]] = field(default_factory=list)
    last: Event = field(default_factory=lambda: {"event": "waiting"})
    is_wanted: bool = True
    working: asyncio.Task[None] | None = None

    @property
    def is_over(self) -> bool:
        return self.last["event"] not in ("waiting", "progress")

    def publish(self, event: Event) -> None:
        self.last = event
        for queue in self.listeners:
            queue.put_nowait(event)


class Trainer:
    """Fits on demand, by the function "module:name", which takes and returns plain values.

    With `give_up`, what nobody waits for is canceled.
    """

    def __init__(self, task: str, give_up: bool = True) -> None:
        self.give_up = give_up
        self._child, self._turn = Child(run, task), asyncio.Lock()
        self._fits: dict[str, _Fit] = {}  # the running one, those that wait, and some that are done

    async def warm_up(self) -> None:
        """Start the process, which imports torch, before anybody waits for it."""
        await asyncio.to_thread(self._child.connect)

    async def close(self) -> None:
        """End the process."""
        await asyncio.to_thread(self._child.stop)

    async def result(self, settings: dict[str, Any]) -> str:
        """The result as JSON; waits until it is there."""
        async for event in self.follow(settings):
            if event["event"] == "done":
                return str(event["result"])
            if event["event"] == "refused":
                raise ApiError(422, event["message"])
        raise ApiError(503, "the fit was stopped; try again.")

    async def follow(self, settings: dict[str, Any]) -> AsyncIterator[Event]:
        """Events of a fit: progress, at last "done" with the result, "refused" or "canceled"."""
        key = json.dumps(settings, sort_keys=True)
        fit = self._fits.get(key) or self._begin(key, settings)
        queue: asyncio.Queue[Event] = asyncio.Queue()
        queue.put_nowait(fit.last)
        fit.listeners.append(queue)
        try:
            while (event := await queue.get())["event"] in ("waiting", "progress"):
                yield event
            yield event
        finally:
            fit.listeners.remove(queue)
            if self.give_up and not fit.listeners and not fit.is_over:
                fit.is_wanted = False
                self._forget(key, fit)  # who asks from now on gets a new one

    def _begin(self, key: str, settings: dict[str, Any]) -> _Fit:
        if sum(not fit.is_over for fit in self._fits.values()) > _MAX_WAITING:
            raise ApiError(503, "too many fits are waiting; try again in a moment.")
        fit = self._fits[key] = _Fit(settings)
        fit.working = asyncio.create_task(self._work(key, fit))
        return fit

    def _forget(self, key: str, fit: _Fit) -> None:
        if self._fits.get(key) is fit:
            del self._fits[key]

    async def _work(self, key: str, fit: _Fit) -> None:
        """Fit once it is its turn, again if the process dies."""
        event: Event = {"event": "canceled"}
        async with self._turn:
            for _ in range(_ATTEMPTS):
                if not fit.is_wanted or event["event"] != "canceled":
                    break
                try:
                    event = await self._fit(fit)
                except (EOFError, OSError):
                    await self.close()
        if event["event"] != "done":
            self._forget(key, fit)
        fit.publish(event)
        done = [key for key, each in self._fits.items() if each.is_over]
        for oldest in done[:-_MAX_KEPT]:
            del self._fits[oldest]

    async def _fit(self, fit: _Fit) -> Event:
        connection = await asyncio.to_thread(self._child.connect)
        connection.send(fit.settings)
        ends, is_told = time.monotonic() + _SECONDS_TO_FIT, False
        while True:
            if await asyncio.to_thread(connection.poll, 0.2):
                event: Event = connection.recv()
                if event["event"] != "progress":
                    return event
                fit.publish(event)
            elif time.monotonic() > ends:  # it does not listen
                raise EOFError
            if not fit.is_wanted and not is_told:
                connection.send(None)
                ends, is_told = time.monotonic() + _SECONDS_TO_GIVE_UP, True

"""Pool: jobs -> answers, by worker processes that may die.

Requests that wait for the same model are sent to a worker together, and models take turns: however
many requests one of them has, another waits for at most one batch of each. A worker that dies is
replaced, and what it worked on is done again, one by one: scoring changes nothing, so that is safe.
A job during which workers died several times is refused.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from bacoun.server.errors import ApiError
from bacoun.server.jobs import Answer, Job
from bacoun.server.settings import Settings
from bacoun.server.worker import run

_MAX_BATCH = 128
_MAX_BATCH_BYTES = 2_000_000
_ATTEMPTS = 3
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds until a worker that could not start is tried again
FIRST_SECONDS = 300.0  # a worker imports torch and loads the model before its first answer


@dataclass(eq=False)
class _Ticket:
    job: Job
    answer: Future[Answer] = field(default_factory=Future)
    attempts: int = 0


class Pool:
    """Worker processes, and the requests that wait for them.

    Parameters
    ----------
    settings : Settings
        Number of workers and limits.
    on_batch : callable, optional
        Called with the number of requests in each batch.
    """

    def __init__(self, settings: Settings, on_batch: Callable[[int], None] | None = None) -> None:
        self.settings, self.on_batch = settings, on_batch
        self.restarts = 0
        self.n_unable = 0  # of the threads: those whose worker could not be started
        self._waiting: dict[str, deque[_Ticket]] = {}  # by model, the one whose turn it is first
        self._running: Counter[str] = Counter()  # batches of each model that workers have
        self._changed = threading.Condition()
        self._closed = False
        self._threads = [
            threading.Thread(target=self._serve, name=f"worker-{number}", daemon=True)
            for number in range(settings.n_workers)
        ]

    def start(self) -> None:
        """Start the workers."""
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Let the workers finish what waits, then stop them."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(timeout=self.settings.limits.seconds)

    @property
    def is_able(self) -> bool:
        """Whether there is a worker, or one that has not been needed yet."""
        return self.n_unable < len(self._threads)

    @property
    def n_waiting(self) -> int:
        """Number of requests that wait."""
        with self._changed:
            return sum(map(len, self._waiting.values()))

    async def ask(self, job: Job, seconds: float | None = None) -> Answer:
        """The answer to a job; refused if there are too many, or if it takes too long."""
        ticket, limits = _Ticket(job), self.settings.limits
        with self._changed:
            queue = self._waiting.setdefault(job.model.path, deque())
            if self._closed or len(queue) >= limits.waiting:
                raise ApiError(503, "the server is busy; try again in a moment.")
            if not self.is_able:
                raise ApiError(503, CANNOT_START)
            queue.append(ticket)
            self._changed.notify()
        try:
            return await asyncio.wait_for(
                asyncio.wrap_future(ticket.answer), seconds or limits.seconds
            )
        except TimeoutError:
            raise ApiError(
                503, f"the answer took longer than {limits.seconds:g} seconds; send fewer rows."
            ) from None

    def _take(self) -> list[_Ticket]:
        """Wait for requests; those of the model whose turn it is. Empty: the pool is closed."""
        with self._changed:
            while not (batch := self._next_batch()) and not self._closed:
                self._changed.wait()
            if batch:
                self._running[batch[0].job.model.path] += 1
        return batch

    def _next_batch(self) -> list[_Ticket]:
        """Requests of the model that fewest workers are busy with; of equals, the longest ago."""
        while waiting := [path for path, queue in self._waiting.items() if queue]:
            path = min(waiting, key=self._running.__getitem__)
            queue = self._waiting.pop(path)
            if batch := _batch_from(queue):
                if queue:
                    self._waiting[path] = queue  # at the end: the others are first
                    self._changed.notify()
                return batch
        self._waiting.clear()
        return []

    def _serve(self) -> None:
        """Feed one worker until the pool is closed."""
        worker: _Worker | None = None
        while batch := self._take():
            worker = self._answer(batch, worker)
            with self._changed:
                self._running[batch[0].job.model.path] -= 1
        if worker is not None:
            worker.stop()

    def _answer(self, batch: list[_Ticket], worker: _Worker | None) -> _Worker | None:
        """Answer a batch; returns the worker for the next one, None if a new one is needed."""
        if worker is None or not worker.process.is_alive():
            self.restarts += worker is not None
            try:
                worker = _Worker(self.settings)
            except OSError as error:  # too many files or processes, or no memory
                return self._start_again(error, batch)
        try:
            answers = worker.ask([ticket.job for ticket in batch])
        except (TimeoutError, EOFError, OSError) as error:
            self.restarts += 1
            worker.stop()
            if isinstance(error, TimeoutError):
                self._settle(batch, [_TOO_LONG] * len(batch))
            else:
                self._again(batch)
            return None
        if self.on_batch is not None:
            self.on_batch(len(batch))
        self._settle(batch, answers)
        return worker

    def _start_again(self, error: OSError, batch: list[_Ticket]) -> _Worker | None:
        """Refuse the batch; then a worker, as soon as the system allows one.

        None if the pool is closed before.
        """
        print(f"bacoun: {CANNOT_START} {error}", file=sys.stderr, flush=True)
        worker, wait = None, _FIRST_WAIT
        with self._changed:
            self.n_unable += 1
        self._settle(batch, [_UNABLE] * len(batch))
        while worker is None:
            with self._changed:
                if self._changed.wait_for(lambda: self._closed, timeout=wait):
                    return None
            try:
                worker = _Worker(self.settings)
            except OSError:
                wait = min(2 * wait, _LONGEST_WAIT)
        with self._changed:
            self.n_unable -= 1
        print("bacoun: the process that scores was started.", file=sys.stderr, flush=True)
        return worker

    def _settle(self, batch: list[_Ticket], answers: list[Answer]) -> None:
        for ticket, answer in zip(batch, answers, strict=True):
            if not ticket.answer.cancelled():
                ticket.answer.set_result(answer)

    def _again(self, batch: list[_Ticket]) -> None:
        print("bacoun: a worker stopped; what it worked on is done again.", file=sys.stderr)
        given_up = [ticket for ticket in batch if ticket.attempts + 1 >= _ATTEMPTS]
        self._settle(given_up, [_STOPPED] * len(given_up))
        again = [ticket for ticket in batch if ticket.attempts + 1 < _ATTEMPTS]
        for ticket in again:
            ticket.attempts += 1
        if again:
            with self._changed:
                queue = self._waiting.setdefault(again[0].job.model.path, deque())
                queue.extendleft(reversed(again))
                self._changed.notify()


def _batch_from(queue: deque[_Ticket]) -> list[_Ticket]:
    """Take requests of one model that are answered together; what was tried before comes alone."""
    batch: list[_Ticket] = []
    n_bytes = 0
    while queue and len(batch) < _MAX_BATCH and n_bytes < _MAX_BATCH_BYTES:
        if batch and queue[0].attempts:  # it may have killed a worker
            break
        ticket = queue.popleft()
        if ticket.attempts:
            return [ticket]
        if ticket.answer.set_running_or_notify_cancel():  # otherwise whoever asked is gone
            batch.append(ticket)
            n_bytes += len(ticket.job.body)
    return batch


CANNOT_START = "a process that scores cannot be started; the server tries again."
_UNABLE = Answer.refusal(503, CANNOT_START)
_TOO_LONG = Answer.refusal(503, "the answer took too long; send fewer rows.")
_STOPPED = Answer.refusal(
    503, f"the process that scores stopped {_ATTEMPTS} times during this request; it is given up."
)


class _Worker:
    """One process and the pipe to it."""

    def __init__(self, settings: Settings) -> None:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        self.connection: Connection = here
        self.process: Any = context.Process(target=run, args=(there, settings), daemon=True)
        try:
            self.process.start()
        except OSError:
            here.close()
            raise
        finally:
            there.close()  # so that the end of the process is the end of the pipe
        self.seconds, self.is_new = settings.limits.seconds, True

    def ask(self, jobs: list[Job]) -> list[Answer]:
        """Answers of the worker; EOFError or OSError if it is gone."""
        self.connection.send(jobs)
        if not self.connection.poll(FIRST_SECONDS if self.is_new else self.seconds):
            raise TimeoutError
        self.is_new = False
        answers: list[Answer] = self.connection.recv()
        return answers

    def stop(self) -> None:
        """End the process."""
        self.connection.close()
        self.process.join(timeout=0.5)
        self.process.kill()
        self.process.join()

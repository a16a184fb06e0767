"""Pool: jobs -> answers, by worker processes that may die.

Requests that wait for the same model are sent to a worker together, and models take turns: however
many requests one of them has, another waits for at most one batch of each. A worker that dies is
replaced, and what it worked on is done again, one by one: scoring changes nothing, so that is safe.
A job during which workers died several times is refused.
"""

import asyncio
import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from bacoun.engine.processes import Child
from bacoun.server.jobs import Answer, Job
from bacoun.server.settings import Settings
from bacoun.web.errors import ApiError

_MAX_BATCH = 128
_MAX_BATCH_BYTES = 2_000_000
_ATTEMPTS = 3
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds until a worker that could not start is tried again
FIRST_SECONDS = 300.0  # a worker imports torch and loads the model before its first answer

CANNOT_START = "a process that scores cannot be started; the server tries again."
_UNABLE = Answer.refusal(503, CANNOT_START)
_TOO_LONG = Answer.refusal(503, "the answer took too long; send fewer rows.")
_STOPPED = Answer.refusal(
    503, f"the process that scores stopped {_ATTEMPTS} times during this request; it is given up."
)


@dataclass(eq=False)
class _Ticket:
    job: Job
    answer: asyncio.Future[Answer] = field(default_factory=asyncio.Future)
    attempts: int = 0


class Pool:
    """Worker processes, and the requests that wait for them; lives in one event loop.

    A worker calls `work` with its end of a pipe, where lists of jobs come and lists of answers go,
    and with the settings. `on_batch` is told how many requests are scored together.
    """

    def __init__(
        self,
        settings: Settings,
        work: Callable[..., None],
        on_batch: Callable[[int], None] = lambda n_requests: None,
    ) -> None:
        self.limits, self.on_batch = settings.limits, on_batch
        self.n_unable = 0  # workers that could not be started
        self._waiting: dict[str, deque[_Ticket]] = {}  # by model, the one whose turn it is first
        self._running: Counter[str] = Counter()  # batches of each model that workers have
        self._changed, self._closing = asyncio.Event(), asyncio.Event()
        self._workers = [Child(work, settings) for _ in range(settings.n_workers)]
        self._threads = ThreadPoolExecutor(settings.n_workers)  # which wait for answers
        self._feeding: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to answer."""
        self._feeding = [asyncio.create_task(self._feed(worker)) for worker in self._workers]

    async def close(self) -> None:
        """Let the workers finish what waits, then stop them."""
        self._closing.set()
        self._changed.set()
        _, busy = await asyncio.wait(self._feeding, timeout=self.limits.seconds)
        for task in busy:
            task.cancel()
        for worker in self._workers:
            worker.kill()

    @property
    def is_able(self) -> bool:
        """Whether there is a worker, or one that has not been needed yet."""
        return self.n_unable < len(self._workers)

    @property
    def n_waiting(self) -> int:
        """Number of requests that wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def n_restarts(self) -> int:
        """Number of workers that took the place of others."""
        return sum(max(worker.n_started - 1, 0) for worker in self._workers)

    async def ask(self, job: Job, seconds: float | None = None) -> Answer:
        """The answer to a job; refused if there are too many, or if it takes too long."""
        queue = self._waiting.setdefault(job.model.path, deque())
        if self._closing.is_set() or len(queue) >= self.limits.waiting:
            raise ApiError(503, "the server is busy; try again in a moment.")
        if not self.is_able:
            raise ApiError(503, CANNOT_START)
        ticket, seconds = _Ticket(job), seconds or self.limits.seconds
        queue.append(ticket)
        self._changed.set()
        try:
            return await asyncio.wait_for(ticket.answer, seconds)
        except TimeoutError:
            raise ApiError(
                503, f"the answer took longer than {seconds:g} seconds; send fewer rows."
            ) from None

    async def _feed(self, worker: Child) -> None:
        """Feed one worker until the pool is closed and nothing waits."""
        while (batch := self._next_batch()) or not self._closing.is_set():
            if batch:
                model = batch[0].job.model.path
                self._running[model] += 1
                await self._answer(batch, worker)
                self._running[model] -= 1
            else:
                self._changed.clear()
                await self._changed.wait()
        await self._in_thread(worker.stop)

    def _next_batch(self) -> list[_Ticket]:
        """Requests of the model that fewest workers are busy with; of equals, the longest ago."""
        while waiting := [path for path, queue in self._waiting.items() if queue]:
            path = min(waiting, key=self._running.__getitem__)
            queue = self._waiting.pop(path)
            batch = _batch_from(queue)
            if queue:
                self._waiting[path] = queue  # at the end: the others are first
            if batch:
                return batch
        self._waiting.clear()
        return []

    async def _answer(self, batch: list[_Ticket], worker: Child) -> None:
        try:
            await self._in_thread(worker.connect)
        except OSError as error:
            await self._start_later(worker, batch, error)
            return
        try:
            jobs = [ticket.job for ticket in batch]
            answers = await self._in_thread(self._ask_worker, worker, jobs)
        except TimeoutError:
            await self._in_thread(worker.stop)
            _settle(batch, [_TOO_LONG] * len(batch))
        except (EOFError, OSError):  # it died
            await self._in_thread(worker.stop)
            self._do_again(batch)
        else:
            self.on_batch(len(batch))
            _settle(batch, answers)

    def _ask_worker(self, worker: Child, jobs: list[Job]) -> list[Answer]:
        connection = worker.connect()
        connection.send(jobs)
        if not connection.poll(self.limits.seconds if worker.has_answered else FIRST_SECONDS):
            raise TimeoutError
        answers: list[Answer] = connection.recv()
        worker.has_answered = True
        return answers

    async def _in_thread(self, function: Callable[..., Any], *arguments: object) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    async def _start_later(self, worker: Child, batch: list[_Ticket], error: OSError) -> None:
        """Refuse a batch, then start the worker as soon as the system allows it."""
        print(f"bacoun: {CANNOT_START} {error}", file=sys.stderr, flush=True)
        self.n_unable += 1
        _settle(batch, [_UNABLE] * len(batch))
        wait = _FIRST_WAIT
        while not await self._closes_within(wait):
            try:
                await self._in_thread(worker.connect)
            except OSError:
                wait = min(2 * wait, _LONGEST_WAIT)
                continue
            self.n_unable -= 1
            print("bacoun: the process that scores was started.", file=sys.stderr, flush=True)
            return

    async def _closes_within(self, seconds: float) -> bool:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)
        return self._closing.is_set()

    def _do_again(self, batch: list[_Ticket]) -> None:
        print("bacoun: a worker stopped; what it worked on is done again.", file=sys.stderr)
        for ticket in batch:
            ticket.attempts += 1
        given_up = [ticket for ticket in batch if ticket.attempts >= _ATTEMPTS]
        _settle(given_up, [_STOPPED] * len(given_up))
        queue = self._waiting.setdefault(batch[0].job.model.path, deque())
        queue.extendleft(ticket for ticket in reversed(batch) if ticket not in given_up)


def _settle(batch: list[_Ticket], answers: Sequence[Answer]) -> None:
    for ticket, answer in zip(batch, answers, strict=True):
        if not ticket.answer.done():  # otherwise whoever asked is gone
            ticket.answer.set_result(answer)


def _batch_from(queue: deque[_Ticket]) -> list[_Ticket]:
    """Take requests of one model that are answered together; what was tried before comes alone."""
    batch: list[_Ticket] = []
    n_bytes = 0
    while queue and len(batch) < _MAX_BATCH and n_bytes < _MAX_BATCH_BYTES:
        if batch and (queue[0].attempts or batch[0].attempts):  # it may have killed a worker
            break
        ticket = queue.popleft()
        if not ticket.answer.done():
            batch.append(ticket)
            n_bytes += len(ticket.job.body)
    return batch

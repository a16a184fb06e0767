"""The process that scores: batches of jobs come through a pipe, answers go back."""

from __future__ import annotations

import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

from bacoun.server.jobs import Answer, Job
from bacoun.server.settings import Settings

_MEMORY_BYTES = 4_000_000_000  # beyond what the process has when it starts


def run(connection: Connection, settings: Settings) -> None:
    """The process: its models, signals and memory."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which then stops us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    from bacoun.server.scoring import Scorer

    _limit_memory()
    answer_all(connection, Scorer(settings.limits, settings.watch, settings.watch_inputs).answer)


def answer_all(connection: Connection, answer: Callable[[Sequence[Job]], list[Answer]]) -> None:
    """Answer batches until the other end is closed."""
    while True:
        try:
            jobs = connection.recv()
        except (EOFError, OSError):
            return
        connection.send(answer(jobs))


def _limit_memory() -> None:
    """A compressed body that grows without bound ends in a MemoryError, not in a dead machine."""
    status = Path("/proc/self/status")
    if not status.exists():  # not Linux
        return
    import resource  # which Windows does not have

    lines = status.read_text(encoding="ascii").splitlines()
    data = next(int(line.split()[1]) for line in lines if line.startswith("VmData:"))
    limit = 1024 * data + _MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))

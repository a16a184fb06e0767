"""The process that scores: batches of jobs come through a pipe, answers go back."""

from multiprocessing.connection import Connection
from pathlib import Path

from bacoun.engine.processes import messages
from bacoun.server.settings import Settings

_MEMORY_BYTES = 4_000_000_000  # beyond what the process has when it starts


def score_jobs(connection: Connection, settings: Settings) -> None:
    """Answer batches of jobs until the other end of the pipe is closed."""
    from bacoun.server.workers.batches import BatchScorer  # and with it torch

    _limit_memory()
    scorer = BatchScorer(settings)
    for jobs in messages(connection):
        connection.send(scorer.answer(jobs))


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

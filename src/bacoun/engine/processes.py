"""A function in a process of its own, with a pipe to it, started again if it died."""

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from threading import Lock
from typing import Any

_SECONDS_TO_END = 0.5  # once the pipe is closed; then the process is killed


class Child:
    """A process that answers through a pipe.

    It calls `function` with its end of the pipe, of which it reads the `messages`, and `arguments`.
    """

    def __init__(self, function: Callable[..., None], *arguments: Any) -> None:
        self._function, self._arguments = function, arguments
        self._process: Any = None
        self._connection: Connection | None = None
        self._lock = Lock()
        self.n_started = 0
        self.has_answered = False  # set by its owner; the first answer takes longer, by imports

    def connect(self) -> Connection:
        """The pipe to the process, which is started if there is none alive.

        Raises OSError if the system starts none: too many files or processes, or no memory.
        """
        with self._lock:
            if self._connection is None or not self._process.is_alive():
                self._end()
                self._connection = self._start()
            return self._connection

    def stop(self) -> None:
        """End the process."""
        with self._lock:
            self._end()

    def kill(self) -> None:
        """End the process at once; whoever waits at the pipe finds it closed."""
        if self._process is not None:
            self._process.kill()

    def _start(self) -> Connection:
        context = multiprocessing.get_context("spawn")
        here, there = context.Pipe()
        self._process = context.Process(
            target=_run, args=(there, self._function, self._arguments), daemon=True
        )
        try:
            self._process.start()
        except OSError:
            here.close()
            raise
        finally:
            there.close()  # so that the end of the process is the end of the pipe
        self.n_started, self.has_answered = self.n_started + 1, False
        return here

    def _end(self) -> None:
        if self._connection is not None:
            with suppress(OSError):
                self._connection.close()
            self._process.join(timeout=_SECONDS_TO_END)
            self._process.kill()
            self._process.join()
            self._connection = None


def _run(connection: Connection, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then stops us
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    function(connection, *arguments)


def messages(connection: Connection) -> Iterator[Any]:
    """What comes through a pipe, until its other end is closed."""
    with suppress(EOFError, OSError):
        while True:
            yield connection.recv()

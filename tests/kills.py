"""Kill by event: a process that kills itself when it is about to change a folder once more.

Between two changes a kill leaves the same files behind, so no other moment has to be tried.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.link"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC


def changes_of(folder: str | Path, *, kill_at: int | None = None) -> Callable[[], int]:
    """Count the changes of files in a folder from now on, and kill this process at one of them."""
    seen = 0

    def on_event(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal seen
        is_change = event in _CHANGES or (
            event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITING
        )
        if is_change and str(arguments[0]).startswith(str(folder)):
            seen += 1
            if seen == kill_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(on_event)
    return lambda: seen

"""A record of runs that grows by one entry at a time, so that an interrupted comparison resumes."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bacoun.files.atomic import atomic_write

Record = dict[str, Any]
Task = Callable[[], dict[str, Any]]


def resume(
    path: Path,
    tasks: Mapping[str, Task],
    header: Mapping[str, Any],
    *,
    on_run: Callable[[str, int, int], None] | None = None,
    catch: bool = False,
) -> Record:
    """Run the tasks that the record at `path` lacks, and save it after each; return it.

    A task returns the numbers of a run; `header` is what a new record says besides its "runs".
    `on_run` is called before each run with its name, the number of runs done and of all. With
    `catch`, an error is recorded as {"failed": its message}.
    """
    record: Record = json.loads(path.read_text()) if path.exists() else {**header, "runs": {}}
    missing = [name for name in tasks if name not in record["runs"]]
    for done, name in enumerate(missing, start=len(tasks) - len(missing)):
        if on_run is not None:
            on_run(name, done, len(tasks))
        started = time.perf_counter()
        try:
            numbers = tasks[name]()
        except Exception as error:  # whatever a rival raises, the others are still compared
            if not catch:
                raise
            numbers = {"failed": " ".join(f"{type(error).__name__}: {error}".split())[:300]}
        record["runs"][name] = numbers | {"seconds": round(time.perf_counter() - started, 1)}
        with atomic_write(path) as file:
            file.write(as_text(record).encode())
    return record


def as_text(record: Record) -> str:
    """The record as JSON with one line for each run, so that a new run is one new line."""
    lines = [f"{json.dumps(name)}: {json.dumps(run)}" for name, run in record["runs"].items()]
    runs = "{\n  " + ",\n  ".join(lines) + "\n }"
    parts = {name: json.dumps(value) for name, value in record.items()} | {"runs": runs}
    return "{\n " + ",\n ".join(f'"{name}": {text}' for name, text in parts.items()) + "\n}\n"

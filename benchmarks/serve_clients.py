"""Many clients at once: asyncio alone, so that they take little of the two cores."""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

N_CLIENTS = int(os.environ.get("BACOUN_SERVE_CLIENTS", 200))

Check = Callable[[bytes, int], bool]
"""Whether an answer is right, given the number of its request."""


class Client:
    """One connection that is kept alive."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def post(self, request: bytes) -> tuple[int, bytes]:
        """Status and body of the answer."""
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        (length,) = re.findall(rb"content-length: (\d+)", head.lower())
        return int(head.split()[1]), await self.reader.readexactly(int(length))


@asynccontextmanager
async def connected(address: str) -> AsyncIterator[Client]:
    url = urlsplit(address)
    reader, writer = await asyncio.open_connection(url.hostname, url.port)
    try:
        yield Client(reader, writer)
    finally:
        writer.close()


async def ask_until(
    address: str, requests: list[bytes], check: Check, is_over: Callable[[int], bool]
) -> dict[str, Any]:
    """Ask from many clients; counts what fails, what is wrong, and how long it takes."""
    seconds: list[float] = []
    failed = wrong = 0

    async def ask(client_number: int) -> None:
        nonlocal failed, wrong
        number = client_number
        async with connected(address) as client:
            while not is_over(len(seconds)):
                number = (number + 7) % len(requests)
                started = time.perf_counter()
                try:
                    status, body = await client.post(requests[number])
                except (OSError, asyncio.IncompleteReadError):
                    failed += 1
                    return
                seconds.append(time.perf_counter() - started)
                failed += status != 200
                wrong += status == 200 and not check(body, number)

    started = time.perf_counter()
    await asyncio.gather(*(ask(number) for number in range(N_CLIENTS)))
    elapsed = time.perf_counter() - started
    middle, most = np.quantile(seconds, [0.5, 0.99])
    return {
        "clients": N_CLIENTS,
        "elapsed": round(elapsed, 1),
        "requests": len(seconds),
        "failed": failed,
        "wrong": wrong,
        "requests_per_second": round(len(seconds) / elapsed, 1),
        "p50_milliseconds": round(1000 * float(middle), 1),
        "p99_milliseconds": round(1000 * float(most), 1),
    }


def for_seconds(seconds: float) -> Callable[[int], bool]:
    ends = time.perf_counter() + seconds
    return lambda _: time.perf_counter() > ends


def family(pid: int) -> list[int]:
    """A process and those that it started."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = [int(child) for task in tasks for child in task.read_text().split()]
    return [pid, *(each for child in children for each in family(child))]


def megabytes(pid: int) -> float:
    """Resident memory of a server and its workers."""
    pages = [int(Path(f"/proc/{each}/statm").read_text().split()[1]) for each in family(pid)]
    return sum(pages) * os.sysconf("SC_PAGE_SIZE") / 1e6

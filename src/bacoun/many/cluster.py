"""Where tasks run: in this process, or on a Dask cluster, which does all the scheduling."""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_FAN_IN = 32  # results that one task merges
_SECONDS_TO_ANSWER = 30


@dataclass(frozen=True)
class Engine:
    """Runs a function on many items and merges the results: here one by one, or on a cluster."""

    client: Any = None  # of Dask, connected to a scheduler with workers; None: this process

    @property
    def dashboard(self) -> str:
        """Address of a page that shows what is running; empty if there is none."""
        return str(getattr(self.client, "dashboard_link", "") or "")

    def run(
        self,
        function: Callable[[Item], Result],
        items: Sequence[Item],
        merge: Callable[[list[Result]], Result],
        on_done: Callable[[Item], None] = lambda item: None,
    ) -> Result:
        """Merge the results of `function` on each of at least one item.

        Workers need picklable functions; if one dies, an item is worked on again. `merge` is
        associative: from a list of results, in order, to one. `on_done` is called here.
        """
        if self.client is not None:
            return self._run_on_workers(function, items, merge, on_done)
        results: list[Result] = []
        for item in items:
            results.append(function(item))
            on_done(item)
            if len(results) == _FAN_IN:
                results = [merge(results)]
        return merge(results)

    def _run_on_workers(
        self, function: Any, items: Sequence[Item], merge: Any, on_done: Callable[[Item], None]
    ) -> Any:
        from distributed import as_completed

        # Not pure: a task that failed before is tried again, although it has the same arguments.
        name = getattr(function, "__name__", type(function).__name__)  # for the dashboard
        futures = self.client.map(function, items, key=name, pure=False)
        item_of = dict(zip(futures, items, strict=True))
        try:
            for future in as_completed(futures):
                _result(future)
                on_done(item_of[future])
            while len(futures) > 1:
                batches = [futures[i : i + _FAN_IN] for i in range(0, len(futures), _FAN_IN)]
                futures = [self.client.submit(merge, batch, pure=False) for batch in batches]
            return _result(futures[0])
        except BaseException:
            self.client.cancel(futures)  # so that an error does not wait for all other tasks
            raise


def _result(future: Any) -> Any:
    from distributed import KilledWorker

    try:
        return future.result()
    except KilledWorker as error:
        raise OSError(
            f"workers must survive a task; {error.allowed_failures + 1} died of the same one, "
            "often for lack of memory. Write smaller row groups, or give workers more memory."
        ) from None
    except CancelledError as error:
        raise OSError(
            f"the scheduler must stay up until all is done; it was lost: {error} Run the same "
            "command again: finished parts are kept."
        ) from None


@contextmanager
def open_engine(scheduler: str | None = None, workers: int | None = None) -> Iterator[Engine]:
    """Connect to a scheduler, or start workers on this machine; with neither, use this process.

    `scheduler` is the address of a running Dask scheduler, such as `tcp://10.0.0.1:8786`; `workers`
    is how many processes to start here, each with one thread.
    """
    if scheduler is None and workers is None:
        yield Engine()
        return
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise ImportError(
            "--scheduler and --workers need Dask, which is not installed. Run pip install "
            "'bacoun[cluster]', or leave them out."
        ) from None
    with ExitStack() as stack:
        if scheduler is None:
            started = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",  # any free port, for this machine alone
                silence_logs=logging.CRITICAL,  # a task that fails is reported once, by us
            )
            client = Client(stack.enter_context(started))
        else:
            client = _connected(Client, scheduler)
        yield Engine(stack.enter_context(client))


def _connected(connect: Callable[..., Any], scheduler: str) -> Any:
    try:
        client = connect(scheduler, timeout=_SECONDS_TO_ANSWER)
    except (OSError, ValueError) as error:
        reason = str(error).strip().splitlines()[0][:120].rstrip(".")
        raise OSError(
            f"--scheduler must be the address of a running Dask scheduler; '{scheduler}' did not "
            f"answer: {reason}. Start one with dask scheduler."
        ) from None
    try:
        client.wait_for_workers(1, timeout=_SECONDS_TO_ANSWER)
    except TimeoutError:
        client.close()
        raise OSError(
            f"the scheduler must have workers; '{scheduler}' has none. Start some with dask "
            f"worker {scheduler}."
        ) from None
    return client

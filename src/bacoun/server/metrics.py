"""Metrics for Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """Counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "bacoun_requests", "Requests", ["path", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "bacoun_request_seconds",
            "Time from the first byte of a request to the end of its answer",
            ["path"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self.rows = Counter("bacoun_rows", "Rows scored", ["model"], registry=self.registry)
        self.deferred = Counter(
            "bacoun_deferred_rows", "Rows deferred", ["model"], registry=self.registry
        )
        self.batch = Histogram(
            "bacoun_batch_requests",
            "Requests that were scored together",
            buckets=_SIZES,
            registry=self.registry,
        )
        self.active = Gauge(
            "bacoun_active_requests", "Requests that are being answered", registry=self.registry
        )
        self.waiting = Gauge(
            "bacoun_waiting_requests", "Requests that wait for a worker", registry=self.registry
        )
        self.restarts = Gauge(
            "bacoun_worker_restarts", "Workers that were replaced", registry=self.registry
        )

"""Metrics of the service and its process, in the text format that Prometheus reads."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4 as CONTENT_TYPE
from prometheus_client.metrics_core import Metric

__all__ = ["BUCKETS", "CONTENT_TYPE", "Metrics"]

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper bounds of the latency histogram, in seconds."""


class _Registry(CollectorRegistry):
    """A registry without the time series ``…_created``: the library switches them off for a whole process only."""

    def collect(self) -> Iterator[Metric]:
        for metric in super().collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class Metrics:
    """The metrics of one service since its start, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = _Registry()
        self._requests = Counter("starqe_requests", "Requests by route and status.", ("route", "status"), registry=self._registry)
        self._seconds = Histogram("starqe_request_seconds", "Duration of requests.", ("route",), registry=self._registry, buckets=BUCKETS)
        self._batches = Counter("starqe_batches", "Batches of queries that were answered together.", registry=self._registry)
        self._batched = Counter("starqe_batched_queries", "Queries in these batches.", registry=self._registry)
        self._slow = Counter("starqe_slow_queries", "Queries that went to the slow lane.", registry=self._registry)
        self._run = Gauge(
            "starqe_run_info", "The run that answers, by the beginning of its fingerprint.", ("run",), registry=self._registry
        )
        ProcessCollector(registry=self._registry)

    def set_run(self, fingerprint: str) -> None:
        """Sets the run that answers from now on."""
        self._run.clear()
        self._run.labels(fingerprint[:12]).set(1)

    def add_request(self, route: str, status: int, seconds: float) -> None:
        """Counts a request; only existing routes are named, so the number of series is bounded."""
        self._requests.labels(route, status).inc()
        self._seconds.labels(route).observe(seconds)

    def add_batch(self, queries: int) -> None:
        """Counts queries that were answered together."""
        self._batches.inc()
        self._batched.inc(queries)

    def add_slow(self) -> None:
        """Counts a query that goes to the slow lane."""
        self._slow.inc()

    def add_gauge(self, name: str, text: str, value: Callable[[], float]) -> None:
        """Adds a value that is looked up whenever the metrics are read."""
        Gauge(name, text, registry=self._registry).set_function(value)

    def value(self, name: str, **labels: str) -> float:
        """Returns the current value of one series; 0 if nothing was counted."""
        return self._registry.get_sample_value(name, labels) or 0.0

    def text(self) -> bytes:
        """Writes all metrics."""
        return generate_latest(self._registry)

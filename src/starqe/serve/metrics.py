"""Counters of the service, in the text format that Prometheus reads."""

from collections import Counter
from collections.abc import Iterable, Mapping

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The upper ends of the latency histogram, in seconds."""


class Metrics:
    """What has happened since the service started; touched by the event loop only."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.batches = 0
        self.batched_queries = 0
        self._seconds: Counter[str] = Counter()
        self._at_most: dict[str, list[int]] = {}

    def add_request(self, route: str, status: int, seconds: float) -> None:
        """Counts an answered request; routes are those that exist, so the number of series is bounded."""
        self.requests[route, status] += 1
        self._seconds[route] += seconds  # type: ignore[assignment]
        at_most = self._at_most.setdefault(route, [0] * len(BUCKETS))
        for place, end in enumerate(BUCKETS):
            at_most[place] += seconds <= end

    def add_batch(self, queries: int) -> None:
        """Counts queries that were answered together."""
        self.batches += 1
        self.batched_queries += queries

    def text(self, gauges: Mapping[str, tuple[str, int]]) -> str:
        """Writes all counters, and gauges (name -> help, value) of this moment."""
        lines = _head("starqe_requests_total", "counter", "Requests by route and status.")
        lines += [_line("starqe_requests_total", n, route=route, status=status) for (route, status), n in sorted(self.requests.items())]
        lines += _head("starqe_request_seconds", "histogram", "How long requests took.")
        for route in sorted(self._at_most):
            lines += self._histogram(route)
        counters = {
            "starqe_batches_total": ("Batches of queries that were answered together.", self.batches),
            "starqe_batched_queries_total": ("Queries in these batches.", self.batched_queries),
        }
        for kind, family in (("counter", counters), ("gauge", gauges)):
            for name, (text, value) in family.items():
                lines += [*_head(name, kind, text), _line(name, value)]
        return "\n".join(lines) + "\n"

    def _histogram(self, route: str) -> Iterable[str]:
        count = sum(n for (counted, _), n in self.requests.items() if counted == route)
        for end, n in zip((*BUCKETS, "+Inf"), (*self._at_most[route], count), strict=True):
            yield _line("starqe_request_seconds_bucket", n, route=route, le=end)
        yield _line("starqe_request_seconds_sum", self._seconds[route], route=route)
        yield _line("starqe_request_seconds_count", count, route=route)


def _head(name: str, kind: str, text: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _line(name: str, value: float, **labels: object) -> str:
    written = ",".join(f'{key}="{label}"' for key, label in labels.items())
    return f"{name}{{{written}}} {value}" if written else f"{name} {value}"

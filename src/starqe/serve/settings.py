"""Settings of the service: access, and limits on size and time."""

import os
import sys

import pydantic

from starqe.config import Section

MOST_HELPERS = 3
"""The largest number of helpers by default: with more, the thread that reads requests is the limit."""
LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class ServeSettings(Section):
    """Access control and limits of the service."""

    name: str = "graph"
    """Name of the graph on the page."""
    hosts: tuple[str, ...] = LOCAL_HOSTS
    """Host names that the service answers to (the Host header); ``*`` allows every name."""
    token: str | None = pydantic.Field(default=None, min_length=1, repr=False)
    """Token that clients have to send; without one, every client is answered."""
    cors: tuple[str, ...] = ()
    """Origins whose pages may ask from a browser; ``*`` allows every page."""
    log_queries: bool = False
    """Whether queries are logged."""

    body_bytes: int = pydantic.Field(default=65_536, ge=1_024)
    """Maximum size of a request body; a longer one gets a 413."""
    header_bytes: int = pydantic.Field(default=32_768, ge=1_024)
    """Maximum size of a request line with its headers; longer ones get a 431."""
    query_bytes: int = pydantic.Field(default=16_384, ge=1)
    """Maximum size of a query text; a longer one gets a 413."""
    atoms: int = pydantic.Field(default=12, ge=1)
    """Maximum number of triple patterns in a query."""
    top: int = pydantic.Field(default=1_000, ge=1)
    """Maximum number of predicted answers."""
    known: int = pydantic.Field(default=10_000, ge=1)
    """Maximum number of known answers; a note says when there are more."""
    top_supported: int = pydantic.Field(default=50, ge=1)
    """Maximum number of predicted answers where SELECT has further variables: each answer is explained for them."""
    known_supported: int = pydantic.Field(default=1_000, ge=1)
    """Maximum number of known answers where SELECT has further variables."""

    batch: int = pydantic.Field(default=32, ge=1)
    """Maximum number of queries that are answered together."""
    helpers: int | None = pydantic.Field(default=None, ge=0)
    """Number of processes that answer cheap queries while the service itself answers others; by default, one less than the cores that
    the service may use, but at most 3."""
    waiting: int = pydantic.Field(default=64, ge=1)
    """Maximum number of queries that wait; the next one is refused with 503."""
    quick_seconds: float = pydantic.Field(default=0.05, gt=0)
    """How long a query may delay others (or eight times the usual time, if that is more) before it moves to the slow lane."""
    slow_bytes: int = pydantic.Field(default=448 << 20, ge=1 << 20)
    """Maximum memory that a process of the slow or the middle lane may take beyond what it shares with the service."""
    slow_waiting: int = pydantic.Field(default=32, ge=0)
    """Maximum number of queries that wait in the slow lane; the next one is refused with 503."""
    requests: int = pydantic.Field(default=128, ge=1)
    """Maximum number of concurrent requests; the next one is refused with 503."""
    connections: int = pydantic.Field(default=512, ge=1)
    """Maximum number of open connections; on the next ones only /health and /metrics are answered, and then none at all."""
    seconds: float = pydantic.Field(default=10.0, gt=0)
    """Time limit of a query, waiting included; then it is refused with 503."""
    read_seconds: float = pydantic.Field(default=10.0, gt=0)
    """Time limit for sending headers, and again for the body; then the connection is closed, or gets a 408."""
    write_seconds: float = pydantic.Field(default=30.0, gt=0)
    """How long a client may take to read a response; then the connection is closed."""
    unsent_bytes: int = pydantic.Field(default=1 << 26, ge=1)
    """Maximum total size of the responses that clients have not read; beyond it, the connection that waits the longest is closed."""
    stop_seconds: float = pydantic.Field(default=10.0, gt=0)
    """Time limit for ending after SIGTERM or SIGINT."""
    idle_seconds: int = pydantic.Field(default=75, ge=1)
    """How long a connection stays open between two requests, unless another client needs its place. It should be longer than clients and
    proxies keep theirs (nginx: 60): a request that is sent while the service closes the connection is lost."""
    retry_seconds: int = pydantic.Field(default=1, ge=1)
    """Value of the header Retry-After of a 503."""

    @property
    def helping(self) -> int:
        """The number of helpers."""
        if self.helpers is not None:
            return self.helpers
        cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else 1
        return min(cores - 1, MOST_HELPERS)

"""What the service allows: who may ask, how much at once, and for how long."""

import pydantic

from starqe.config import Section

LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")


class ServeSettings(Section):
    """The limits of the service, and who may ask."""

    name: str = "graph"
    """What the graph is called on the page."""
    hosts: tuple[str, ...] = LOCAL_HOSTS
    """The names by which the service may be called (the Host header); ``*`` allows every name."""
    token: str | None = pydantic.Field(default=None, min_length=1, repr=False)
    """What a client has to know to be answered; without one everybody is answered who can reach the service."""
    cors: tuple[str, ...] = ()
    """The origins whose pages may ask from a browser; ``*`` allows every page."""
    log_queries: bool = False
    """Whether the log says what was asked."""

    body_bytes: int = pydantic.Field(default=65_536, ge=1_024)
    """The longest request body, and the longest line and headers of a request."""
    atoms: int = pydantic.Field(default=12, ge=1)
    """How many triple patterns a query may have."""
    top: int = pydantic.Field(default=1_000, ge=1)
    """How many predicted answers there are at most."""
    known: int = pydantic.Field(default=10_000, ge=1)
    """How many known answers there are at most; a note says when there are more."""
    top_supported: int = pydantic.Field(default=50, ge=1)
    """How many predicted answers there are at most where SELECT has further variables: each answer is explained for them."""
    known_supported: int = pydantic.Field(default=1_000, ge=1)
    """How many known answers there are at most where SELECT has further variables."""

    batch: int = pydantic.Field(default=32, ge=1)
    """How many waiting queries are answered together."""
    waiting: int = pydantic.Field(default=64, ge=1)
    """How many queries may wait; the next one is refused with 503."""
    requests: int = pydantic.Field(default=128, ge=1)
    """How many requests are worked on at the same time; the next one is refused with 503."""
    connections: int = pydantic.Field(default=512, ge=1)
    """How many connections may be open."""
    seconds: float = pydantic.Field(default=10.0, gt=0)
    """How long a query may take, waiting included; then it is answered with 503."""
    read_seconds: float = pydantic.Field(default=10.0, gt=0)
    """How long a client may take to send its headers, and again for its body; then 408, or the connection is closed."""
    idle_seconds: int = pydantic.Field(default=5, ge=1)
    """How long a connection stays open between two requests."""
    retry_seconds: int = pydantic.Field(default=1, ge=1)
    """When a client that got a 503 should try again (the header Retry-After)."""

"""The service: HTTP, the SPARQL protocol, and the page."""

from starqe.serve.app import create_app
from starqe.serve.settings import ServeSettings

__all__ = ["ServeSettings", "create_app"]

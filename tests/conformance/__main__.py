"""Writes docs/conformance.md: ``python -m tests.conformance``."""

from starqe.kg import embedded_graph
from tests.conformance.manifest import folders
from tests.conformance.page import PAGE, write_page
from tests.conformance.services import untrained
from tests.conformance.suites import Suites
from tests.serve.served import served

if __name__ == "__main__":
    with served(untrained(embedded_graph()), seconds=300.0) as address, Suites(address) as suites:
        PAGE.write_text(write_page({folder: suites.outcomes(folder) for folder in folders()}), encoding="utf-8")

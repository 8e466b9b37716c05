"""All suites with what they need: the data in stores, services over it, and the address of a running service."""

from types import TracebackType

from tests.conformance.data import Stores
from tests.conformance.manifest import W3cTest, tests_of
from tests.conformance.outcome import Outcome
from tests.conformance.protocol_suite import run_protocol
from tests.conformance.rdf_suite import run_rdf
from tests.conformance.services import Services
from tests.conformance.sparql_suite import run_sparql


class Suites:
    """Runs the tests of a folder, each once."""

    def __init__(self, address: str) -> None:
        self._address, self._stores, self._services = address, Stores(), Services()
        self._outcomes: dict[str, list[tuple[W3cTest, Outcome]]] = {}

    def __enter__(self) -> "Suites":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stores.close()
        self._services.close()

    def outcomes(self, folder: str) -> list[tuple[W3cTest, Outcome]]:
        """Returns the tests of a folder with what became of them."""
        if folder not in self._outcomes:
            self._outcomes[folder] = [(test, self._run(test)) for test in tests_of(folder)]
        return self._outcomes[folder]

    def _run(self, test: W3cTest) -> Outcome:
        if test.kind == "ProtocolTest":
            return run_protocol(test, self._address)
        if test.manifest.folder.startswith("rdf/"):
            return run_rdf(test, self._stores)
        return run_sparql(test, self._stores, self._services)

"""The data of the suites, in the store of known facts that answers any SPARQL: each file is a named graph of one store."""

import contextlib
import tempfile
from collections.abc import Iterable
from pathlib import Path

from pyoxigraph import BlankNode, NamedNode, Quad, RdfFormat, Triple, serialize

from starqe.kg.rdf.parse import parse_rdf
from starqe.kg.reading.report import Report
from starqe.queries.store.known_store import Dataset, KnownStore
from tests.conformance.manifest import BASE, QT, Node, W3cTest, file_of, folders, tests_of
from tests.conformance.results import Term

SYNTAX = {
    ".ttl": RdfFormat.TURTLE,
    ".trig": RdfFormat.TRIG,
    ".nt": RdfFormat.N_TRIPLES,
    ".nq": RdfFormat.N_QUADS,
    ".rdf": RdfFormat.RDF_XML,
}
EMPTY = f"{BASE}empty"


def quads_of(file: Node) -> list[Quad]:
    """Reads a file of RDF with starqe's reader.

    Raises:
        InputError: It is malformed.
    """
    path = file_of(file)
    with path.open("rb") as stream:
        return list(parse_rdf(stream, path.name, SYNTAX[path.suffix], Report(), base=file.value)[0])


class Stores:
    """Answers queries over the data of any test; close it at the end."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._place = Path(self._stack.enter_context(tempfile.TemporaryDirectory()))
        self._single: KnownStore | None = None
        self._several: dict[Node, tuple[KnownStore, Dataset]] = {}

    def close(self) -> None:
        """Ends all stores."""
        self._stack.close()

    def of(self, test: W3cTest) -> tuple[KnownStore, Dataset]:
        """Returns the store that holds the data of a test, and the graphs that its query sees."""
        default, named = data_of(test)
        for file in default:
            if file_of(file).suffix in (".trig", ".nq"):
                return self._with_graphs(file)
        # A store without the graph that is named has an empty one.
        return self._of_all(), Dataset(tuple(file.value for file in default) or (EMPTY,), tuple(file.value for file in named))

    def _of_all(self) -> KnownStore:
        """Returns the store with every file that is one graph. Their names differ, so that they can share a process."""
        if self._single is None:
            tests = [test for folder in folders() if folder.startswith(("sparql", "rdf/rdf12/rdf-semantics")) for test in tests_of(folder)]
            files = {file for test in tests for files in data_of(test) for file in files}
            graphs = [file for file in files if file_of(file).suffix in (".ttl", ".nt", ".rdf")]
            quads = (
                Quad(_apart(q.subject, number), q.predicate, _apart(q.object, number), file)  # type: ignore[arg-type]
                for number, file in enumerate(sorted(graphs, key=str))
                for q in quads_of(file)
            )
            self._single = self._loaded(quads, "all.nq")
        return self._single

    def _with_graphs(self, file: Node) -> tuple[KnownStore, Dataset]:
        """Returns a store of its own for a file with named graphs: other files use the same names."""
        if file not in self._several:
            quads = quads_of(file)
            named = {quad.graph_name.value for quad in quads if isinstance(quad.graph_name, NamedNode)}
            store = self._loaded(quads, f"{len(self._several)}.nq")
            self._several[file] = store, Dataset((), tuple(sorted(named)))
        return self._several[file]

    def _loaded(self, quads: Iterable[Quad], name: str) -> KnownStore:
        serialize(quads, str(self._place / name), format=RdfFormat.N_QUADS)
        return self._stack.enter_context(KnownStore(self._place / name))


def data_of(test: W3cTest) -> tuple[list[Node], list[Node]]:
    """Returns the files of a test's default graph, and those of its named graphs."""
    if test.kind.endswith("EntailmentTest"):
        return [test.action], []
    if not isinstance(test.action, BlankNode):
        return [], []
    return test.manifest.values(test.action, QT + "data"), test.manifest.values(test.action, QT + "graphData")


def _apart(term: Term, number: int) -> Term:
    """Names blank nodes by the file they stand in."""
    match term:
        case BlankNode():
            return BlankNode(f"f{number}x{term.value}")
        case Triple():
            return Triple(*(_apart(part, number) for part in (term.subject, term.predicate, term.object)))  # type: ignore[arg-type]
    return term

"""The tests of RDF 1.2, run with starqe's readers and writers.

Syntax tests pass if the reader accepts or rejects the file as the manifest says. Evaluation tests pass if its quads are those of
the expected file, and if the importer makes the same statements from both. Canonical N-Triples and N-Quads pass if the writer
of ``/sparql`` gives exactly the expected bytes. Simple entailment is asked as a query of the store of known facts.
"""

import tempfile
from pathlib import Path

from pyoxigraph import BlankNode, Dataset, NamedNode, Quad, RdfFormat, Triple, parse

from starqe.errors import InputError
from starqe.kg import export_graph, import_graph
from starqe.serve.results import write_graph
from tests.conformance.data import SYNTAX, Stores, quads_of
from tests.conformance.manifest import MF, Node, W3cTest, file_of
from tests.conformance.outcome import Outcome, failed, passed, refused
from tests.conformance.results import Term, canonical

NO_ENTAILMENT = "entailment by RDF, RDFS or datatypes: facts are what the graph states (not run)"


def run_rdf(test: W3cTest, stores: Stores) -> Outcome:
    """Runs one test of RDF 1.2."""
    if test.kind.endswith("EntailmentTest"):
        return _entailment(test, stores)
    if "Negative" in test.kind:
        return _rejected(test)
    try:
        quads = quads_of(test.action)
    except InputError as error:
        return failed(f"rejected: {error}")
    if test.kind.endswith("C14N"):
        return _written(test, quads)
    return _evaluated(test, quads) if test.kind.endswith("Eval") else passed


def _rejected(test: W3cTest) -> Outcome:
    try:
        quads_of(test.action)
    except InputError:
        return passed
    return failed("accepted, and must be rejected")


def _written(test: W3cTest, quads: list[Quad]) -> Outcome:
    """Writes the triples as ``/sparql`` does: results have no named graphs, so those are left out of the expected lines."""
    assert isinstance(test.result, NamedNode)
    expected = file_of(test.result).read_bytes()
    for name in {str(quad.graph_name) for quad in quads if isinstance(quad.graph_name, NamedNode)}:
        expected = expected.replace(f" {name} .\n".encode(), b" .\n")
    found = write_graph([f"{quad.triple} ." for quad in quads], SYNTAX[file_of(test.action).suffix])
    same = sorted(found.splitlines(keepends=True)) == sorted(expected.splitlines(keepends=True))
    return passed if same else failed(f"wrote {found!r}, expected {expected!r}")


def _evaluated(test: W3cTest, quads: list[Quad]) -> Outcome:
    assert isinstance(test.result, NamedNode)
    expected_file = file_of(test.result)
    expected = parse(path=str(expected_file), format=SYNTAX[expected_file.suffix])
    if canonical(quads) != canonical(expected):
        return failed("other quads than the expected ones")
    return (
        passed
        if _imported(file_of(test.action)) == _imported(expected_file)
        else failed("other statements than those of the expected file")
    )


def _imported(path: Path) -> Dataset | str:
    """Returns the statements that the importer makes of a file, as its export writes them, or why there are none."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            graph, _ = import_graph(path)
        except InputError as error:
            return str(error).replace(str(path), "").split("found none")[0]
        (export,) = export_graph(graph, Path(folder) / "graph.nq")
        return canonical(parse(path=str(export), format=RdfFormat.N_QUADS))


def _entailment(test: W3cTest, stores: Stores) -> Outcome:
    """Asks whether some binding of the blank nodes of the expected graph makes it a part of the given one."""
    recognized = list(test.manifest.items(test.manifest.value(test.node, MF + "recognizedDatatypes")))
    if test.setting("entailmentRegime") != "simple" or recognized:
        return refused(NO_ENTAILMENT)
    assert isinstance(test.result, NamedNode)
    pattern = " . ".join(" ".join(map(_pattern, (q.subject, q.predicate, q.object))) for q in quads_of(test.result))
    store, dataset = stores.of(test)
    found = store.query(f"ASK {{ {pattern} }}", dataset=dataset)
    return passed if found is test.kind.startswith("Positive") else failed(f"entailed: {found}")


def _pattern(term: Term | Node) -> str:
    match term:
        case BlankNode():
            return f"?b{term.value}"
        case Triple():
            return f"<<( {' '.join(map(_pattern, (term.subject, term.predicate, term.object)))} )>>"
    return str(term)

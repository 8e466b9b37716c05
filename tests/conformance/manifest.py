"""The W3C's manifests: which tests there are, what each reads, and what it expects."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, Store, parse

from tests.places import DATA

W3C = DATA / "w3c"
BASE = "https://w3c.github.io/rdf-tests/"
"""The address of the suites: what is read from a file has its address there as base."""
MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"
QT = "http://www.w3.org/2001/sw/DataAccess/tests/test-query#"
UT = "http://www.w3.org/2009/sparql/tests/test-update#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"

Node = NamedNode | BlankNode | Literal


@dataclass(frozen=True)
class Manifest:
    """The triples of one manifest."""

    folder: str
    """The folder below the suites, such as ``sparql/sparql11/bind``."""
    store: Store

    def value(self, node: Node, predicate: str) -> Node | None:
        """Returns the object of the first triple with this subject and predicate."""
        return next(iter(self.values(node, predicate)), None)

    def values(self, node: Node, predicate: str) -> list[Node]:
        """Returns the objects of all triples with this subject and predicate."""
        assert not isinstance(node, Literal)
        return [quad.object for quad in self.store.quads_for_pattern(node, NamedNode(predicate), None)]  # type: ignore[misc]

    def items(self, node: Node | None) -> Iterator[Node]:
        """Yields the items of a collection."""
        while node is not None and node != NamedNode(RDF + "nil"):
            first = self.value(node, RDF + "first")
            assert first is not None
            yield first
            node = self.value(node, RDF + "rest")


@dataclass(frozen=True)
class W3cTest:
    """One entry of a manifest."""

    manifest: Manifest
    node: Node
    kind: str
    """Its type without the namespace, such as ``QueryEvaluationTest``."""

    @property
    def name(self) -> str:
        """The last part of its IRI, which is unique in its manifest."""
        assert not isinstance(self.node, Literal)
        return self.node.value.rpartition("#")[2]

    def __str__(self) -> str:
        return f"{self.manifest.folder}#{self.name}"

    @property
    def action(self) -> Node:
        """What is done: a file, or a node that names several."""
        found = self.manifest.value(self.node, MF + "action")
        assert found is not None
        return found

    @property
    def result(self) -> Node | None:
        """What is expected: a file, a node that names several, or a boolean."""
        return self.manifest.value(self.node, MF + "result")

    @property
    def query(self) -> NamedNode:
        """The file of the query."""
        found = self.action if isinstance(self.action, NamedNode) else self.manifest.value(self.action, QT + "query")
        assert isinstance(found, NamedNode)
        return found

    def setting(self, name: str) -> str:
        """Returns the text of another property of the manifest's vocabulary, or nothing."""
        found = self.manifest.value(self.node, MF + name)
        return "" if found is None else found.value


def file_of(iri: Node) -> Path:
    """Returns the file that an IRI of a manifest names."""
    assert isinstance(iri, NamedNode), iri
    return W3C / iri.value.removeprefix(BASE)


def folders() -> list[str]:
    """Returns the folders that have tests, or nothing where the suites are not there."""
    paths = sorted(W3C.glob("**/manifest.ttl"))
    return [path.parent.relative_to(W3C).as_posix() for path in paths if "mf:entries" in path.read_text(encoding="utf-8")]


def tests_of(folder: str) -> list[W3cTest]:
    """Returns the tests of a folder, in the order of its manifest."""
    path, store = W3C / folder / "manifest.ttl", Store()
    store.extend(parse(path=str(path), format=RdfFormat.TURTLE, base_iri=f"{BASE}{folder}/manifest.ttl"))
    manifest = Manifest(folder, store)
    (entries,) = [quad.object for quad in store.quads_for_pattern(None, NamedNode(MF + "entries"), None)]
    tests = []
    for node in manifest.items(entries):  # type: ignore[arg-type]
        (kind,) = manifest.values(node, RDF + "type")
        tests.append(W3cTest(manifest, node, kind.value.rpartition("#")[2]))
    return tests

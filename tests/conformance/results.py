"""Results of queries, expected and ours, in a form that can be compared: bags of rows and graphs, blank nodes up to their names.

The readers of JSON, XML, CSV and TSV are the tests' own: what starqe writes is not read by what wrote it.
"""

import csv
import io
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pyoxigraph import (
    BaseDirection,
    BlankNode,
    CanonicalizationAlgorithm,
    Dataset,
    Literal,
    NamedNode,
    Quad,
    RdfFormat,
    Triple,
    parse,
)

Term = NamedNode | BlankNode | Literal | Triple
Row = Mapping[str, Term]
RS = "http://www.w3.org/2001/sw/DataAccess/tests/result-set#"
SRX = "{http://www.w3.org/2005/sparql-results#}"
XML_LANG = "{http://www.w3.org/XML/1998/namespace}lang"
ITS_DIR = "{http://www.w3.org/2005/11/its}dir"
XSD = "http://www.w3.org/2001/XMLSchema#"
TURTLE_NUMBER = re.compile(r"[+-]?(\d+|\d*\.\d+|(\d+\.\d*|\.?\d+)[eE][+-]?\d+)")
RDF_FILES = {".ttl": RdfFormat.TURTLE, ".nt": RdfFormat.N_TRIPLES, ".rdf": RdfFormat.RDF_XML}


@dataclass(frozen=True)
class Table:
    """The result of SELECT."""

    variables: tuple[str, ...]
    rows: tuple[Row, ...]

    def same_rows(self, other: "Table") -> bool:
        """Whether both have the same variables and, in any order, the same rows, each as often."""
        if set(self.variables) != set(other.variables) or len(self.rows) != len(other.rows):
            return False
        if any(isinstance(term, BlankNode | Triple) for row in self.rows for term in row.values()):
            return canonical(self.quads()) == canonical(other.quads())
        return self.bag() == other.bag()

    def bag(self) -> Counter[frozenset[tuple[str, str]]]:
        """The rows and how often each occurs."""
        return Counter(frozenset((name, str(by_value(term))) for name, term in row.items()) for row in self.rows)

    def sequence(self) -> list[dict[str, str]]:
        """The rows in their order, without the names of blank nodes."""
        return [{name: re.sub(r"_:\w+", "_:", str(by_value(term))) for name, term in row.items()} for row in self.rows]

    def quads(self) -> list[Quad]:
        """The rows as a graph: a blank node for each row."""
        quads = []
        for number, row in enumerate(self.rows):
            node = BlankNode(f"row{number}")
            quads.append(Quad(node, NamedNode("urn:is"), NamedNode("urn:row")))
            quads += [Quad(node, NamedNode(f"urn:{name}"), by_value(term)) for name, term in row.items()]
        return quads


def by_value(term: Term) -> Term:
    """Writes a number in one way: a store may keep 1.0 as 1, which is the same value of the same type."""
    match term:
        case Literal() if term.datatype.value.removeprefix(XSD) in ("decimal", "double", "integer"):
            return Literal(repr(float(term.value)), datatype=term.datatype)
        case Triple():
            return Triple(by_value(term.subject), term.predicate, by_value(term.object))  # type: ignore[arg-type]
    return term


def canonical(quads: Iterable[Quad]) -> Dataset:
    """Returns quads with blank nodes named by what is said of them, so that isomorphic graphs are equal."""
    dataset = Dataset(quads)
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return dataset


def read_table(content: bytes, suffix: str, base: str = "") -> Table | bool:
    """Reads the result of SELECT or ASK from the content of a file."""
    match suffix:
        case ".srj":
            return _of_json(json.loads(content))
        case ".srx":
            return _of_xml(ElementTree.fromstring(content))
        case ".csv":
            header, *lines = csv.reader(io.StringIO(content.decode(), newline=""))
            return _of_cells(header, lines, _csv_term)
        case ".tsv":
            header, *lines = (line.split("\t") for line in content.decode().removesuffix("\n").split("\n"))
            return _of_cells([name.removeprefix("?") for name in header], lines, _turtle_term)
    return _of_rdf(list(parse(content, format=RDF_FILES[suffix], base_iri=base)))


def read_graph(path: Path, base: str) -> list[Quad]:
    """Reads a graph that is an expected result."""
    return list(parse(path=str(path), format=RDF_FILES[path.suffix], base_iri=base))


def json_term(term: Mapping[str, Any]) -> Term:
    """Reads a term of SPARQL results in JSON."""
    value = term["value"]
    match term["type"]:
        case "uri":
            return NamedNode(value)
        case "bnode":
            return BlankNode(value)
        case "triple":
            return Triple(*(json_term(value[part]) for part in ("subject", "predicate", "object")))  # type: ignore[arg-type]
    return _literal(value, term.get("datatype"), term.get("xml:lang"), term.get("its:dir"))


def _literal(value: str, datatype: str | None, language: str | None, direction: str | None) -> Literal:
    if language is None:
        return Literal(value, datatype=NamedNode(datatype or XSD + "string"))
    return Literal(value, language=language, direction=BaseDirection(direction) if direction else None)


def _of_json(content: Mapping[str, Any]) -> Table | bool:
    if "boolean" in content:
        return bool(content["boolean"])
    rows = [{name: json_term(term) for name, term in row.items()} for row in content["results"]["bindings"]]
    return Table(tuple(content["head"].get("vars", ())), tuple(rows))


def _of_xml(root: ElementTree.Element) -> Table | bool:
    if (boolean := root.find(SRX + "boolean")) is not None:
        return (boolean.text or "").strip() == "true"
    variables = tuple(node.attrib["name"] for node in root.iter(SRX + "variable"))
    rows = [{node.attrib["name"]: _xml_term(node[0]) for node in row.iter(SRX + "binding")} for row in root.iter(SRX + "result")]
    return Table(variables, tuple(rows))


def _xml_term(node: ElementTree.Element) -> Term:
    text = node.text or ""
    match node.tag.removeprefix(SRX):
        case "uri":
            return NamedNode(text)
        case "bnode":
            return BlankNode(text)
        case "triple":
            return Triple(*(_xml_term(part[0]) for part in node))  # type: ignore[arg-type]
    return _literal(text, node.get("datatype"), node.get(XML_LANG), node.get(ITS_DIR))


def _of_cells(header: list[str], lines: Iterable[list[str]], read: Any) -> Table:
    rows = [{name: read(cell) for name, cell in zip(header, line, strict=True) if cell} for line in lines if line]
    return Table(tuple(header), tuple(rows))


def _csv_term(cell: str) -> Term:
    if cell.startswith("_:"):
        return BlankNode(cell[2:])
    return Literal(cell, datatype=NamedNode(XSD + "double")) if TURTLE_NUMBER.fullmatch(cell) else Literal(cell)


def _turtle_term(cell: str) -> Term:
    if TURTLE_NUMBER.fullmatch(cell) and (cell.startswith(".") or cell.endswith(".")):
        raise ValueError(f"no number of Turtle: {cell}")
    (quad,) = parse(f"<urn:s> <urn:p> {cell} .", format=RdfFormat.TURTLE)
    return quad.object


def _of_rdf(quads: list[Quad]) -> Table | bool:
    """Reads rows that are described in RDF."""

    def objects(subject: object, name: str) -> list[Any]:
        return [quad.object for quad in quads if quad.subject == subject and quad.predicate.value == RS + name]

    (root,) = {quad.subject for quad in quads if quad.predicate.value in (RS + "resultVariable", RS + "boolean")}
    if truths := objects(root, "boolean"):
        return truths[0].value == "true"
    solutions = sorted(objects(root, "solution"), key=lambda node: [int(index.value) for index in objects(node, "index")])
    rows = [
        {objects(binding, "variable")[0].value: objects(binding, "value")[0] for binding in objects(node, "binding")} for node in solutions
    ]
    return Table(tuple(name.value for name in objects(root, "resultVariable")), tuple(rows))

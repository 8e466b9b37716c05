"""GraphML: nodes and edges in XML, with declared keys for their properties.

The label of a node and the type of an edge are the property ``labelV`` and ``labelE`` (TinkerPop), the attribute ``labels`` and
``label`` (Neo4j), or a property ``label`` of the edge; an edge without any has the relation ``edge``.

An export has one file per split. Qualifiers are properties whose name begins with ``->``, since their values are nodes: separated by ``;``,
with ``;`` and ``%`` in percent-encoding. A node such as ``"1949-12-25"^^xsd:date`` is a literal.
"""

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO
from urllib.parse import unquote
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from starqe.errors import InputError
from starqe.folders import check_only, new_folder
from starqe.kg.formats.property_graph import REFERENCE, PropertyGraph, identifier, typed
from starqe.kg.formats.statements import LABELS, label_lines, written_fields
from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.literal import Literal, read_written
from starqe.kg.reading.files import open_guarded
from starqe.kg.reading.import_task import ImportTask
from starqe.kg.statement import SPLITS

MAX_LINE = 64 * 2**20
BLOCK = 2**20
"""Number of bytes parsed at a time. The parser looks at an unfinished tag again with every block, so small ones take long."""
MAX_DEFAULTS = 100
"""The maximum number of properties with defaults: every node or edge has them, so that a small file could make a huge graph."""
KINDS = ("node", "edge", "hyperedge")
NODE_LABELS = ("labelV", "labels")
EDGE_TYPES = ("labelE", "label", "type")
EDGE = "edge"
"""The relation of edges without a type."""

_NO_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def is_graphml(first: bytes) -> bool:
    """Returns whether a file that begins with these bytes is GraphML."""
    return b"<graphml" in first


@dataclass
class _Key:
    """A declared property."""

    name: str
    type: str = "string"
    of: str = "all"
    """The elements that have it: node, edge, or all."""


@dataclass
class _Element:
    """A node, edge or hyperedge, with the texts of its data."""

    kind: str
    line: int
    attributes: Mapping[str, str]
    data: list[tuple[str, str]] = field(default_factory=list)


class _Parser:
    """Parses a document block by block, and collects its nodes and edges."""

    def __init__(self) -> None:
        self.keys: dict[str, _Key] = {}
        self._defaults: dict[str, str] = {}
        self.finished: list[_Element] = []
        self.drawings = 0
        """The number of data with elements instead of text, as yEd writes them."""
        self._open: list[_Element] = []
        self._path: list[str] = []
        self._data_at: int | None = None  # the depth of the data that is open
        self._key, self._text, self._is_text = "", [""], True
        self._parser = expat.ParserCreate(namespace_separator="}")
        self._parser.buffer_text = True
        self._parser.StartElementHandler = self._start
        self._parser.EndElementHandler = self._end
        self._parser.CharacterDataHandler = lambda text: self._text.append(text)

    def feed(self, block: bytes) -> None:
        """Parses the next block; an empty one is the end.

        Raises:
            expat.ExpatError: The document is not XML.
            ValueError: Too many properties have defaults.
        """
        self._parser.Parse(block, not block)

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        tag = name.rpartition("}")[2]
        if self._data_at is not None:
            self._is_text = False
        elif tag == "key":
            self._key = attributes.get("id", "")
            name = attributes.get("attr.name", self._key)
            self.keys[self._key] = _Key(name, attributes.get("attr.type", "string"), attributes.get("for", "all"))
        elif tag in KINDS:
            self._open.append(_Element(tag, self._parser.CurrentLineNumber, attributes))
        elif tag == "data":
            self._key, self._is_text, self._data_at = attributes.get("key", ""), True, len(self._path)
        self._path.append(tag)
        self._text.clear()

    def _end(self, _name: str) -> None:
        tag = self._path.pop()
        if self._data_at is not None and self._data_at < len(self._path):
            return
        self._data_at, text = None, "".join(self._text)
        if tag == "default" and self._path[-1:] == ["key"]:
            self._defaults[self._key] = text
            if len(self._defaults) > MAX_DEFAULTS:
                raise ValueError(f"at most {MAX_DEFAULTS} properties have defaults, found more")
        elif tag == "data" and self._open and self._path[-1] in KINDS:
            if self._is_text:
                self._open[-1].data.append((self._key, text))
            else:
                self.drawings += 1
        elif tag in KINDS:
            self.finished.append(self._open.pop())

    def properties(self, element: _Element) -> list[tuple[str, str | Literal]]:
        """Returns the properties of an element: those that it has, and the defaults of others that are declared."""
        told = {key for key, _ in element.data}
        defaults = [(id_, text) for id_, text in self._defaults.items() if id_ not in told and self.keys[id_].of in (element.kind, "all")]
        pairs: list[tuple[str, str | Literal]] = []
        for id_, text in (*element.data, *defaults):
            key = self.keys.get(id_, _Key(id_))
            if key.name.startswith(REFERENCE):
                pairs += [(key.name, read_written(unquote(part))) for part in text.split(";") if part]
            elif text:
                pairs.append((key.name, typed(text.strip() if key.type != "string" else text, key.type)))
        return pairs


def read_graphml(task: ImportTask, path: Path, split: str) -> None:
    """Adds the nodes and edges of a file to an import, in the order of the file.

    Raises:
        InputError: The file is not XML, or a node or edge is malformed (unless the report says to skip).
    """
    graph, parser, more = PropertyGraph(task, split), _Parser(), True
    with contextlib.closing(open_guarded(path, MAX_LINE)) as stream:
        while more:
            block = stream.read(BLOCK)
            more = bool(block)
            try:
                parser.feed(block)
            except expat.ExpatError as error:
                raise InputError(f"{path}:{error.lineno}: GraphML is XML, found an error at column {error.offset} ({error})") from None
            except ValueError as error:
                raise InputError(f"{path}: {error}") from None
            for element in parser.finished:
                try:
                    _add(element, parser.properties(element), graph, task)
                except ValueError as error:
                    task.report.problem(f"{path}:{element.line}: {element.kind}: {error}")
            task.advance(len(parser.finished))
            parser.finished.clear()
    if parser.drawings:
        task.report.records["data that is no text"] += parser.drawings


def _add(element: _Element, properties: list[tuple[str, str | Literal]], graph: PropertyGraph, task: ImportTask) -> None:
    attributes = element.attributes
    if element.kind == "node":
        labels = [part for part in attributes.get("labels", "").split(":") if part]
        labels += [
            value.lexical for key, value in properties if key == "labelV" and isinstance(value, Literal) and value.lexical not in labels
        ]
        graph.node(identifier(attributes.get("id", "")), labels, [pair for pair in properties if pair[0] not in NODE_LABELS])
    elif element.kind == "edge":
        found = {key: value.lexical for key, value in properties if isinstance(value, Literal)}
        relation = attributes.get("label") or next((found[key] for key in EDGE_TYPES if found.get(key)), EDGE)
        rest = [(key, value) for key, value in properties if key not in EDGE_TYPES or found[key] != relation]
        graph.edge(identifier(attributes.get("source", "")), relation, read_written(identifier(attributes.get("target", ""))), rest)
    else:
        task.report.records["hyperedge"] += 1


def write_graphml(graph: Graph, destination: Path, _names: Names | None = None, overwrite: bool = False) -> list[Path]:
    """Writes a folder with one file per split, and the labels; returns the files written.

    Raises:
        InputError: An identifier has a character that XML does not have, or would be read as a literal.
        StorageError: The destination exists and may not be replaced, or the disk refuses.
    """
    ours = {*(f"{split}.graphml" for split in SPLITS), LABELS}
    with new_folder(destination, overwrite, lambda: check_only(destination, ours, "an export")) as place:
        for code, split in enumerate(SPLITS):
            if (graph.split == code).any():
                with (place / f"{split}.graphml").open("w", encoding="utf-8", newline="\n") as file:
                    _write_split(graph, split, file)
        lines = [line for vocabulary in (graph.entities, graph.relations) for line in label_lines(vocabulary)]
        if lines:
            (place / LABELS).write_text("".join(lines), encoding="utf-8", newline="\n")
    return sorted(destination.iterdir())


def _write_split(graph: Graph, split: str, file: TextIO) -> None:
    rows = [written_fields(statement, quoted=False) for statement in graph.statements(split)]
    keys = {key: f"q{place}" for place, key in enumerate(sorted({key for row in rows for key in row[3::2]}))}
    file.write('<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
    file.write('  <key id="labelE" for="edge" attr.name="labelE" attr.type="string"/>\n')
    for key, id_ in keys.items():
        file.write(f'  <key id="{id_}" for="edge" attr.name={_attribute(REFERENCE + key)} attr.type="string"/>\n')
    file.write('  <graph edgedefault="directed">\n')
    values = {value for row in rows for value in row[4::2]}
    for node in sorted({row[0] for row in rows} | {row[2] for row in rows} | values):
        file.write(f"    <node id={_attribute(node)}/>\n")
    for row in rows:
        file.write(f"    <edge source={_attribute(row[0])} target={_attribute(row[2])}>")
        file.write("".join(f'<data key="{id_}">{text}</data>' for id_, text in _data(row, keys)) + "</edge>\n")
    file.write("  </graph>\n</graphml>\n")


def _data(row: list[str], keys: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the data of an edge: its type, and the values of each of its qualifier relations."""
    yield "labelE", escape(_checked(row[1]))
    of_key: dict[str, list[str]] = {}
    for key, value in zip(row[3::2], row[4::2], strict=True):
        of_key.setdefault(keys[key], []).append(value.replace("%", "%25").replace(";", "%3B"))
    for id_, values in of_key.items():
        yield id_, escape(_checked(";".join(values)))


def _attribute(text: str) -> str:
    return quoteattr(_checked(text))


def _checked(text: str) -> str:
    if found := _NO_XML.search(text):
        raise InputError(f"XML has no character U+{ord(found[0]):04X}, found {text[:60]!r}. Choose another form")
    return text

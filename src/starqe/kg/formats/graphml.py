"""GraphML: nodes and edges in XML, with declared keys for their properties.

The label of a node and the type of an edge are the property ``labelV`` and ``labelE`` (TinkerPop), the attribute ``labels`` and
``label`` (Neo4j), or a property ``label`` of the edge; an edge without any has the relation ``edge``.
"""

import contextlib
from pathlib import Path
from xml.etree import ElementTree

from starqe.errors import InputError
from starqe.kg.formats.property_graph import PropertyGraph, identifier, typed
from starqe.kg.literal import Literal
from starqe.kg.reading.files import GuardedReader, open_guarded
from starqe.kg.reading.import_task import ImportTask

MAX_LINE = 64 * 2**20
BLOCK = 2**20
"""Number of bytes parsed at a time. The parser looks at an unfinished tag again with every block, so small ones take long."""
STEP = 1000
NODE_LABELS = ("labelV", "labels")
EDGE_TYPES = ("labelE", "label", "type")
EDGE = "edge"
"""The relation of edges without a type."""

Keys = dict[str, tuple[str, str]]


def is_graphml(first: bytes) -> bool:
    """Returns whether a file that begins with these bytes is GraphML."""
    return b"<graphml" in first


class _Blocks:
    """Passes a stream to the parser in large blocks, whatever size it asks for."""

    def __init__(self, stream: GuardedReader) -> None:
        self._stream = stream

    def read(self, _size: int = -1) -> bytes:
        return self._stream.read(BLOCK)


def read_graphml(task: ImportTask, path: Path, split: str) -> None:
    """Adds the nodes and edges of a file to an import, in the order of the file.

    Raises:
        InputError: The file is not XML, or a node or edge is malformed (unless the report says to skip).
    """
    graph, keys, count = PropertyGraph(task, split), {}, 0
    with contextlib.closing(open_guarded(path, MAX_LINE)) as stream:
        try:
            parent = None
            for event, element in ElementTree.iterparse(_Blocks(stream), events=("start", "end")):  # noqa: S314 - expat bounds the expansion of entities
                tag = element.tag.rpartition("}")[2]
                if event == "start":
                    parent = element if tag == "graph" else parent
                elif tag == "key":
                    keys[element.get("id", "")] = element.get("attr.name", element.get("id", "")), element.get("attr.type", "string")
                elif tag in ("node", "edge", "hyperedge"):
                    count += 1
                    try:
                        _add(element, tag, keys, graph, task)
                    except ValueError as error:
                        task.report.problem(f"{path}: {tag} {count:,} of the file: {error}")
                    if parent is not None:
                        parent.clear()
                    if count % STEP == 0:
                        task.advance(STEP)
        except ElementTree.ParseError as error:
            line, column = error.position
            raise InputError(f"{path}:{line}: GraphML is XML, found an error at column {column} ({error})") from None


def _add(element: ElementTree.Element, tag: str, keys: Keys, graph: PropertyGraph, task: ImportTask) -> None:
    properties: list[tuple[str, str | Literal]] = []
    for data in element:
        if data.tag.rpartition("}")[2] == "data" and data.text is not None:
            key, type_ = keys.get(data.get("key", ""), (data.get("key", ""), "string"))
            properties.append((key, typed(data.text.strip() if type_ != "string" else data.text, type_)))
    if tag == "node":
        labels = [part for part in element.get("labels", "").split(":") if part]
        labels += [
            value.lexical for key, value in properties if key == "labelV" and isinstance(value, Literal) and value.lexical not in labels
        ]
        graph.node(identifier(element.get("id", "")), labels, [pair for pair in properties if pair[0] not in NODE_LABELS])
    elif tag == "edge":
        found = {key: value.lexical for key, value in properties if isinstance(value, Literal)}
        relation = element.get("label") or next((found[key] for key in EDGE_TYPES if found.get(key)), EDGE)
        rest = [(key, value) for key, value in properties if key not in EDGE_TYPES or found[key] != relation]
        graph.edge(identifier(element.get("source", "")), relation, identifier(element.get("target", "")), rest)
    else:
        task.report.records["hyperedge"] += 1

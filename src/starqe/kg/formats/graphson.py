"""GraphSON, TinkerPop's JSON, in its versions 1 to 3: one vertex with its edges per line, or one document with vertices and edges."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starqe.kg import literal
from starqe.kg.formats.json_records import json_records
from starqe.kg.formats.property_graph import PropertyGraph, identifier
from starqe.kg.literal import Literal
from starqe.kg.reading.import_task import ImportTask

STEP = 1000
_MARKS = (b'"outE"', b'"inE"', b'"_outV"', b'"outV"', b'"g:Vertex"', b'"vertices"', b'"tinker:graph"')
_RESERVED = frozenset(["_id", "_type", "_label", "_outV", "_inV", "_outE", "_inE"])
_TYPES = {
    **dict.fromkeys(("g:Int32", "g:Int64", "gx:Byte", "gx:Int16", "gx:BigInteger"), literal.INTEGER),
    **dict.fromkeys(("g:Double", "g:Float"), literal.DOUBLE),
    "gx:BigDecimal": literal.DECIMAL,
    "gx:LocalDate": literal.DATE,
    **dict.fromkeys(("gx:LocalDateTime", "gx:OffsetDateTime", "gx:ZonedDateTime", "gx:Instant"), literal.DATE_TIME),
    "gx:Duration": literal.XSD + "duration",
}
_MOMENTS = ("g:Date", "g:Timestamp")
_LISTS = ("g:List", "g:Set")


def is_graphson(first: bytes) -> bool:
    """Returns whether a file that begins with these bytes is GraphSON."""
    is_json = first.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] in (b"{", b"[")
    return is_json and b'"@context"' not in first and any(mark in first for mark in _MARKS)


def read_graphson(task: ImportTask, path: Path, split: str) -> None:
    """Adds the vertices and edges of a file to an import.

    Raises:
        InputError: A record is malformed (unless the report says to skip), or the file cannot be read.
    """
    graph = PropertyGraph(task, split)
    for number, record in enumerate(json_records(path, task.report), 1):
        if number % STEP == 0:
            task.advance(STEP)
        for part in _parts(record.value):
            try:
                _add(part, graph)
            except (AttributeError, KeyError, TypeError, ValueError) as error:
                what = f"{type(error).__name__}: {error}"
                task.report.problem(f"{record.place(path)}: a record is a vertex or an edge of GraphSON, found a malformed one ({what})")


def _parts(value: Any) -> Iterator[Any]:
    """Yields the vertices and edges of a document with a whole graph."""
    plain = _plain(value)
    if isinstance(plain, dict) and ("vertices" in plain or "edges" in plain):
        for part in (*plain.get("vertices", ()), *plain.get("edges", ())):
            yield _plain(part)
    elif isinstance(plain, dict) and isinstance(plain.get("graph"), dict):
        yield from _parts(plain["graph"])
    else:
        yield plain


def _plain(value: Any) -> Any:
    """Returns a value without its type."""
    return value["@value"] if isinstance(value, dict) and "@type" in value and "@value" in value else value


def _add(part: dict[str, Any], graph: PropertyGraph) -> None:
    if "_outV" in part:
        graph.edge(_id(part["_outV"]), part["_label"], _id(part["_inV"]), _inline(part))
    elif "_id" in part:
        graph.node(_id(part["_id"]), [part["_label"]] if "_label" in part else [], _inline(part))
    elif "outV" in part:
        graph.edge(_id(part["outV"]), part["label"], _id(part["inV"]), _properties(part))
    else:
        _add_vertex(part, graph)


def _add_vertex(part: dict[str, Any], graph: PropertyGraph) -> None:
    node = _id(part["id"])
    plain: list[tuple[str, str | Literal]] = []
    for key, values in part.get("properties", {}).items():
        for value in values if isinstance(values, list) else [values]:
            inner = _plain(value)
            if isinstance(inner, dict) and inner.get("properties"):
                for one in _values(inner["value"]):
                    graph.property_with_qualifiers(node, key, one, _properties(inner))
            else:
                plain += [(key, one) for one in _values(inner["value"] if isinstance(inner, dict) and "value" in inner else value)]
    graph.node(node, [part["label"]] if "label" in part else [], plain)
    for relation, edges in part.get("outE", {}).items():
        for edge in map(_plain, edges):
            graph.edge(node, relation, _id(edge["inV"]), _properties(edge))


def _id(value: Any) -> str:
    plain = _plain(value)
    if isinstance(plain, (dict, list)) or plain is None:
        raise ValueError(f"an id is a text or a number, found {plain!r}")
    return identifier(plain)


def _inline(part: dict[str, Any]) -> list[tuple[str, str | Literal]]:
    return [(key, one) for key, value in part.items() if key not in _RESERVED for one in _values(value)]


def _properties(part: dict[str, Any]) -> list[tuple[str, str | Literal]]:
    """Returns the properties of an edge or of a property; in version 2 and 3 each is a g:Property."""
    pairs: list[tuple[str, str | Literal]] = []
    for key, value in part.get("properties", {}).items():
        inner = _plain(value)
        typed = isinstance(value, dict) and value.get("@type") == "g:Property"
        pairs += [(key, one) for one in _values(inner["value"] if typed else value)]
    return pairs


def _values(value: Any) -> Iterator[Literal]:
    """Yields the literals of a value, typed or plain; a list has several."""
    type_ = value.get("@type") if isinstance(value, dict) else None
    plain = _plain(value)
    if isinstance(plain, list) and (type_ is None or type_ in _LISTS):
        for one in plain:
            yield from _values(one)
    elif type_ in _MOMENTS:
        yield Literal(datetime.fromtimestamp(plain / 1000, UTC).isoformat().replace("+00:00", "Z"), literal.DATE_TIME)
    elif isinstance(plain, bool):
        yield Literal(str(plain).lower(), literal.BOOLEAN)
    elif isinstance(plain, (int, float)):
        yield Literal(repr(plain), _TYPES.get(type_ or "", literal.INTEGER if isinstance(plain, int) else literal.DOUBLE))
    elif plain is not None:
        yield Literal(str(plain), _TYPES.get(type_ or "", literal.STRING))

"""Tables of nodes and edges as the bulk loaders of Neo4j and Neptune take them, with types in the header.

Neo4j: ``personId:ID(Person),name,born:int,:LABEL`` and ``:START_ID(Person),role,:END_ID(Movie),:TYPE``. Neptune: ``~id,~label,name:String``
and ``~id,~from,~to,~label,since:Int``. Nodes of an id space are called ``Person/12``. Several labels, and the values of arrays
(``string[]``), are separated by semicolons.

An export has one file of edges per split. Qualifiers are arrays whose key begins with ``->``, since their values are nodes; in
them, ``;`` and ``%`` are in percent-encoding. A node such as ``"1949-12-25"^^xsd:date`` is a literal.
"""

import contextlib
import csv
import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from urllib.parse import unquote

from starqe.errors import InputError
from starqe.folders import check_only, new_folder
from starqe.kg.formats.property_graph import REFERENCE, PropertyGraph, identifier, typed
from starqe.kg.formats.statements import LABELS, label_lines, written_fields
from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.literal import Literal, read_written, written
from starqe.kg.reading.files import open_guarded
from starqe.kg.reading.import_task import ImportTask
from starqe.kg.statement import SPLITS

MAX_LINE = 2**24
STEP = 10_000
NODES = "nodes.csv"
_NEO4J = re.compile(r"([^:]*):(ID|LABEL|START_ID|END_ID|TYPE|IGNORE)(?:\((.*)\))?")
_NEPTUNE = {"~id": "ID", "~label": "LABEL", "~from": "START_ID", "~to": "END_ID"}
_TYPE = re.compile(r"([A-Za-z]\w*)(?:\{.*\})?(\[\])?(?:\((?:single|set)\))?", re.IGNORECASE)
SEPARATORS = ",\t;|"


@dataclass(frozen=True)
class Column:
    """A column of a table: its role, or the key and type of a property."""

    role: str = ""
    """ID, LABEL, START_ID, END_ID, TYPE, IGNORE, or empty for a property."""
    space: str = ""
    """The space of ids."""
    key: str = ""
    type: str = "string"
    array: bool = False

    def node(self, text: str) -> str:
        """Returns the identifier of a node.

        Raises:
            ValueError: It is not an identifier.
        """
        return f"{self.space}/{identifier(text)}" if self.space else identifier(text)

    def values(self, text: str) -> Iterator[tuple[str, str | Literal]]:
        """Yields the key and each value of a cell."""
        for part in text.split(";") if self.array else [text]:
            if part:
                yield self.key, read_written(unquote(part)) if self.key.startswith(REFERENCE) else typed(part, self.type)


def _header(line: str) -> tuple[list[str], str]:
    """Splits a header at the separator that makes the most columns; returns the columns and the separator.

    Raises:
        csv.Error: The line is not CSV.
    """
    return max(
        ((next(csv.reader([line], delimiter=separator), []), separator) for separator in SEPARATORS), key=lambda found: len(found[0])
    )


def columns_of(header: list[str]) -> list[Column]:
    """Reads the columns of a header."""
    columns = []
    for name in header:
        name = name.strip()
        if match := _NEO4J.fullmatch(name):
            columns.append(Column(match[2], match[3] or ""))
        elif name in _NEPTUNE:
            columns.append(Column(_NEPTUNE[name]))
        else:
            key, _, type_ = name.rpartition(":")
            match = _TYPE.fullmatch(type_) if key else None
            columns.append(Column(key=key, type=match[1], array=bool(match[2])) if match else Column(key=name))
    return columns


def _names(first: bytes) -> set[str]:
    """Returns the column names of a file that begins with these bytes; none if they are not CSV."""
    line = first.partition(b"\n")[0].decode(errors="replace").removeprefix("\ufeff").strip()
    with contextlib.suppress(csv.Error):
        return {name.strip() for name in _header(line)[0]}
    return set()


def is_neo4j(first: bytes) -> bool:
    """Returns whether a file that begins with these bytes has a header of Neo4j's loader."""
    return any(_NEO4J.fullmatch(name) for name in _names(first))


def is_neptune(first: bytes) -> bool:
    """Returns whether a file that begins with these bytes has a header of Neptune's loader."""
    return len(_NEPTUNE.keys() & _names(first)) > 1


def read_bulk_csv(task: ImportTask, path: Path, split: str) -> None:
    """Adds the nodes or edges of a file to an import; the header decides which of them it has.

    Raises:
        InputError: The header is incomplete, or a row is malformed (unless the report says to skip).
    """
    graph = PropertyGraph(task, split)
    with contextlib.closing(open_guarded(path, MAX_LINE)) as stream:
        text = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", newline="")
        rows = csv.reader([])  # the header may be wrong, too
        try:
            header, separator = _header(text.readline().strip())
            columns = columns_of(header)
            add = _adder(columns, path, task, graph)
            rows = csv.reader(text, delimiter=separator, strict=True)
            for row in rows:
                if rows.line_num % STEP == 0:
                    task.advance(STEP)
                if not row:
                    continue
                try:
                    if len(row) != len(columns):
                        raise ValueError(f"a row has as many fields as the header ({len(columns)}), found {len(row)}")
                    add(row)
                except ValueError as error:
                    task.report.problem(f"{path}:{rows.line_num + 1}: {error}")
        except csv.Error as error:
            raise InputError(f"{path}:{rows.line_num + 1}: not valid CSV ({error})") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: text is UTF-8, found the byte 0x{error.object[error.start]:02x}. Convert the file") from None


def _adder(columns: list[Column], path: Path, task: ImportTask, graph: PropertyGraph):  # type: ignore[no-untyped-def]
    """Returns the function that adds a row: as an edge if the header has both ends, else as a node."""
    roles = {column.role: place for place, column in enumerate(columns) if column.role}
    properties = [(place, column) for place, column in enumerate(columns) if not column.role]

    def values(row: list[str]) -> list[tuple[str, str | Literal]]:
        return [pair for place, column in properties if row[place] for pair in column.values(row[place])]

    if "START_ID" in roles and "END_ID" in roles:
        start, end = roles["START_ID"], roles["END_ID"]
        type_ = roles.get("TYPE", roles.get("LABEL"))
        if type_ is None:
            task.report.note(f"{path}: the header has no :TYPE, so the relation is named after the file: '{path.name.split('.')[0]}'")

        def add_edge(row: list[str]) -> None:
            relation = row[type_] if type_ is not None else path.name.split(".")[0]
            graph.edge(columns[start].node(row[start]), relation, read_written(columns[end].node(row[end])), values(row))

        return add_edge
    if "ID" not in roles:
        raise InputError(
            f"{path}:1: a table of nodes has :ID (or ~id), one of edges :START_ID and :END_ID (or ~from and ~to), found neither"
        )
    place, label = roles["ID"], roles.get("LABEL")

    def add_node(row: list[str]) -> None:
        labels = [part for part in re.split("[;:]", row[label]) if part.strip()] if label is not None else []
        graph.node(columns[place].node(row[place]), labels, values(row))

    return add_node


def write_neo4j(graph: Graph, destination: Path, _names: Names | None = None, overwrite: bool = False) -> list[Path]:
    """Writes a folder with a table of nodes, one table of edges per split, and the labels; returns the files written.

    Raises:
        InputError: An identifier would be read as a literal.
        StorageError: The destination exists and may not be replaced, or the disk refuses.
    """
    ours = {*(f"{split}.csv" for split in SPLITS), NODES, LABELS}
    with new_folder(destination, overwrite, lambda: check_only(destination, ours, "an export")) as place:
        names = ((identifier_, graph.entities.label(id_)) for id_, identifier_ in enumerate(graph.entities))
        values = ((written(value), value.label) for value in graph.literals)
        _write_table(place / NODES, [":ID", "name"], chain(names, values))
        for code, split in enumerate(SPLITS):
            if (graph.split == code).any():
                used = sorted({key for statement in graph.statements(split) for key, _ in statement.qualifiers})
                header = [":START_ID", ":TYPE", ":END_ID", *(f"{REFERENCE}{key}:string[]" for key in used)]
                _write_table(place / f"{split}.csv", header, _edges(graph, split, used))
        lines = [line for vocabulary in (graph.entities, graph.relations) for line in label_lines(vocabulary)]
        if lines:
            (place / LABELS).write_text("".join(lines), encoding="utf-8", newline="\n")
    return sorted(destination.iterdir())


def _edges(graph: Graph, split: str, used: list[str]) -> Iterator[list[str]]:
    for statement in graph.statements(split):
        of_key: dict[str, list[str]] = {}
        fields = written_fields(statement, quoted=False)
        for key, value in zip(fields[3::2], fields[4::2], strict=True):
            of_key.setdefault(key, []).append(value.replace("%", "%25").replace(";", "%3B"))
        yield [*fields[:3], *(";".join(of_key.get(key, ())) for key in used)]


def _write_table(path: Path, header: list[str], rows: Iterable[Iterable[str]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)

r"""KGTK edge files: one edge per line with the columns ``id node1 label node2``, separated by tabs.

An edge whose ``node1`` is the id of another edge is a qualifier of that edge; so is a value in a further column. Values begin
with a mark of their type: ``"text"``, ``'text'@en``, ``^1952-03-11T00:00:00Z/11``, ``@50.9/1.8`` (latitude, longitude), numbers
with tolerance and unit (``+5[+4,+6]Q11573``), ``True``; everything else is a symbol: an entity. The edge ``label`` with a text is a label.
Exports write literals that KGTK has no form for after ``!``, as Turtle does: ``!"1949-12-25"^^xsd:date``.
Symbols that would look like values are written with their first character in percent-encoding.
"""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from starqe.errors import InputError
from starqe.folders import check_only, new_folder
from starqe.kg import literal
from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.literal import Literal, read_written, written
from starqe.kg.reading.files import open_guarded, whole_lines
from starqe.kg.reading.import_task import ImportTask, Row, SharedReader
from starqe.kg.statement import SPLITS, identifier_problem
from starqe.kg.vocabulary import Vocabulary

MAX_LINE = 2**24
LEFT_OUT = -1
COLUMNS = {
    "id": ("id", "ID"),
    "node1": ("node1", "from", "subject"),
    "label": ("label", "predicate", "relation", "relationship", "property"),
    "node2": ("node2", "to", "object"),
}
"""The columns of an edge, and their names in files."""
_NUMBER = re.compile(r"([+-]?(?:\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?)(?:\[([^,\]]+),([^,\]]+)\])?([A-Za-z]\S*)?")
_TIME = re.compile(r"\^([+-]?\d+(?:-\d\d){0,2}(?:T\d\d(?::\d\d){0,2}(?:\.\d+)?Z?)?)(?:/(\d+))?")
_PLACE = re.compile(r"@([+-]?[\d.eE+-]+)/([+-]?[\d.eE+-]+)")
_LANGUAGE_TEXT = re.compile(r"'(.*)'@([A-Za-z]+(?:-[A-Za-z0-9]+)*)", re.DOTALL)
_LOOKS_TYPED = re.compile(r"[\"'^@!%+.\d-]|(?:True|False)$")
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r"}


def is_kgtk(first: bytes) -> bool:
    """Returns whether a file that begins with these bytes has the columns of KGTK."""
    columns = first.partition(b"\n")[0].strip().decode(errors="replace").removeprefix("\ufeff").split("\t")
    return {"node1", "label", "node2"} <= set(columns)


def read_kgtk(task: ImportTask, path: Path, split: str) -> None:
    """Collects the edges of a file; they become statements when all files are read, since qualifiers may be in another one.

    Raises:
        InputError: The columns are not those of an edge, or a line is malformed (unless the report says to skip).
    """
    task.shared(KgtkEdges).read(path, split)


class KgtkEdges(SharedReader):
    """The edges of all files of one import."""

    def __init__(self, task: ImportTask) -> None:
        self._task, self._report = task, task.report
        self._edges: list[tuple[Row, str]] = []  # with their splits
        self._ids: dict[str, int] = {}  # id of an edge -> its place in the list
        self._labelled: set[str] = set()
        self._other_labels: dict[str, tuple[str, str]] = {}  # for nodes without a label in a chosen language

    def read(self, path: Path, split: str) -> None:
        """Collects the edges of a file.

        Raises:
            InputError: The columns are not those of an edge, or a line is malformed (unless the report says to skip).
        """
        number, columns = 0, _Columns({}, {}, {}, None)
        with contextlib.closing(open_guarded(path, MAX_LINE)) as stream:
            for block in whole_lines(stream):
                try:
                    text = block.decode()
                except UnicodeDecodeError as error:
                    raise InputError(f"{path}: text is UTF-8, found the byte 0x{block[error.start]:02x} after line {number}") from None
                lines = text.removesuffix("\n").split("\n")
                for line in lines:
                    number += 1
                    fields = line.removesuffix("\r").split("\t")
                    if number == 1:
                        columns = _columns(fields, path)
                    elif line.strip():
                        try:
                            self._take(fields, columns, split)
                        except ValueError as error:
                            self._report.problem(f"{path}:{number}: {error}")
                self._task.advance(len(lines))

    def _take(self, fields: list[str], columns: "_Columns", split: str) -> None:
        if len(fields) != columns.count:
            raise ValueError(f"a line has as many fields as the header ({columns.count}), found {len(fields)}")
        node1, relation, text = (fields[columns.edge[name]] for name in ("node1", "label", "node2"))
        head, value = _symbol(node1), value_of(text)
        for place, about in columns.lifted.items():
            if fields[place]:
                self._label(_symbol(fields[columns.edge[about]]), value_of(fields[place]))
        if relation == "label" and isinstance(value, Literal):
            self._label(head, value)
            return
        edge = fields[columns.edge["id"]] if "id" in columns.edge else ""
        rank = fields[columns.rank] if columns.rank is not None else ""
        if rank and rank not in self._task.wikidata.ranks:
            self._report.leave_out(f"rank {rank}", relation)
            if edge:
                self._ids[edge] = LEFT_OUT  # and so are its qualifiers
            return
        row: Row = [head, _symbol(relation), value]
        for place, name in columns.qualifiers.items():
            for part in re.split(r"(?<!\\)\|", fields[place]) if fields[place] else ():
                row += name, value_of(part)
        if edge:
            self._ids[edge] = len(self._edges)
        self._edges.append((row, split))

    def _label(self, node: str, value: str | Literal) -> None:
        text, language = (value.lexical, value.language) if isinstance(value, Literal) else (value, "")
        if not language or language in self._task.wikidata.languages:
            self._task.draft.label(node, text, language)
            self._labelled.add(node)
        else:
            self._other_labels.setdefault(node, (text, language))

    def finish(self) -> None:
        """Joins qualifiers to their edges, and adds the statements."""
        is_qualifier = [row[0] in self._ids for row, _ in self._edges]
        for (row, _), qualifies in zip(self._edges, is_qualifier, strict=True):
            if not qualifies:
                continue
            target = self._ids[str(row[0])]
            if target == LEFT_OUT:
                continue
            if is_qualifier[target]:
                self._report.leave_out("qualifier of a qualifier", str(row[1]))
            else:
                self._edges[target][0].extend(row[1:3])
                for relation in row[3::2]:
                    self._report.leave_out("qualifier of a qualifier", str(relation))
        for split in SPLITS:
            rows = (row for (row, of), qualifies in zip(self._edges, is_qualifier, strict=True) if of == split and not qualifies)
            self._task.add(rows, split)
        for node, label in self._other_labels.items():
            if node not in self._labelled:
                self._task.draft.label(node, *label)


class _Columns:
    """The roles of the columns: those of the edge, labels of its parts, qualifiers, and the rank."""

    def __init__(self, edge: dict[str, int], lifted: dict[int, str], qualifiers: dict[int, str], rank: int | None) -> None:
        self.edge, self.lifted, self.qualifiers, self.rank = edge, lifted, qualifiers, rank
        self.count = 0


def _columns(header: list[str], path: Path) -> _Columns:
    header = [name.strip().removeprefix("\ufeff") for name in header]
    edge = {role: header.index(name) for role, names in COLUMNS.items() for name in names if name in header}
    if missing := [role for role in ("node1", "label", "node2") if role not in edge]:
        raise InputError(f"{path}:1: an edge file of KGTK has the columns node1, label and node2, found none for {missing[0]}")
    others = {place: name for place, name in enumerate(header) if place not in edge.values() and name}
    lifted = {place: about for place, name in others.items() for about in ("node1", "label", "node2") if name == f"{about};label"}
    rank = next((place for place, name in others.items() if name == "rank"), None)
    qualifiers = {place: name for place, name in others.items() if ";" not in name and name != "rank"}
    columns = _Columns(edge, lifted, qualifiers, rank)
    columns.count = len(header)
    return columns


def value_of(text: str) -> str | Literal:
    """Turns a value into the identifier of an entity or a literal.

    Raises:
        ValueError: It is neither.
    """
    first = text[:1]
    if first == '"' and text.endswith('"') and len(text) > 1:
        return Literal(_unescaped(text[1:-1]))
    if first == "'" and (match := _LANGUAGE_TEXT.fullmatch(text)):
        return Literal(_unescaped(match[1]), literal.LANGUAGE_STRING, match[2])
    if first == "^" and (match := _TIME.fullmatch(text)):
        return Literal(match[1].removeprefix("+"), literal.DATE_TIME, precision=int(match[2]) if match[2] else None)
    if first == "@" and (match := _PLACE.fullmatch(text)):
        return Literal(f"Point({match[2]} {match[1]})", literal.WKT)
    if text in ("True", "False"):
        return Literal(text.lower(), literal.BOOLEAN)
    if first and first in "+-.0123456789" and (match := _NUMBER.fullmatch(text)):
        datatype = literal.DOUBLE if match[3] else literal.DECIMAL if match[2] or "." in match[1] else literal.INTEGER
        return Literal(match[1], datatype, unit=match[6] or "", lower=match[4] or "", upper=match[5] or "")
    if first == "!" and isinstance(value := read_written(text[1:]), Literal):
        return value
    if first and first in "\"'^@!+-.0123456789":
        raise ValueError(f"a value that begins with {first} has the form of its type, found {text[:60]!r}")
    return _symbol(text)


def _symbol(text: str) -> str:
    if text[:1] == "%" and re.fullmatch("[0-9A-F]{2}", text[1:3]):
        text = chr(int(text[1:3], 16)) + text[3:]
    if problem := identifier_problem(text):
        raise ValueError(f"a symbol is one line of text without space around it, found {text[:60]!r}: {problem}")
    return text


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text) if "\\" in text else text


def write_kgtk(graph: Graph, destination: Path, _names: Names | None = None, overwrite: bool = False) -> list[Path]:
    """Writes a folder with one edge file per split, the labels in the first one, and returns the files written.

    Raises:
        StorageError: The destination exists and may not be replaced, or the disk refuses.
    """
    prefix = "E"
    while any(identifier.startswith(prefix + "-") for identifier in graph.entities):
        prefix += "E"
    labels = [line for vocabulary in (graph.entities, graph.relations) for line in _label_lines(vocabulary)]
    ours = {f"{split}.tsv" for split in SPLITS}
    with new_folder(destination, overwrite, lambda: check_only(destination, ours, "an export")) as place:
        for code, split in enumerate(SPLITS):
            if (graph.split == code).any():
                with (place / f"{split}.tsv").open("w", encoding="utf-8", newline="\n") as file:
                    file.write("id\tnode1\tlabel\tnode2\n")
                    for number, statement in enumerate(graph.statements(split)):
                        edge = f"{prefix}-{split}-{number}"
                        file.write("\t".join([edge, *map(_written, statement.fields()[:3])]) + "\n")
                        file.writelines(
                            f"{edge}-{pair}\t{edge}\t{_written(relation)}\t{_written(value)}\n"
                            for pair, (relation, value) in enumerate(statement.qualifiers)
                        )
                    file.writelines(f"{prefix}-label-{number}\t{line}" for number, line in enumerate(labels))
                labels = []
    return sorted(destination.iterdir())


def _written(value: str | Literal) -> str:
    if isinstance(value, Literal):
        text = _literal_text(value)
        try:
            return text if Literal.of_key(value.key) == value_of(text) else f"!{written(value)}"
        except ValueError:
            return f"!{written(value)}"
    identifier = value
    return f"%{ord(identifier[0]):02X}{identifier[1:]}" if _LOOKS_TYPED.match(identifier) and ord(identifier[0]) < 128 else identifier


def _literal_text(value: Literal) -> str:
    """Writes a literal in KGTK's own way, if there is one."""
    match value.datatype:
        case literal.STRING:
            return f'"{_escaped(value.lexical)}"'
        case literal.LANGUAGE_STRING:
            return f"'{_escaped(value.lexical)}'@{value.language}"
        case literal.DATE_TIME:
            return f"^{value.lexical}" + (f"/{value.precision:.0f}" if value.precision is not None else "")
        case literal.BOOLEAN:
            return value.lexical.title()
        case literal.WKT if place := re.fullmatch(r"Point\((\S+) (\S+)\)", value.lexical):
            return f"@{place[2]}/{place[1]}"
    return value.lexical + (f"[{value.lower},{value.upper}]" if value.lower or value.upper else "") + value.unit


def _escaped(text: str) -> str:
    return re.sub(r"[\\|'\"]", r"\\\g<0>", text).replace("\t", r"\t").replace("\n", r"\n").replace("\r", r"\r")


def _label_lines(vocabulary: Vocabulary) -> Iterator[str]:
    for language, by_id in sorted(vocabulary.labels.items()):
        for id_, label in sorted(by_id.items()):
            value = f"'{_escaped(label)}'@{language}" if language else f'"{_escaped(label)}"'
            yield f"{_written(vocabulary.identifier(id_))}\tlabel\t{value}\n"

"""Tables with a header: CSV, TSV, Parquet, JSON Lines, and tables in Python; the user names the columns of a statement.

Texts are entities. Numbers, dates and booleans of typed tables are literals; so are the values of a column that is named with a type
(``since:date``), as is needed for CSV. Numbers as heads are identifiers, and so are whole numbers as tails next to them.
An empty cell has no value. A list has several values. In JSON, an object such as ``{"value": "73.32", "datatype": "xsd:decimal",
"unit": "km2"}`` is a literal.
"""

import contextlib
import csv
import io
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

from starqe.errors import InputError
from starqe.folders import new_file
from starqe.kg import literal
from starqe.kg.draft import Kind
from starqe.kg.formats.json_records import json_records
from starqe.kg.formats.property_graph import DATATYPES, typed
from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.literal import Literal
from starqe.kg.reading.files import STDIN, open_guarded
from starqe.kg.reading.import_options import Columns
from starqe.kg.reading.import_task import ImportTask, Row
from starqe.kg.reading.report import Report
from starqe.kg.reading.text_columns import text_columns
from starqe.kg.statement import SPLITS, identifier_problem

MAX_LINE = 2**24
BATCH = 100_000
Cells = Mapping[str, Any]


def read_table(task: ImportTask, path: Path, split: str) -> None:
    """Adds the rows of a table to an import; Parquet, JSON Lines and text with separators are distinguished by content.

    Raises:
        InputError: No columns were named, a column is missing, or a row is malformed (unless the report says to skip).
    """
    if task.columns is None:
        raise InputError(
            f"{path}: a table needs the names of its columns. Name those of head, relation and tail, and of qualifiers if there are any"
        )
    first = b""
    if path != STDIN:  # standard input can be read only once, and is text with separators
        with contextlib.closing(open_guarded(path, MAX_LINE)) as stream:
            first = stream.read(2**16)
    if first.startswith(b"PAR1"):
        _add_parquet(path, task, split, task.columns)
    elif first.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] in (b"{", b"["):
        _add(_json_rows(path, task), task, split, task.columns)
    else:
        _add(_csv_rows(path, task), task, split, task.columns)


def read_json_lines(task: ImportTask, path: Path, split: str) -> None:
    """Adds the records of a file to an import, by the named columns or else by the keys that an export writes.

    Raises:
        InputError: A record is malformed (unless the report says to skip), or the file cannot be read.
    """
    if task.columns is not None:
        _add(_json_rows(path, task), task, split, task.columns)
        return
    for number, record in enumerate(json_records(path, task.report), 1):
        if number % BATCH == 0:
            task.advance(BATCH)
        value = record.value
        try:
            if not isinstance(value, dict):
                raise ValueError(f"a record is an object, found {value!r:.60}")
            if "labels" in value and "head" not in value:
                _add_labels(value, task)
                continue
            row = _row(value, Columns("head", "relation", "tail"))
            for key, values in (value.get("qualifiers") or {}).items():
                row += [part for one in _values(values, "") for part in (_identifier(key), one)]
            of_record = value.get("split", split)
            if of_record not in SPLITS:
                raise ValueError(f"a split is one of {', '.join(SPLITS)}, found {of_record!r:.60}")
            task.add([row], of_record)
        except (AttributeError, ValueError) as error:
            task.report.problem(f"{record.place(path)}: {error}")


def _add_labels(value: dict[str, Any], task: ImportTask) -> None:
    kind: Kind | None = value.get("kind") if value.get("kind") in ("entity", "relation") else None
    for language, text in value["labels"].items():
        task.draft.label(_identifier(value.get("id")), str(text), language, kind)


def _add(rows: Iterable[tuple[str, Any]], task: ImportTask, split: str, columns: Columns) -> None:
    for number, (place, cells) in enumerate(rows, 1):
        if number % BATCH == 0:
            task.advance(BATCH)
        try:
            if not isinstance(cells, dict):
                raise ValueError(f"a record is an object, found {cells!r:.60}")
            task.add([_row(cells, columns)], split)
        except ValueError as error:
            task.report.problem(f"{place}: {error}")


def _row(cells: Cells, columns: Columns) -> Row:
    """Makes the statement of a row.

    Raises:
        ValueError: Head, relation or tail is missing or not an identifier.
    """
    head = cells.get(columns.head)
    tail_name, tail_type = _name_and_type(columns.tail, cells)
    tail = cells.get(tail_name)
    if type(head) is int and type(tail) is int:
        tail = str(tail)
    tails = list(_values(tail, tail_type))
    if len(tails) != 1:
        raise ValueError(f"a statement has one tail, found {len(tails)} in the column '{tail_name}'")
    row: Row = [_identifier(head, columns.head), _identifier(cells.get(columns.relation), columns.relation), tails[0]]
    for column in columns.qualifiers:
        name, type_ = _name_and_type(column, cells)
        for value in _values(cells.get(name), type_):
            row += name, value
    return row


def _name_and_type(column: str, cells: Iterable[str]) -> tuple[str, str]:
    name, _, type_ = column.rpartition(":")
    is_typed = name and column not in cells and (type_.lower() in DATATYPES or type_ in ("string", "decimal"))
    return (name, type_) if is_typed else (column, "")


def _identifier(value: Any, column: str = "") -> str:
    text = value.strip() if isinstance(value, str) else str(value) if type(value) is int else ""
    if problem := identifier_problem(text):
        where = f" in the column '{column}'" if column else ""
        raise ValueError(f"an identifier is one line of text, found {value!r:.60}{where}: {problem}")
    return text


def _values(value: Any, type_: str) -> Iterator[str | Literal]:
    """Yields the values of a cell: texts are identifiers, unless the column has a type."""
    if value is None or value == "" or value != value:  # NaN, which pandas uses for a missing value
        return
    if isinstance(value, (list, tuple)):
        for one in value:
            yield from _values(one, type_)
    elif isinstance(value, dict):
        yield _literal_of_object(value)
    elif isinstance(value, str):
        if not value.strip():
            return
        yield (Literal(value, literal.DECIMAL) if type_ == "decimal" else typed(value.strip(), type_)) if type_ else _identifier(value)
    else:
        yield _literal(value)


def _literal_of_object(value: Mapping[str, Any]) -> Literal:
    """Reads a literal that is written as an object.

    Raises:
        ValueError: It has other keys, or values of other types.
    """
    parts = {"datatype": literal.STRING, **value}
    lexical, precision = parts.pop("value", None), parts.pop("precision", None)
    texts = [lexical, *parts.values()]
    if not parts.keys() <= {*Literal._fields} or not all(isinstance(text, str) for text in texts) or isinstance(precision, str | bool):
        raise ValueError(f"a literal has a value and a datatype (and {', '.join(Literal._fields[2:])}), found {value!r:.80}")
    return Literal(lexical, literal.long_datatype(parts.pop("datatype")), precision=precision, **parts)


def _literal(value: Any) -> Literal:
    if isinstance(value, bool):
        return Literal(str(value).lower(), literal.BOOLEAN)
    if isinstance(value, datetime):
        return Literal(value.isoformat().replace("+00:00", "Z"), literal.DATE_TIME)
    for kind, datatype in ((int, literal.INTEGER), (float, literal.DOUBLE), (Decimal, literal.DECIMAL)):
        if isinstance(value, kind):
            return Literal(str(value), datatype)
    if isinstance(value, date):
        return Literal(value.isoformat(), literal.DATE)
    raise ValueError(f"a value is a text, a number, a date or a boolean, found {value!r:.60}")


def _check_columns(header: Sequence[str], columns: Columns, where: str) -> None:
    wanted = [columns.head, columns.relation, columns.tail, *columns.qualifiers]
    for name in (_name_and_type(column, header)[0] for column in wanted):
        if name not in header:
            raise InputError(f"{where}: there is no column '{name}', found {', '.join(header)[:200]}")


def _json_rows(path: Path, task: ImportTask) -> Iterator[tuple[str, Any]]:
    return ((record.place(path), record.value) for record in json_records(path, task.report))


def _csv_rows(path: Path, task: ImportTask) -> Iterator[tuple[str, Cells]]:
    assert task.columns is not None
    with contextlib.closing(open_guarded(path, MAX_LINE)) as stream:
        text = io.TextIOWrapper(io.BufferedReader(stream), encoding="utf-8-sig", newline="")
        rows = csv.reader([])  # the header may be wrong, too
        try:
            first = text.readline()
            separator = max("\t,;|", key=first.count)
            header = next(csv.reader([first], delimiter=separator), [])
            _check_columns(header, task.columns, f"{path}:1")
            rows = csv.reader(text, delimiter=separator, strict=separator != "\t")
            for row in rows:
                if not row:
                    continue
                if len(row) != len(header):
                    task.report.problem(
                        f"{path}:{rows.line_num + 1}: a row has as many fields as the header ({len(header)}), found {len(row)}"
                    )
                    continue
                yield f"{path}:{rows.line_num + 1}", dict(zip(header, row, strict=True))
        except csv.Error as error:
            raise InputError(f"{path}:{rows.line_num + 1}: not valid CSV ({error})") from None
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: text is UTF-8, found the byte 0x{error.object[error.start]:02x}. Convert the file") from None


def _add_parquet(path: Path, task: ImportTask, split: str, columns: Columns) -> None:
    try:
        with pq.ParquetFile(path) as file:
            _add_batches(file.iter_batches(BATCH), str(path), task, split, columns)
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: the Parquet file is damaged ({error})") from None


def _add_batches(batches: Iterable[pa.RecordBatch], where: str, task: ImportTask, split: str, columns: Columns) -> None:
    """Adds batches of rows: as columns where all values are identifiers, or else row by row."""
    row = 0
    for batch in batches:
        if numbers := text_columns(batch, columns):
            task.draft.add_numbers(*numbers, split)
            task.advance(len(batch))
        else:
            places = (f"{where}, row {number:,}" for number in itertools.count(row + 1))
            _add(zip(places, batch.to_pylist(), strict=False), task, split, columns)
        row += len(batch)


def graph_of_table(table: Any, head: str, relation: str, tail: str, qualifiers: Sequence[str] = ()) -> Graph:
    """Builds a graph from a table of pandas, Polars or Arrow, or any other object with Arrow's stream interface.

    Args:
        table: The table.
        head: The name of the column with the heads.
        relation: The column with the relations.
        tail: The column with the tails.
        qualifiers: The columns with qualifier values; the name of the column is the relation.

    Raises:
        InputError: A column is missing, a row has no head, relation or tail, or there is no row.
    """
    columns = Columns(head, relation, tail, tuple(qualifiers))
    arrow = table if isinstance(table, pa.Table) else pa.table(table)
    _check_columns(arrow.column_names, columns, "the table")
    task = ImportTask(report=Report(), columns=columns)
    _add_batches(arrow.to_batches(BATCH), "the table", task, "train", columns)
    task.finish()
    return task.draft.finish()


def write_json_lines(graph: Graph, destination: Path, _names: Names | None = None, overwrite: bool = False) -> list[Path]:
    """Writes a file with one statement per line, then one line per label, and returns the files written.

    Raises:
        StorageError: The file exists and may not be replaced, or the disk refuses.
    """
    with new_file(destination, overwrite) as place, place.open("wb") as file:
        for split in SPLITS:
            for statement in graph.statements(split):
                record: dict[str, Any] = {"head": statement.head, "relation": statement.relation, "tail": _json_value(statement.tail)}
                qualifiers: dict[str, list[Any]] = {}
                for key, value in statement.qualifiers:
                    qualifiers.setdefault(key, []).append(_json_value(value))
                file.write(orjson.dumps({**record, "qualifiers": qualifiers, "split": split}) + b"\n")
        for kind, vocabulary in (("entity", graph.entities), ("relation", graph.relations)):
            for language, by_id in sorted(vocabulary.labels.items()):
                for id_, label in sorted(by_id.items()):
                    file.write(orjson.dumps({"id": vocabulary.identifier(id_), "kind": kind, "labels": {language: label}}) + b"\n")
    return [destination]


def _json_value(value: str | Literal) -> str | dict[str, Any]:
    """Returns an identifier as it is, and a literal as an object."""
    if isinstance(value, str):
        return value
    parts = value._asdict()
    return {
        "value": parts.pop("lexical"),
        "datatype": value.kind,
        **{key: part for key, part in parts.items() if part not in ("", None) and key != "datatype"},
    }

"""The n-ary JSON of data sets such as WikiPeople and JF17K: one fact per line.

    {"N": 3, "P106_h": "Q937", "P106_t": "Q169470", "P580": ["Q6927"]}

Head and tail of the main relation have its name with ``_h`` and ``_t``; all other keys are qualifiers. N counts the values. A text such
as ``"1949-12-25"^^xsd:date`` is a literal.
"""

import re
from pathlib import Path
from typing import Any

import orjson

from starqe.errors import InputError
from starqe.folders import check_only, new_folder
from starqe.kg.formats.json_records import json_records
from starqe.kg.formats.statements import written_fields
from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.literal import read_written
from starqe.kg.reading.import_task import ImportTask, Row
from starqe.kg.statement import SPLITS, Statement, identifier_problem

STEP = 1000
ARITY = "N"
HEAD, TAIL = "_h", "_t"
_RECOGNISED = re.compile(rb'\s*\[?\s*\{\s*(?:"N"\s*:\s*\d+\s*,|(?=[^{}]*"N"\s*:\s*\d)(?=[^{}]*_h"\s*:))')


def is_nary(first: bytes) -> bool:
    """Returns whether a file that begins with these bytes has n-ary facts."""
    return bool(_RECOGNISED.match(first))


def read_nary(task: ImportTask, path: Path, split: str) -> None:
    """Adds the facts of a file to an import.

    Raises:
        InputError: A fact is malformed (unless the report says to skip), or the file cannot be read.
    """
    for number, record in enumerate(json_records(path, task.report), 1):
        if number % STEP == 0:
            task.advance(STEP)
        try:
            task.add([_row(record.value)], split)
        except ValueError as error:
            task.report.problem(f"{record.place(path)}: {error}")


def _row(fact: Any) -> Row:
    if not isinstance(fact, dict):
        raise ValueError(f"a fact is an object, found {fact!r:.60}")
    relation = next((key.removesuffix(HEAD) for key in fact if key.endswith(HEAD) and key.removesuffix(HEAD) + TAIL in fact), None)
    if relation is None:
        raise ValueError(f"a fact has a key that ends with {HEAD} and the same with {TAIL}, found {', '.join(fact)[:80] or 'none'}")
    row: Row = [_text(fact[relation + HEAD]), _text(relation), read_written(_text(fact[relation + TAIL]))]
    for key, values in fact.items():
        if key not in (ARITY, relation + HEAD, relation + TAIL):
            for value in values if isinstance(values, list) else [values]:
                row += _text(key), read_written(_text(value))
    arity = fact.get(ARITY, (len(row) + 1) // 2)
    if arity != (len(row) + 1) // 2:
        raise ValueError(f"{ARITY} is the number of values, found {arity!r} and {(len(row) + 1) // 2} values")
    return row


def _text(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else str(value) if isinstance(value, int) else None
    if text is None or (problem := identifier_problem(text)):
        raise ValueError(f"a value is the text of an entity, found {value!r:.60}{f': {problem}' if text is not None else ''}")
    return text


def write_nary(graph: Graph, destination: Path, _names: Names | None = None, overwrite: bool = False) -> list[Path]:
    """Writes a folder with one file of facts per split, and returns the files written.

    Raises:
        InputError: A qualifier relation has a name that the format reserves, or an identifier would be read as a literal.
        StorageError: The destination exists and may not be replaced, or the disk refuses.
    """
    ours = {f"{split}.json" for split in SPLITS}
    with new_folder(destination, overwrite, lambda: check_only(destination, ours, "an export")) as place:
        for code, split in enumerate(SPLITS):
            if (graph.split == code).any():
                with (place / f"{split}.json").open("wb") as file:
                    file.writelines(orjson.dumps(_fact(statement)) + b"\n" for statement in graph.statements(split))
    return sorted(destination.iterdir())


def _fact(statement: Statement) -> dict[str, Any]:
    head, tail = statement.relation + HEAD, statement.relation + TAIL
    fields = written_fields(statement, quoted=False)
    fact: dict[str, Any] = {ARITY: 2 + len(statement.qualifiers), head: fields[0], tail: fields[2]}
    for key, value in zip(fields[3::2], fields[4::2], strict=True):
        if key in (ARITY, head, tail):
            raise InputError(f"n-ary JSON reserves the key {key!r}, found a qualifier of this name. Choose another form")
        fact.setdefault(key, []).append(value)
    return fact

"""Statements with typed literals, separated by tabs, as HN-YG has them, optionally after a line with their number.

    3
    YAGO_Leicester<tab>hasArea<tab>"73.32"^^<km2>
    YAGO_Sissy_Spacek<tab>wasBornOnDate<tab>"1949-12-25"^^xsd:date<tab>occursSince<tab>"1949-12-25"^^xsd:date

A type in angle brackets that is not an IRI is a unit: the value is a decimal number. Exports of graphs with literals have this form.
"""

import contextlib
import re
from collections.abc import Iterable
from pathlib import Path

from starqe.errors import InputError
from starqe.kg import literal
from starqe.kg.literal import Literal, read_written
from starqe.kg.reading.files import open_guarded, whole_lines
from starqe.kg.reading.import_task import ImportTask, Row
from starqe.kg.statement import identifier_problem

MAX_LINE = 2**20
_STRING = re.compile(r'"(.*)"', re.DOTALL)
_DATE = re.compile(r"(-?)(\d{1,4})(-.*)")
_TYPED = re.compile(rb'\t"[^\t\r\n]*"\^\^(?:xsd:|<)')
_COUNT = re.compile(rb"\s*\d+\s*\n[^\t\n]+\t[^\t\n]+\t")


def is_typed(first: bytes) -> bool:
    """Returns whether a file that begins with these bytes has statements with typed literals."""
    is_rdf = first.partition(b"\n")[0].rstrip().endswith(b".")
    return bool(_COUNT.match(first) or (not is_rdf and _TYPED.search(first)))


def read_typed_statements(task: ImportTask, path: Path, split: str) -> None:
    """Adds the statements of a file to an import.

    Raises:
        InputError: A line is malformed, or there are not as many as the first line says (unless the report says to skip).
    """
    with contextlib.closing(open_guarded(path, MAX_LINE)) as stream:
        add_typed_lines(task, whole_lines(stream), path, split)


def is_counted(first: bytes) -> bool:
    """Returns whether a file that begins with these bytes has a first line with the number of its statements."""
    return bool(_COUNT.match(first.removeprefix(b"\xef\xbb\xbf")))


def add_typed_lines(task: ImportTask, blocks: Iterable[bytes], path: Path, split: str) -> None:
    """Adds the statements in blocks of whole lines to an import.

    Raises:
        InputError: A line is malformed, or there are not as many as the first line says (unless the report says to skip).
    """
    number = found = 0
    expected: int | None = None
    for block in blocks:
        try:
            lines = block.decode("utf-8-sig" if not number else "utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: text is UTF-8, found the byte 0x{block[error.start]:02x} after line {number}") from None
        rows: list[Row] = []
        for line in lines:
            number += 1
            fields = line.removesuffix("\r").split("\t")
            if number == 1 and len(fields) == 1 and fields[0].strip().isdecimal():
                expected = int(fields[0])
            elif line.strip():
                found += 1
                try:
                    rows.append(_row(fields))
                except ValueError as error:
                    task.report.problem(f"{path}:{number}: {error}")
        task.add(rows, split)
        task.advance(len(lines))
    if expected is not None and expected != found:
        announced = f"the first line is the number of statements ({expected:,})"
        task.report.problem(f"{path}:1: {announced}, found {found:,}. Was the file cut off?")


def _row(fields: list[str]) -> Row:
    if len(fields) < 3 or len(fields) % 2 == 0:
        raise ValueError(f"a statement has 3 fields and then pairs, found {len(fields)} fields. Is a qualifier value missing?")
    row: Row = []
    for place, field in enumerate(fields):
        field = field.strip()
        if place >= 2 and place % 2 == 0 and field.startswith('"') and (value := _value(field)) is not None:
            row.append(value)
        elif problem := identifier_problem(field):
            raise ValueError(f"an identifier is a line of text, found {field[:60]!r}: {problem}")
        else:
            row.append(field)
    return row


def _value(field: str) -> Literal | None:
    """Returns the literal that a field in quotation marks is, or None if it is an identifier."""
    value = read_written(field)
    if isinstance(value, str):
        match = _STRING.fullmatch(value)
        return Literal(match[1]) if match else None
    if f'"^^{value.kind}' in field and value.datatype in (literal.DATE, literal.DATE_TIME) and (date := _DATE.fullmatch(value.lexical)):
        return value._replace(lexical=f"{date[1]}{date[2]:0>4}{date[3]}")  # a year has four digits in RDF
    return value

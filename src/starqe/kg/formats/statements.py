"""Statement files: one statement per line, ``head,relation,tail[,qualifier,value]*``, with commas or tabs.

Files with commas follow the rules of CSV: a field in quotation marks may contain commas and doubled quotation marks. With tabs
there is no quoting. A header line is recognised and left out; a first line with the number of statements is that of a file of typed
statements (`starqe.kg.formats.typed_statements`), which have tabs. Blank lines are skipped, space around a field is removed, and
so are angle brackets around an IRI. Labels are in a separate file: identifier, tab, label, and optionally tab, language.
"""

import contextlib
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from starqe.errors import InputError
from starqe.folders import check_only, new_folder
from starqe.kg.draft import Draft
from starqe.kg.formats.headers import FirstLine
from starqe.kg.formats.statement_checks import MAX_LINE, SHOWN, StatementFiles
from starqe.kg.formats.typed_statements import add_typed_lines, is_counted
from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.literal import written
from starqe.kg.reading.files import open_guarded, whole_lines
from starqe.kg.reading.import_task import ImportTask
from starqe.kg.reading.report import Report
from starqe.kg.statement import CONTROL, SPLITS, Statement, identifier_problem
from starqe.kg.vocabulary import Vocabulary
from starqe.ragged import BoolArray, IntArray

LABELS = "labels.tsv"
_BOM = b"\xef\xbb\xbf"
_BRACKETED = r'^<[A-Za-z][A-Za-z0-9+.-]*:[^<>"{}|\\^`\s]*>$'


def read_statements(task: ImportTask, path: Path, split: str) -> None:
    """Adds the statements of a file to the draft of an import.

    Raises:
        InputError: A line is malformed (unless the report says to skip), its columns are in another order, or the file is empty,
            damaged or not text.
    """
    separator: str | None = None
    with contextlib.closing(open_guarded(path, MAX_LINE)) as stream:
        first_line, blocks = 1, whole_lines(stream)
        first = next(blocks, b"")
        if is_counted(first):
            add_typed_lines(task, chain([first], blocks), path, split)
            return
        for block in chain([first], blocks) if first else ():
            block = block.removeprefix(_BOM) if first_line == 1 else block
            _decode(block, path, first_line)
            lines = _lines(block)
            separator = separator or _separator(block)
            table = _Table.of_lines(lines, separator or ",", first_line, quoted=b'"' in block)
            if first_line == 1 and separator:
                table = _without_header(table, separator, path, task)
            _add(table, separator or ",", path, task, split)
            first_line += len(lines)
            task.advance(len(lines))
    if separator is None:
        raise InputError(f"{path}: a statement file has one statement per line, found an empty file")
    if separator == ",":
        task.shared(StatementFiles).with_commas.append(path)


def _decode(block: bytes, path: Path, first_line: int) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        line = first_line + block[: error.start].count(b"\n")
        byte = block[error.start]
        raise InputError(
            f"{path}:{line}: text is UTF-8, found the byte 0x{byte:02x}. Convert the file, or is it in another format?"
        ) from None


def _lines(block: bytes) -> pa.StringArray:
    """Splits a block into lines without making Python strings, which would be slow for a million lines."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")).astype(np.int32) + 1
    rest = np.array([] if block.endswith(b"\n") else [len(block)], np.int32)
    offsets = np.concatenate([np.zeros(1, np.int32), ends, rest])
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(block))


def _separator(block: bytes) -> str | None:
    """Detects the separator from the first line that has text: a tab if there is one."""
    first = block.lstrip().partition(b"\n")[0]
    return None if not first else "\t" if b"\t" in first else ","


@dataclass(frozen=True)
class _Table:
    """Lines split into fields. N lines · F fields."""

    fields: pa.DictionaryArray  # (F,) without space around them
    counts: IntArray  # (N,) the number of fields of each line
    line: IntArray  # (N,) the number of each line in the file
    problems: list[tuple[int, str]]
    """Lines that could not be split, by their numbers."""

    @classmethod
    def of_lines(cls, lines: pa.StringArray, separator: str, first_line: int, quoted: bool) -> "_Table":
        """Splits lines at the separator; in a file with commas, lines with quotation marks by the rules of CSV."""
        numbers = np.arange(first_line, first_line + len(lines))
        rows: list[list[str]] = []
        problems: list[tuple[int, str]] = []
        if quoted and separator == ",":
            has_mark = pc.match_substring(lines, '"')
            with_marks = has_mark.to_numpy(zero_copy_only=False)
            rows, kept, problems = _csv_rows(lines.filter(has_mark).to_pylist(), numbers[with_marks])
            lines, numbers = lines.filter(pc.invert(has_mark)), np.concatenate([numbers[~with_marks], kept])
        cells = pc.split_pattern(lines, separator)
        counts, words = pc.list_value_length(cells).to_numpy(), cells.flatten()
        if rows:
            counts = np.concatenate([counts, np.fromiter(map(len, rows), np.int64, len(rows))])
            words = pa.concat_arrays([words, pa.array([field for row in rows for field in row], pa.string())])
        return cls(_without_brackets(pc.utf8_trim_whitespace(words).dictionary_encode()), counts, numbers, problems)

    @cached_property
    def starts(self) -> IntArray:
        """Where the fields of each line begin: (N,). Computed once, not for every malformed line."""
        starts: IntArray = np.cumsum(self.counts) - self.counts
        return starts

    def row(self, row: int) -> list[str]:
        """Returns the fields of one line."""
        start = self.starts[row]
        return [str(field) for field in self.fields[start : start + self.counts[row]].to_pylist()]

    def where(self, kept: BoolArray) -> "_Table":
        """Returns the lines that are kept: (N,) bool."""
        if kept.all():
            return self
        return _Table(self.fields.filter(pa.array(np.repeat(kept, self.counts))), self.counts[kept], self.line[kept], self.problems)


def _csv_rows(lines: list[str], numbers: IntArray) -> tuple[list[list[str]], IntArray, list[tuple[int, str]]]:
    """Splits lines by the rules of CSV; also returns the numbers of those that could be split, and the problems of the others."""
    with contextlib.suppress(csv.Error):
        rows = list(csv.reader(lines, strict=True, skipinitialspace=True))
        if len(rows) == len(lines):
            return rows, numbers, []
    rows, kept, problems, is_open = [], [], [], False
    for line, number in zip(lines, numbers.tolist(), strict=True):
        try:
            rows.append(next(csv.reader([line], strict=True, skipinitialspace=True)))
            kept.append(number)
            if is_open and line.count('"') % 2:  # the rest of a field that began on an earlier line
                rows.pop(), kept.pop()
                is_open = False
        except csv.Error as error:
            is_open = "end of data" in str(error)
            reason = "a field in quotation marks ends on its line" if is_open else f"a field in quotation marks ends at its mark ({error})"
            problems.append((number, f"{reason}, found {line.strip()[:SHOWN]!r}. A quotation mark in a name is doubled"))
    return rows, np.array(kept, np.int64), problems


def _without_brackets(fields: pa.DictionaryArray) -> pa.DictionaryArray:
    """Removes the angle brackets around IRIs."""
    words = fields.dictionary
    if not pc.any(pc.starts_with(words, "<")).as_py():
        return fields
    bare = pc.if_else(pc.match_substring_regex(words, _BRACKETED), pc.utf8_slice_codeunits(words, 1, -1), words)
    return pa.DictionaryArray.from_arrays(fields.indices, bare)


def _without_header(table: _Table, separator: str, path: Path, task: ImportTask) -> _Table:
    """Removes a header from the first block of a file, and notes it.

    Raises:
        InputError: The columns are not those of a statement.
    """
    filled = np.flatnonzero(~_blank(table, separator))
    if not len(filled):
        return table
    first = int(filled[np.argmin(table.line[filled])])
    fields, seen = table.row(first), task.shared(StatementFiles).headers
    codes, starts = table.fields.indices.to_numpy(), table.starts
    own = codes[starts[first] : starts[first] + table.counts[first]]
    others = filled[(filled != first) & (table.counts[filled] >= 2)]
    line = FirstLine(
        fields,
        alone=bool((np.bincount(codes)[own] == 1).all()),
        others=len(others),
        relations_repeat=2 * len(np.unique(codes[starts[others] + 1])) <= len(others),
    )
    reason = "another file of this import begins with it" if tuple(fields) in seen else line.header_reason()
    if reason is None:
        return table
    shown = separator.join(fields)[:SHOWN].replace("\t", " ")
    if problem := line.column_problem():
        raise InputError(f"{path}:{table.line[first]}: {problem} (the header is {shown!r})")
    seen.add(tuple(fields))
    task.report.note(f"{path}:{table.line[first]} is a header, not a statement ({shown}): {reason}")
    return table.where(np.arange(len(table.counts)) != first)


def _blank(table: _Table, separator: str) -> BoolArray:
    """Returns which lines are blank; in a file with commas, a line of commas only is not."""
    empty = pc.equal(table.fields.dictionary, "").to_numpy(zero_copy_only=False)
    if not empty.any():
        return np.zeros(len(table.counts), bool)
    empty_fields = np.add.reduceat(empty[table.fields.indices.to_numpy()].astype(np.int64), table.starts)
    blank: BoolArray = (empty_fields == table.counts) & ((separator == "\t") | (table.counts == 1))
    return blank


def _add(table: _Table, separator: str, path: Path, task: ImportTask, split: str) -> None:
    """Adds the well-formed lines to the draft; the others go to the report, in their order."""
    fields, counts = table.fields, table.counts
    good = (counts >= 3) & (counts % 2 == 1)
    unfit = pc.or_(pc.equal(fields.dictionary, ""), pc.match_substring_regex(fields.dictionary, CONTROL)).to_numpy(zero_copy_only=False)
    if unfit.any():
        good &= ~np.logical_or.reduceat(unfit[fields.indices.to_numpy()], table.starts)
    if table.problems or not good.all():
        bad = np.flatnonzero(~good & ~_blank(table, separator))
        problems = [(int(table.line[row]), _what_is_wrong(table.row(row), separator)) for row in bad.tolist()]
        for line, problem in sorted(table.problems + problems):
            task.report.problem(f"{path}:{line}: {problem}")
    kept = table.where(good)
    task.draft.add_columns(kept.fields, kept.counts, split)


def _what_is_wrong(fields: list[str], separator: str) -> str:
    if len(fields) < 3:
        other = "tab" if separator == "," else "comma"
        return f"a statement has 3 fields and then pairs, found {len(fields)}. Is the separator a {other}, or the file in another format?"
    if len(fields) % 2 == 0:
        comma = " Or is a comma part of a name? Put such names in quotation marks" if separator == "," else ""
        return f"a statement has 3 fields and then pairs, found {len(fields)} fields. Is a qualifier value missing?{comma}"
    field, problem = next((field, problem) for field in fields if (problem := identifier_problem(field)))
    return f"an identifier is a line of text, found {field[:SHOWN]!r}: {problem}"


def read_labels(path: Path, draft: Draft, report: Report) -> None:
    """Adds the labels of a file (identifier, tab, label, optionally tab and language) to a draft.

    Raises:
        InputError: A line is malformed (unless the report says to skip).
    """
    with contextlib.closing(open_guarded(path, MAX_LINE)) as stream:
        line_number = 0
        for block in whole_lines(stream):
            block = block.removeprefix(_BOM) if line_number == 0 else block
            for line in _decode(block, path, line_number + 1).removesuffix("\n").split("\n"):
                line_number += 1
                fields = line.split("\t")
                if len(fields) in (2, 3) and fields[0].strip() and fields[1].strip():
                    draft.label(fields[0].strip(), fields[1].strip(), fields[2].strip() if len(fields) == 3 else "")
                elif line.strip():
                    report.problem(
                        f"{path}:{line_number}: a label line is identifier, tab, label (tab, language), found {len(fields)} fields"
                    )


def write_statements(graph: Graph, destination: Path, _names: Names | None = None, overwrite: bool = False) -> list[Path]:
    """Writes a folder with one file per split (and the labels).

    Fields are separated by commas, or by tabs where an identifier has a comma or looks quoted. A graph with literals is written as
    typed statements: with tabs, after a line with their number.

    Raises:
        InputError: An identifier would be read as a literal.
        StorageError: The destination exists and may not be replaced, or the disk refuses.
    """
    identifiers = (identifier for vocabulary in (graph.entities, graph.relations) for identifier in vocabulary)
    typed = len(graph.literals) > 0
    with_tabs = typed or any("," in identifier or identifier.startswith('"') for identifier in identifiers)
    separator, extension = ("\t", ".tsv") if with_tabs else (",", ".txt")
    ours = {split + extension for split in SPLITS for extension in (".txt", ".tsv")} | {LABELS}
    with new_folder(destination, overwrite, lambda: check_only(destination, ours, "an export")) as place:
        for code, split in enumerate(SPLITS):
            if (graph.split == code).any():
                with (place / (split + extension)).open("w", encoding="utf-8", newline="\n") as file:
                    file.write(f"{(graph.split == code).sum()}\n" if typed else "")
                    file.writelines(separator.join(written_fields(statement, typed)) + "\n" for statement in graph.statements(split))
        if graph.entities.labels or graph.relations.labels:
            with (place / LABELS).open("w", encoding="utf-8", newline="\n") as file:
                for vocabulary in (graph.entities, graph.relations):
                    file.writelines(label_lines(vocabulary))
    return sorted(destination.iterdir())


def written_fields(statement: Statement, quoted: bool = True) -> list[str]:
    """Returns the fields of a statement as texts: a literal as `starqe.kg.literal.written` writes it.

    Args:
        statement: The statement.
        quoted: Whether an identifier in quotation marks would be read as a text.

    Raises:
        InputError: An identifier would be read as a literal.
    """
    fields = statement.fields()
    for field in fields:
        if quoted and isinstance(field, str) and field.startswith('"') and field.endswith('"'):
            raise InputError(f"beside literals, an identifier has no quotation marks around it, found {field}. Choose another form")
    try:
        return [written(field) for field in fields]
    except ValueError as error:
        raise InputError(str(error)) from None


def label_lines(vocabulary: Vocabulary) -> Iterator[str]:
    """Yields the lines of a file of labels."""
    for language, by_id in sorted(vocabulary.labels.items()):
        for id_, label in sorted(by_id.items()):
            if one_line := " ".join(label.split()):
                yield "\t".join([vocabulary.identifier(id_), one_line, *([language] if language else [])]) + "\n"

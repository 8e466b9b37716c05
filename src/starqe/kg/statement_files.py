"""Statement files: a statement a line, ``s,r,o[,qr,qv]*``, with commas or tabs.

There is no quoting: an identifier simply does not contain the separator. There is no header line. Blank lines are passed
over, space around a field does not count. Labels stand in a file of their own: identifier, tab, label, and maybe tab, language.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from starqe.errors import InputError, StorageError
from starqe.folders import new_folder
from starqe.kg.draft import Draft
from starqe.kg.files import open_guarded, whole_lines
from starqe.kg.graph import Graph
from starqe.kg.report import Report
from starqe.kg.statement import CONTROL, SPLITS, identifier_problem
from starqe.kg.vocabulary import Vocabulary

MAX_LINE = 2**20
SHOWN = 80
"""How much of a field an error repeats."""
LABELS = "labels.tsv"
HEADER = ({"head", "subject", "source", "from"}, {"relation", "predicate", "property", "edge"}, {"tail", "object", "target", "to"})
"""What the columns of a statement are called in files that begin with their names."""
_BOM = b"\xef\xbb\xbf"


def read_statement_file(path: Path, draft: Draft, report: Report, split: str, advance: Callable[[int], None]) -> None:
    """Adds the statements of a file to a draft; ``advance`` is told how many lines were read.

    Raises:
        InputError: A line is malformed (unless the report says to skip), or the file is empty, damaged or no text.
    """
    separator: str | None = None
    with contextlib.closing(open_guarded(path, MAX_LINE)) as stream:
        first_line = 1
        for block in whole_lines(stream):
            block = block.removeprefix(_BOM) if first_line == 1 else block
            _decode(block, path, first_line)
            lines, separator = _lines(block), separator or _separator(block)
            if first_line == 1 and _is_header(lines[0].as_py(), separator or ","):
                report.problem(f"{path}:1: a statement file has no header, found {lines[0].as_py().strip()[:SHOWN]!r}. Delete that line")
                lines, first_line = lines[1:], 2
            _add_lines(lines, separator or ",", path, first_line, draft, report, split)
            first_line += len(lines)
            advance(len(lines))
    if separator is None:
        raise InputError(f"{path}: a statement file has a statement a line, found an empty file")


def _decode(block: bytes, path: Path, first_line: int) -> str:
    try:
        return block.decode()
    except UnicodeDecodeError as error:
        line = first_line + block[: error.start].count(b"\n")
        byte = block[error.start]
        raise InputError(
            f"{path}:{line}: text is UTF-8, found the byte 0x{byte:02x}. Convert the file, or is it of another format?"
        ) from None


def _lines(block: bytes) -> pa.StringArray:
    """Cuts a block behind its line ends; no line becomes a Python string, which keeps a million of them cheap."""
    ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n")).astype(np.int32) + 1
    rest = np.array([] if block.endswith(b"\n") else [len(block)], np.int32)
    offsets = np.concatenate([np.zeros(1, np.int32), ends, rest])
    return pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(block))


def _separator(block: bytes) -> str | None:
    """Tells the separator from the first line that has text: a tab wherever there is one."""
    first = block.lstrip().partition(b"\n")[0]
    return None if not first else "\t" if b"\t" in first else ","


def _is_header(line: str, separator: str) -> bool:
    fields = [field.strip().strip('"').lower() for field in line.split(separator)]
    return len(fields) >= 3 and all(field in names for field, names in zip(fields, HEADER, strict=False))


def _is_half_quoted(fields: pa.StringArray) -> pa.BooleanArray:
    """Says which fields begin with a quotation mark that is closed in another field: the separator was meant to be quoted."""
    closed = pc.and_(pc.ends_with(fields, '"'), pc.greater(pc.utf8_length(fields), 1))
    return pc.and_(pc.starts_with(fields, '"'), pc.invert(closed))


def _add_lines(lines: pa.StringArray, separator: str, path: Path, first_line: int, draft: Draft, report: Report, split: str) -> None:
    cells = pc.split_pattern(lines, separator)
    counts = pc.list_value_length(cells).to_numpy()
    fields = pc.utf8_trim_whitespace(cells.flatten()).dictionary_encode()
    good = (counts >= 3) & (counts % 2 == 1)
    unfit = pc.or_(pc.equal(fields.dictionary, ""), pc.match_substring_regex(fields.dictionary, CONTROL)).to_numpy(zero_copy_only=False)
    if separator == ",":
        unfit |= _is_half_quoted(fields.dictionary).to_numpy(zero_copy_only=False)
    if unfit.any():
        good &= ~np.logical_or.reduceat(unfit[fields.indices.to_numpy()], np.cumsum(counts) - counts)
    if not good.all():
        blank = pc.equal(pc.utf8_trim_whitespace(lines), "").to_numpy(zero_copy_only=False)
        for row in np.flatnonzero(~good & ~blank).tolist():
            report.problem(f"{path}:{first_line + row}: {_what_is_wrong(cells[row].as_py(), separator)}")
        fields = fields.filter(pa.array(np.repeat(good, counts)))
        counts = counts[good]
    draft.add_columns(fields, counts, split)


def _what_is_wrong(fields: list[str], separator: str) -> str:
    if separator == "," and any(half := _is_half_quoted(pa.array([field.strip() for field in fields], pa.string())).to_pylist()):
        found = fields[half.index(True)].strip()[:SHOWN]
        return f"there is no quoting, found {found!r}. Write tabs between the fields, and no quotation marks"
    if len(fields) < 3:
        other = "tab" if separator == "," else "comma"
        return f"a statement has 3 fields and then pairs, found {len(fields)}. Is the separator a {other}, or the file of another format?"
    if len(fields) % 2 == 0:
        return f"a statement has 3 fields and then pairs, found {len(fields)} fields. Is a qualifier value missing?"
    field, problem = next((field, problem) for field in fields if (problem := identifier_problem(field.strip())))
    return f"an identifier is a line of text, found {field.strip()[:SHOWN]!r}: {problem}"


def read_labels(path: Path, draft: Draft, report: Report) -> None:
    """Adds the labels of a file (identifier, tab, label, maybe tab and language) to a draft.

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


def write_statement_files(graph: Graph, destination: Path, overwrite: bool = False) -> list[Path]:
    """Writes a folder with a file a split (and the labels), with commas, or tabs where an identifier has a comma or looks quoted.

    Raises:
        StorageError: The destination exists and may not be replaced, or the disk refuses.
    """
    identifiers = (identifier for vocabulary in (graph.entities, graph.relations) for identifier in vocabulary)
    with_tabs = any("," in identifier or identifier.startswith('"') for identifier in identifiers)
    separator, extension = ("\t", ".tsv") if with_tabs else (",", ".txt")
    with new_folder(destination, overwrite, lambda: _check_statement_folder(destination)) as place:
        for code, split in enumerate(SPLITS):
            if (graph.split == code).any():
                with (place / (split + extension)).open("w", encoding="utf-8", newline="\n") as file:
                    file.writelines(separator.join(statement.fields()) + "\n" for statement in graph.statements(split))
        if graph.entities.labels or graph.relations.labels:
            with (place / LABELS).open("w", encoding="utf-8", newline="\n") as file:
                for vocabulary in (graph.entities, graph.relations):
                    file.writelines(_label_lines(vocabulary))
    return sorted(destination.iterdir())


def _label_lines(vocabulary: Vocabulary) -> Iterator[str]:
    for language, by_id in sorted(vocabulary.labels.items()):
        for id_, label in sorted(by_id.items()):
            if one_line := " ".join(label.split()):
                yield "\t".join([vocabulary.identifier(id_), one_line, *([language] if language else [])]) + "\n"


def _check_statement_folder(folder: Path) -> None:
    ours = {split + extension for split in SPLITS for extension in (".txt", ".tsv")} | {LABELS}
    if foreign := sorted({path.name for path in folder.iterdir()} - ours):
        raise StorageError(f"{folder} is not replaced: it holds '{foreign[0]}', which is no file of an export")

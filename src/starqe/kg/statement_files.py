"""Statement files: a statement a line, ``s,r,o[,qr,qv]*``, with commas or tabs.

There is no quoting: an identifier simply does not contain the separator. Blank lines are passed over, space around
a field does not count. Labels stand in a file of their own: identifier, tab, label, and maybe tab, language.
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


def _add_lines(lines: pa.StringArray, separator: str, path: Path, first_line: int, draft: Draft, report: Report, split: str) -> None:
    cells = pc.split_pattern(lines, separator)
    counts = pc.list_value_length(cells).to_numpy()
    fields = pc.utf8_trim_whitespace(cells.flatten()).dictionary_encode()
    good = (counts >= 3) & (counts % 2 == 1)
    unfit = pc.or_(pc.equal(fields.dictionary, ""), pc.match_substring_regex(fields.dictionary, CONTROL)).to_numpy(zero_copy_only=False)
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
    """Writes a folder with a file a split (and the labels), with commas, or tabs where an identifier has a comma.

    Raises:
        StorageError: The destination exists and may not be replaced, or the disk refuses.
    """
    with_comma = any("," in identifier for vocabulary in (graph.entities, graph.relations) for identifier in vocabulary)
    separator, extension = ("\t", ".tsv") if with_comma else (",", ".txt")
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

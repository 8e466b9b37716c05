"""Graphs in and out: which file is of which form, and who reads and writes it."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from starqe.errors import InputError
from starqe.kg.draft import Draft
from starqe.kg.files import OPENERS, open_guarded
from starqe.kg.graph import Graph
from starqe.kg.hypergraph import write_hypergraph
from starqe.kg.names import Names
from starqe.kg.rdf_in import RdfReader
from starqe.kg.rdf_out import write_rdf
from starqe.kg.report import Report
from starqe.kg.statement import SPLITS
from starqe.kg.statement_files import LABELS, read_labels, read_statement_file, write_statement_files
from starqe.kg.store import HEADER

RDF_MAX_LINE = 64 * 2**20


@dataclass(frozen=True)
class Form:
    """One form that graphs are written in."""

    extensions: tuple[str, ...]
    readable: bool
    """Whether it can be imported."""
    folder: bool
    """Whether an export is a folder with a file a split."""
    explanation: str


FORMS = {
    "statements": Form((".txt", ".csv", ".tsv"), True, True, "a statement a line: s,r,o and then qualifier pairs; comma or tab"),
    "turtle": Form((".ttl",), True, True, "RDF 1.2 Turtle, a file a split"),
    "trig": Form((".trig",), True, False, "RDF 1.2 TriG, a named graph a split"),
    "ntriples": Form((".nt",), True, True, "RDF 1.2 N-Triples, a file a split"),
    "nquads": Form((".nq",), True, False, "RDF 1.2 N-Quads, a named graph a split"),
    "reification": Form((".reified.nq",), True, False, "standard RDF reification as N-Quads, a named graph a split"),
    "hypergraph": Form((".hyper.tsv",), False, False, "the entities of a statement a line, without roles; export only"),
}
"""Every form of a graph, by its name on the command line."""


def form_of(path: Path) -> str:
    """Tells the form from the extension; a compression's extension may follow.

    Raises:
        InputError: No form has this extension.
    """
    name = path.name.removesuffix(path.suffix) if path.suffix in OPENERS else path.name
    fitting = [(len(extension), form) for form, kind in FORMS.items() for extension in kind.extensions if name.endswith(extension)]
    if not fitting:
        known = " ".join(extension for kind in FORMS.values() for extension in kind.extensions)
        raise InputError(
            f"{path}: the form is told by the extension ({known}, then maybe {' '.join(OPENERS)}). Rename the file, or give --format"
        )
    return max(fitting)[1]


def import_graph(
    source: Path,
    form: str | None = None,
    names: Names | None = None,
    on_error: Literal["stop", "skip"] = "stop",
    unasserted: Literal["leave", "keep"] = "leave",
    advance: Callable[[int], None] = lambda _: None,
) -> tuple[Graph, Report]:
    """Reads a graph from a file, or from a folder with a file for each of train, valid and test.

    Args:
        source: The file or folder; ``labels.tsv`` in the folder, or beside the file, is picked up.
        form: A name of `FORMS`; told by the extension if left out.
        names: How identifiers are written in RDF.
        on_error: Whether a malformed statement stops the import or is left out and counted.
        unasserted: Whether a reified triple that nothing asserts is left out.
        advance: Told now and then how many more lines of statement files were read.

    Raises:
        InputError: The source is missing, empty, damaged, malformed, or of a form that cannot be read.
    """
    draft, report, names = Draft(), Report(on_error), names or Names()
    reader: RdfReader | None = None
    for path, split in _files(source):
        kind = form or form_of(path)
        if not FORMS[kind].readable:
            raise InputError(f"{path}: the form '{kind}' can be exported only; it does not keep what a graph needs")
        if kind == "statements":
            read_statement_file(path, draft, report, split, advance)
        else:
            reader = reader or RdfReader(draft, report, names, unasserted)
            with contextlib.closing(open_guarded(path, RDF_MAX_LINE)) as stream:
                reader.read(stream, str(path), kind, split)
    if reader:
        reader.finish()
    labels = (source if source.is_dir() else source.parent) / LABELS
    if labels.is_file() and labels != source:
        read_labels(labels, draft, report)
    try:
        graph = draft.finish(names)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    report.duplicates, report.idle_labels = draft.duplicates, draft.idle_labels
    return graph, report


def export_graph(
    graph: Graph, destination: Path, form: str | None = None, names: Names | None = None, overwrite: bool = False
) -> list[Path]:
    """Writes a graph, and gives the files written; the destination is whole or unchanged.

    Args:
        graph: The graph.
        destination: A file, or a folder where the form has a file a split.
        form: A name of `FORMS`; told by the destination's extension if left out, else statements.
        names: How identifiers are written in RDF; the graph's own if left out.
        overwrite: Whether an earlier export there is replaced.

    Raises:
        InputError: An identifier cannot be written in this form, or the destination has the extension of a compression.
        StorageError: The destination exists and may not be replaced, or the disk refuses.
    """
    if destination.suffix in OPENERS:
        raise InputError(f"an export is not compressed, found {destination.name}. Leave {destination.suffix} out, and compress it then")
    form = form or (form_of(destination) if destination.suffix else "statements")
    if form == "statements":
        return write_statement_files(graph, destination, overwrite)
    if form == "hypergraph":
        return write_hypergraph(graph, destination, overwrite)
    return write_rdf(graph, destination, form, names or graph.names, overwrite)


def _files(source: Path) -> list[tuple[Path, str]]:
    """Finds the files of a source, each with its split."""
    if source.is_file():
        return [(source, "train")]
    if not source.is_dir():
        raise InputError(f"{source}: there is no such file or folder")
    if (source / HEADER).exists():
        raise InputError(f"{source} is a graph of starqe already; it needs no import")
    found = []
    for split in SPLITS:
        files = sorted(path for path in source.iterdir() if path.is_file() and path.name.split(".")[0] == split and _has_form(path))
        if len(files) > 1:
            raise InputError(f"{source}: a split is one file, found {' and '.join(path.name for path in files)}. Name the one you mean")
        found += [(path, split) for path in files]
    meant = {"dev": "valid", "validation": "valid", "val": "valid", "eval": "test"}
    for path in sorted(source.iterdir()):
        if (name := path.name.split(".")[0]) in meant and path.is_file() and _has_form(path):
            better = path.name.replace(name, meant[name], 1)
            raise InputError(f"{source}: splits are called train, valid and test, found {path.name}. Rename it to {better}")
    if not found:
        names = ", ".join(sorted(path.name for path in source.iterdir())[:5]) or "nothing"
        raise InputError(f"{source}: a folder of a graph has files named train, valid and test (such as train.txt), found {names}")
    return found


def _has_form(path: Path) -> bool:
    try:
        return FORMS[form_of(path)].readable
    except InputError:
        return False

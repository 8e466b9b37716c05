"""Imports and exports graphs: the table of forms, and the detection of the form of a file."""

import codecs
import contextlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Literal

from pyoxigraph import RdfFormat

from starqe.errors import InputError
from starqe.kg.formats.bulk_csv import is_neo4j, is_neptune, read_bulk_csv, write_neo4j
from starqe.kg.formats.graphml import is_graphml, read_graphml, write_graphml
from starqe.kg.formats.graphson import is_graphson, read_graphson
from starqe.kg.formats.hypergraph import write_hypergraph
from starqe.kg.formats.kgtk import is_kgtk, read_kgtk, write_kgtk
from starqe.kg.formats.nary import is_nary, read_nary, write_nary
from starqe.kg.formats.statements import LABELS, read_labels, read_statements, write_statements
from starqe.kg.formats.tables import read_json_lines, read_table, write_json_lines
from starqe.kg.formats.typed_statements import is_typed, read_typed_statements
from starqe.kg.formats.wikidata import is_wikidata, read_wikidata
from starqe.kg.graph import Graph
from starqe.kg.graph_folder import HEADER
from starqe.kg.iris import Names
from starqe.kg.rdf.read import read_rdf
from starqe.kg.rdf.write import write_nquads, write_ntriples, write_reification, write_trig, write_turtle
from starqe.kg.reading.buckets import bucketed
from starqe.kg.reading.checksums import BESIDE, check_source
from starqe.kg.reading.files import OPENERS, STDIN, open_guarded
from starqe.kg.reading.form import Form
from starqe.kg.reading.import_options import Columns, LiteralChoice, WikidataOptions
from starqe.kg.reading.import_task import ImportTask, Unasserted, no_garbage_collection
from starqe.kg.reading.report import Report
from starqe.kg.statement import SPLITS

FIRST_BYTES = 2**16
"""The number of bytes of a file by which its form is detected."""

_DECLARATION = re.compile(rb"(?:\s*#[^\n]*\n)*\s*(?:@prefix|@base|prefix|base)\s[^\n]*<", re.IGNORECASE)
_QUAD = re.compile(rb"(?:\s*#[^\n]*\n)*\s*(?:<[^<>\s]+>|_:\S+)\s+<[^<>\s]+>\s+[<_\"][^\n]*\.[ \t\r]*(?:\n|$)")
_RDF_XML = re.compile(  # possessive, since a long prolog would take for ever otherwise
    rb"\s*+(?:<\?.*?\?>\s*+|<!--.*?-->\s*+|<!DOCTYPE[^\[>]*+(?:\[.*?\]\s*+)?>\s*+)*+<(?:\w+:)?RDF\b", re.DOTALL
)

FORMS = {
    "statements": Form(
        (".txt", ".csv", ".tsv"),
        "one statement per line: head, relation, tail, qualifier pairs",
        read_statements,
        write_statements,
        folder=True,
        content_decides=True,
    ),
    "turtle": Form((".ttl",), "RDF 1.2 Turtle", partial(read_rdf, syntax=RdfFormat.TURTLE), write_turtle, folder=True),
    "trig": Form((".trig",), "RDF 1.2 TriG", partial(read_rdf, syntax=RdfFormat.TRIG), write_trig, recognise=_DECLARATION.match),
    "turtle-star": Form((".ttls",), "Turtle-star, from before RDF 1.2", partial(read_rdf, syntax=RdfFormat.TURTLE, star=True)),
    "trig-star": Form((".trigs",), "TriG-star, from before RDF 1.2", partial(read_rdf, syntax=RdfFormat.TRIG, star=True)),
    "ntriples": Form((".nt",), "RDF 1.2 N-Triples", partial(read_rdf, syntax=RdfFormat.N_TRIPLES), write_ntriples, folder=True),
    "nquads": Form((".nq",), "RDF 1.2 N-Quads", partial(read_rdf, syntax=RdfFormat.N_QUADS), write_nquads, recognise=_QUAD.match),
    "reification": Form(
        (".reified.nq",),
        "standard RDF reification, as N-Quads",
        partial(read_rdf, syntax=RdfFormat.N_QUADS, standard=True),
        write_reification,
    ),
    "graphson": Form((), "GraphSON, versions 1 to 3", read_graphson, recognise=is_graphson),
    "wikidata": Form((), "Wikidata's JSON, as a dump or single entities", read_wikidata, recognise=is_wikidata),
    "rdfxml": Form(
        (".rdf", ".owl", ".xml"),
        "RDF/XML",
        partial(read_rdf, syntax=RdfFormat.RDF_XML),
        recognise=_RDF_XML.match,
        content_decides=True,
    ),
    "jsonld": Form(
        (".jsonld",),
        "JSON-LD",
        partial(read_rdf, syntax=RdfFormat.JSON_LD),
        recognise=re.compile(rb"\s*[\[{].*\"@(?:context|graph|id|type)\"\s*:", re.DOTALL).match,
    ),
    "n3": Form((".n3",), "the part of Notation3 that is RDF", partial(read_rdf, syntax=RdfFormat.N3)),
    "kgtk": Form((), "edge files of KGTK, qualifiers as edges about edges", read_kgtk, write_kgtk, True, is_kgtk),
    "neo4j": Form((), "tables of nodes and edges as Neo4j loads them", read_bulk_csv, write_neo4j, True, is_neo4j),
    "neptune": Form((), "tables of nodes and edges as Neptune loads them", read_bulk_csv, recognise=is_neptune),
    "graphml": Form((".graphml",), "GraphML", read_graphml, write_graphml, True, is_graphml),
    "table": Form((".parquet",), "a table (CSV, TSV, Parquet, JSON Lines) whose columns are named by the user", read_table),
    "nary": Form((), "n-ary facts in JSON, as WikiPeople and JF17K have them", read_nary, write_nary, True, is_nary),
    "jsonl": Form((".jsonl", ".ndjson"), "one statement per line, in JSON", read_json_lines, write_json_lines, content_decides=True),
    "typed-statements": Form((), "statements with typed literals, as HN-YG has them", read_typed_statements, recognise=is_typed),
    "hypergraph": Form((".hyper.tsv",), "the entities of a statement, without their roles", write=write_hypergraph),
}
"""Every form of a graph, by its name on the command line. A new form is a module with its reader or writer, and a line here."""


def form_named(name: str) -> Form:
    """Returns a form by its name.

    Raises:
        InputError: No form has this name.
    """
    if name not in FORMS:
        raise InputError(f"the form of a graph is one of {', '.join(FORMS)}, found {name!r}")
    return FORMS[name]


def form_of(path: Path) -> str:
    """Returns the form by the extension, in upper or lower case; the extension of a compression may follow.

    Raises:
        InputError: No form has this extension.
    """
    if (found := _form_of_name(path)) is None:
        known = " ".join(extension for kind in FORMS.values() for extension in kind.extensions)
        raise InputError(
            f"{path}: the form is detected by the extension ({known}, optionally with {' '.join(OPENERS)}) or by the content. "
            "Rename it, or name its form with the option format"
        )
    return found


def _form_of_name(path: Path) -> str | None:
    name = path.name.lower()
    name = name.removesuffix(path.suffix.lower()) if path.suffix.lower() in OPENERS else name
    fitting = [(len(extension), form) for form, kind in FORMS.items() for extension in kind.extensions if name.endswith(extension)]
    return max(fitting)[1] if fitting else None


def form_of_content(path: Path) -> str | None:
    """Returns the form that is recognised by the first bytes of a file, or None."""
    with (
        contextlib.suppress(InputError),
        contextlib.closing(open_guarded(path, FIRST_BYTES)) as stream,
    ):  # the reader will describe the damage
        first = stream.read(FIRST_BYTES).removeprefix(codecs.BOM_UTF8)
        return next((name for name, form in FORMS.items() if form.recognise and form.recognise(first)), None)
    return None


def detect_form(path: Path, report: Report) -> str:
    """Detects the form of a file by its name, or else by its content, which is noted.

    Raises:
        InputError: Neither name nor content is known.
    """
    by_name = _form_of_name(path)
    if by_name and not FORMS[by_name].content_decides:
        return by_name
    by_content = form_of_content(path)
    if by_content and by_content != by_name and FORMS[by_content].extensions:
        report.note(f"{path} is read as {by_content}, detected by its content (the option format chooses another form)")
    return by_content or by_name or form_of(path)


def _form_to_read(path: Path, form: str | None, report: Report) -> str:
    if path == STDIN and form is None:
        raise InputError("standard input has no name to detect the form by. Name its form with the option format")
    kind = form or detect_form(path, report)
    if form_named(kind).read is None:
        raise InputError(f"{path}: the form '{kind}' can only be exported: it does not hold all of a graph")
    return kind


def import_graph(
    source: Path | Sequence[Path],
    form: str | None = None,
    names: Names | None = None,
    on_error: Literal["stop", "skip"] = "stop",
    unasserted: Unasserted = "leave",
    advance: Callable[[int], None] = lambda _: None,
    wikidata: WikidataOptions | None = None,
    label_relations: Sequence[str] = (),
    columns: Columns | None = None,
    literals: LiteralChoice = "keep",
    graph_qualifier: str | None = None,
    value_node: str | None = None,
) -> tuple[Graph, Report]:
    """Reads a graph from files, or from a folder with one file for each of train, valid and test.

    Args:
        source: A file, several files of one graph, ``-`` for standard input, or a folder; ``labels.tsv`` in the folder, or
            next to the file, is read too. In a folder without train, valid and test, the forms of the files are detected by content.
        form: A name of `FORMS`; detected for each file if left out.
        names: How identifiers are written in RDF.
        on_error: Whether a malformed statement stops the import or is left out and counted.
        unasserted: Whether a reified triple that is not asserted is left out.
        advance: Called with the number of lines or records read since the last call.
        wikidata: Which part of a Wikidata dump is read.
        label_relations: Properties of nodes, or IRIs of RDF predicates, that are labels, besides those that usually are.
        columns: The columns of a table that make a statement; then files are read as tables, unless the form is given.
        literals: Whether literal values are kept, become entities for ranges of numbers and dates, or are left out.
        graph_qualifier: The relation of the qualifier that holds the named graph of an RDF statement, by identifier or IRI.
        value_node: The IRI of the predicate from the nodes of n-ary relations in RDF to their objects.

    Raises:
        InputError: The source is missing, empty, damaged, malformed, or of a form that is unknown or cannot be read; or a file is not
            what its checksum says (``FILE.sha256`` beside it, or that of a fetched data set).
    """
    sources = [source] if isinstance(source, Path) else list(source)
    task = ImportTask(
        report=Report(on_error),
        names=names or Names(),
        unasserted=unasserted,
        advance=advance,
        wikidata=wikidata or WikidataOptions(),
        label_relations=tuple(label_relations),
        columns=columns,
        literals=literals,
        graph_qualifier=graph_qualifier,
        value_node=value_node,
    )
    read_files(task, sources, form)
    draft, report = task.draft, task.report
    if not len(draft):
        raise InputError(f"{' '.join(map(str, sources))}: a graph has at least one statement, found none{_instead(report)}")
    graph = replace(draft.finish(task.names), title=_title(sources[0]))
    report.duplicates, report.idle_labels = draft.duplicates, draft.idle_labels
    _note_malformed_literals(graph, report)
    graph = bucketed(graph, report) if literals == "bucket" else graph
    task.check(graph)
    return graph, report


def read_files(task: ImportTask, sources: Sequence[Path], form: str | None = None) -> None:
    """Reads files into the draft of an import, with the labels beside them.

    Raises:
        InputError: A source is missing, damaged, malformed, or of a form that is unknown or cannot be read.
    """
    for one in sources:
        check_source(one)
    with no_garbage_collection():
        for path, split in [file for one in sources for file in _files(one, form, task.report)]:
            kind = _form_to_read(path, form or ("table" if task.columns else None), task.report)
            task.report.forms[kind] += 1
            if read := FORMS[kind].read:
                read(task, path, split)
        task.finish()
    _check_slice(task)
    folders = dict.fromkeys(one if one.is_dir() else one.parent for one in sources if one != STDIN)
    for labels in (folder / LABELS for folder in folders):
        if labels.is_file() and labels not in sources:
            read_labels(labels, task.draft, task.report)


def _check_slice(task: ImportTask) -> None:
    """Makes sure that a choice of a part of Wikidata met Wikidata's JSON."""
    if task.wikidata.is_slice and "wikidata" not in task.report.forms:
        found = ", ".join(task.report.forms)
        raise InputError(f"classes, properties and a least number of statements choose from Wikidata's JSON, found {found}")


def _note_malformed_literals(graph: Graph, report: Report) -> None:
    """Notes numbers and dates that are none, such as a name in a column of dates; they are kept as they are."""
    if malformed := graph.literals.malformed:
        counts = ", ".join(f"{kind} {count:,}" for kind, count in sorted(Counter(literal.kind for literal in malformed).items()))
        report.note(
            f"values that are not what their datatype says: {counts} (such as {malformed[0].lexical[:60]!r}). "
            "They are kept as they are, and no comparison holds for them"
        )


def _title(source: Path) -> str:
    """Returns the name of a file without its extensions, or that of a folder."""
    return "" if source == STDIN else source.resolve().name if source.is_dir() else source.name.split(".")[0]


def export_graph(
    graph: Graph, destination: Path, form: str | None = None, names: Names | None = None, overwrite: bool = False
) -> list[Path]:
    """Writes a graph, completely or not at all, and returns the files written.

    Args:
        graph: The graph.
        destination: A file, or a folder where the form has one file per split.
        form: A name of `FORMS`; if left out, that of the destination's extension, or else statements.
        names: How identifiers are written in RDF; the graph's own if left out.
        overwrite: Whether an earlier export there is replaced.

    Raises:
        InputError: The form is unknown or cannot be written, an identifier cannot be written in it, or the destination has the
            extension of a compression.
        StorageError: The destination exists and may not be replaced, or the disk refuses.
    """
    if destination.suffix.lower() in OPENERS:
        raise InputError(
            f"an export is not compressed, found {destination.name}. Leave {destination.suffix} out, and compress it afterwards"
        )
    kind = form or (form_of(destination) if destination.suffix else "statements")
    write = form_named(kind).write
    if write is None:
        raise InputError(f"{destination}: the form '{kind}' can only be imported. Choose another one")
    return write(graph, destination, names or graph.names, overwrite)


def _instead(report: Report) -> str:
    """Describes what was found instead of statements."""
    if report.literals and not report.unasserted:
        return f". {'; '.join(report.findings())}. To keep them, set the option literals to keep"
    return f". {'; '.join(report.findings())}" if report.findings() else ""


def _files(source: Path, form: str | None, report: Report) -> list[tuple[Path, str]]:
    """Finds the files of a source, each with its split: those of a known form, or all if the form is given; others are noted."""
    if source.is_file() or source == STDIN:
        return [(source, "train")]
    if not source.is_dir():
        raise InputError(f"{source}: there is no such file or folder")
    if (source / HEADER).exists():
        raise InputError(f"{source} is already a graph folder of starqe; it needs no import")
    found = []
    inside = sorted(path for path in source.iterdir() if path.is_file() and path.suffix != BESIDE)
    for split in SPLITS:
        files = [path for path in inside if path.name.split(".")[0] == split and (form or _has_form(path))]
        if len(files) > 1:
            raise InputError(f"{source}: a split is one file, found {' and '.join(path.name for path in files)}. Give the one to read")
        found += [(path, split) for path in files]
    meant = {"dev": "valid", "validation": "valid", "val": "valid", "eval": "test"}
    for path in inside:
        if (name := path.name.split(".")[0]) in meant and (form or _has_form(path)):
            better = path.name.replace(name, meant[name], 1)
            raise InputError(f"{source}: splits are called train, valid and test, found {path.name}. Rename it to {better}")
    if not found:
        found = [(path, "train") for path in inside if form or form_of_content(path) or _has_own_extension(path)]
        others = [path.name for path in inside if (path, "train") not in found and path.name != LABELS]
        if found and others:
            names = ", ".join(others[:5]) + (f" and {len(others) - 5:,} more" if len(others) > 5 else "")
            report.note(f"not read in {source}, since neither name nor content tells the form: {names}")
    if not found:
        names = ", ".join(sorted(path.name for path in source.iterdir())[:5]) or "nothing"
        raise InputError(f"{source}: a folder of a graph has files named train, valid and test (such as train.txt), found {names}")
    return found


def _has_form(path: Path) -> bool:
    return (_form_of_name(path) is not None or form_of_content(path) is not None) and FORMS[detect_form(path, Report())].read is not None


def _has_own_extension(path: Path) -> bool:
    """Returns whether a file has an extension that only files of its form have."""
    form = _form_of_name(path)
    return form is not None and FORMS[form].read is not None and not FORMS[form].content_decides

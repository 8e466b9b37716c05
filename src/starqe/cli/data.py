"""``starqe data``: imports, exports and describes graphs; fetches published data sets."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from starqe.cli.show import Json, Overwrite, print_json, print_pairs, print_table, progress, say

if TYPE_CHECKING:
    from starqe.kg import Columns, Graph, Names
    from starqe.kg.reading.import_options import WikidataOptions
    from starqe.kg.reading.report import Report

app = typer.Typer(help="Graphs: import, export, statistics; published data sets by name.", no_args_is_help=True)


def form_name(text: str) -> str:
    """Checks the name of a form against `FORMS`, which is imported only then because it takes a while."""
    from starqe.kg import FORMS

    if text not in FORMS:
        raise typer.BadParameter(f"'{text}' is not one of {', '.join(FORMS)}")
    return text


def form_names(incomplete: str) -> list[str]:
    """Completes the name of a form."""
    from starqe.kg import FORMS

    return [name for name in FORMS if name.startswith(incomplete)]


Format = Annotated[
    str | None,
    typer.Option(
        "--format",
        parser=form_name,
        metavar="FORM",
        autocompletion=form_names,
        help="The form, such as turtle; detected if left out. docs/data.md lists them.",
    ),
]
OnError = Annotated[Literal["stop", "skip"], typer.Option(help="Stop at a malformed statement, or skip and count it.")]
Unasserted = Annotated[Literal["leave", "keep"], typer.Option(help="What to do with reified triples that nothing asserts.")]
EntityBase = Annotated[str | None, typer.Option(help="IRI in front of entity identifiers in RDF, such as http://www.wikidata.org/entity/")]
RelationBase = Annotated[str | None, typer.Option(help="IRI in front of relation identifiers in RDF.")]
Head = Annotated[str | None, typer.Option(help="Tables: the column with the heads.")]
Relation = Annotated[str | None, typer.Option(help="Tables: the column with the relations.")]
Tail = Annotated[str | None, typer.Option(help="Tables: the column with the tails.")]
Qualifier = Annotated[list[str] | None, typer.Option(help="Tables: a column with values of a qualifier; may be given several times.")]
Name = Annotated[str, typer.Argument(help="The name of a published data set, such as wd50k.")]
MOST = 5
"""Number of relations that are listed when something was left out."""
RANKS, LANGUAGES = "preferred,normal", "en"
Ranks = Annotated[str, typer.Option(help="Wikidata: the ranks of statements to read, or best.")]
Languages = Annotated[str, typer.Option(help="Wikidata: languages of labels, such as en,de.")]
Classes = Annotated[str, typer.Option(help="Wikidata: only instances of these classes, such as Q5,Q571.")]
Properties = Annotated[str, typer.Option(help="Wikidata: only statements with these properties, such as P19,P69.")]
MinStatements = Annotated[int, typer.Option(min=0, help="Wikidata: only entities with at least this many statements.")]
SpecialValues = Annotated[Literal["leave", "keep"], typer.Option(help="Wikidata: leave out or keep unknown and no values.")]
Label = Annotated[list[str] | None, typer.Option(help="A property, or the IRI of a predicate, that is a label, besides the usual ones.")]
SOURCE = (
    "A file (plain, .gz, .bz2 or .zst), several files, - for standard input, a folder with train, valid and test files or with the "
    "files of one dump, or the name of a data set that was fetched."
)


@app.command("import")
def import_(
    source: Annotated[list[Path], typer.Argument(help=SOURCE)],
    graph: Annotated[Path, typer.Argument(help="The folder to write.")],
    form: Format = None,
    split: Annotated[
        str | None, typer.Option(help="Split a graph without splits, transductively: shares of train, valid, test, such as 0.8,0.1,0.1")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides the split.")] = 0,
    on_error: OnError = "stop",
    unasserted: Unasserted = "leave",
    entity_base: EntityBase = None,
    relation_base: RelationBase = None,
    ranks: Ranks = RANKS,
    languages: Languages = LANGUAGES,
    classes: Classes = "",
    properties: Properties = "",
    min_statements: MinStatements = 0,
    special_values: SpecialValues = "leave",
    head: Head = None,
    relation: Relation = None,
    tail: Tail = None,
    qualifier: Qualifier = None,
    label: Label = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Read a graph from statement files, RDF, Wikidata's JSON, KGTK, a property graph or a table."""
    from starqe.errors import InputError, StorageError
    from starqe.kg import SPLITS, graph_stats, import_graph, save_graph, transductive_split
    from starqe.kg.graph_folder import check_replaceable
    from starqe.kg.published.datasets import data_home, named_source

    if graph.exists() and not overwrite:
        raise StorageError(f"{graph} exists already. Choose another place, or replace it with the option overwrite")
    if graph.is_dir() and any(graph.iterdir()):
        check_replaceable(graph)
    shares = _shares(split) if split else None
    wikidata = wikidata_options(ranks, languages, classes, properties, min_statements, special_values)
    sources = [named_source(one, data_home(os.environ, sys.platform)) for one in source]
    with progress("reading", unit="lines or records") as advance:
        made, report = import_graph(
            sources,
            form,
            names_with(entity_base, relation_base),
            on_error,
            unasserted,
            advance,
            wikidata,
            label or (),
            columns_named(head, relation, tail, qualifier),
        )
    if shares and (made.split != 0).any():
        counts = ", ".join(f"{name} {(made.split == code).sum():,}" for code, name in enumerate(SPLITS))
        raise InputError(
            f"{' '.join(map(str, sources))} has splits already ({counts}), and --split would make training statements of its test "
            "statements. Leave --split out, or import one of its files"
        )
    if shares:
        made = transductive_split(made, shares, seed)
    save_graph(made, graph, overwrite)
    if as_json:
        print_json({**graph_stats(made), "report": report.as_dict()})
        return
    print(f"{graph}: {len(made):,} statements, {len(made.entities):,} entities, {len(made.relations):,} relations")
    print_findings(made, report)


def wikidata_options(
    ranks: str, languages: str, classes: str, properties: str, min_statements: int, special_values: Literal["leave", "keep"]
) -> "WikidataOptions":
    """Reads the options that say which part of a Wikidata dump is wanted."""
    from starqe.kg.reading.import_options import WikidataOptions

    chosen = frozenset(_words(classes)), frozenset(_words(properties))
    return WikidataOptions(_words(ranks), _words(languages), *chosen, min_statements, special_values)


def print_findings(graph: "Graph", report: "Report") -> None:
    """Prints what reading a graph left out, and what its splits have in common."""
    from starqe.kg import FORMS, graph_stats

    for form, files in report.forms.items():
        if not FORMS[form].extensions:
            print(f"  read as {form}: {files:,} file{'s' * (files > 1)} (--format reads them as another form)")
    for finding in report.findings():
        say(f"  {finding}")
    for reason, counts in report.left_out.items():
        most = ", ".join(f"{relation} {count:,}" for relation, count in counts.most_common(MOST))
        more = f", and {len(counts) - MOST:,} more" if len(counts) > MOST else ""
        say(f"  {reason}, left out by relation: {most}{more}")
    for problem in report.problems:
        say(f"    {problem}")
    for note in report.notes:
        say(f"  note: {note}")
    findings = {name: count for name, count in graph_stats(graph)["split_findings"].items() if count and name != "distinct_statements"}
    if findings:
        print_pairs(findings, "  the splits are kept as given, and are not transductive:")


@app.command()
def export(
    graph: Annotated[Path, typer.Argument(help="The folder of a graph.")],
    destination: Annotated[Path, typer.Argument(help="The file to write, or the folder where the form has one file per split.")],
    form: Format = None,
    entity_base: EntityBase = None,
    relation_base: RelationBase = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write a graph as statement files, RDF 1.2, standard reification or a hypergraph."""
    from starqe.kg import Names, export_graph, load_graph

    loaded = load_graph(graph)
    names = Names(entity_base or loaded.names.entity_base, relation_base or loaded.names.relation_base)
    files = export_graph(loaded, destination, form, names, overwrite)
    if as_json:
        print_json({"files": [str(file) for file in files]})
    else:
        for file in files:
            print(f"{file}: {file.stat().st_size:,} bytes")


@app.command()
def stats(graph: Annotated[Path, typer.Argument(help="The folder of a graph.")], as_json: Json = False) -> None:
    """Count what a graph has, and check its splits."""
    from starqe.kg import graph_stats, load_graph

    found = graph_stats(load_graph(graph))
    if as_json:
        print_json(found)
        return
    findings = found.pop("split_findings")
    print_pairs(found, str(graph))
    print_pairs(findings, "splits")


@app.command("list")
def list_(as_json: Json = False) -> None:
    """List the published data sets, and which of them are fetched."""
    from starqe.kg.published.datasets import DATASETS, data_home
    from starqe.kg.published.fetch import holding

    home = data_home(os.environ, sys.platform)
    found = [holding(data, home) for data in DATASETS.values()]
    if as_json:
        keys = ("name", "statements", "size", "licence", "citation")
        print_json(
            [{key: getattr(h.data, key) for key in keys} | {"from": h.data.base, "here": h.state, "folder": str(h.folder)} for h in found]
        )
        return
    rows = [(h.data.name, h.data.statements, h.data.size, h.state, h.data.licence) for h in found]
    print_table(("data set", "statements", "bytes", "here", "licence"), rows)
    print(f"kept in {home} (STARQE_DATA chooses another folder)")


@app.command()
def fetch(
    name: Name,
    place: Annotated[
        str | None, typer.Option("--from", envvar="STARQE_MIRROR", help="A folder with the data set, or the address of a mirror.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fetch and check a published data set; continues an interrupted fetch."""
    from starqe.kg.published.datasets import data_home, data_set
    from starqe.kg.published.fetch import fetch as run

    data = data_set(name)
    with progress(f"fetching {name}", data.size, "bytes") as advance:
        got = run(data, data_home(os.environ, sys.platform), place, advance, lambda text: say(text, error=True))
    about = {"licence": data.licence, "citation": data.citation}
    if as_json:
        print_json({"name": name, "folder": str(got.folder), "brought": got.brought, "sha256": got.checksums, **about})
        return
    print(f"{got.folder}: {'fetched ' + ', '.join(got.brought) if got.brought else 'already here'}")
    published = [file.name for file in data.files if file.sha256]
    checked = {"as published": published, "as first fetched": [file for file in got.checksums if file not in published]}
    print_pairs({"checksums": "; ".join(f"{which}: {', '.join(files)}" for which, files in checked.items() if files), **about})
    print(f"next: starqe data import {name} GRAPH")


@app.command()
def remove(name: Name, as_json: Json = False) -> None:
    """Remove a fetched data set, and nothing else."""
    from starqe.kg.published.datasets import data_home, data_set
    from starqe.kg.published.fetch import remove as run

    removed, kept = run(data_set(name), data_home(os.environ, sys.platform))
    if as_json:
        print_json({"removed": [str(path) for path in removed], "kept": [str(path) for path in kept]})
        return
    for path in removed:
        print(f"removed {path}")
    for path in kept:
        print(f"kept {path}: starqe did not put it there")


def names_with(entity_base: str | None, relation_base: str | None) -> "Names":
    """Returns the names with these bases; one that is left out is the default."""
    from starqe.kg import Names

    default = Names()
    return Names(entity_base or default.entity_base, relation_base or default.relation_base)


def columns_named(head: str | None, relation: str | None, tail: str | None, qualifiers: list[str] | None) -> "Columns | None":
    """Returns the columns of a table, or None if none is named."""
    from starqe.kg import Columns

    if not (head or relation or tail or qualifiers):
        return None
    if not (head and relation and tail):
        raise typer.BadParameter("a table needs --head, --relation and --tail together")
    return Columns(head, relation, tail, tuple(qualifiers or ()))


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _shares(text: str) -> tuple[float, float, float]:
    try:
        train, valid, test = (float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"three shares such as 0.8,0.1,0.1, found '{text}'", param_hint="--split") from None
    return train, valid, test

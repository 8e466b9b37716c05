"""``starqe data``: graphs in, out, and in numbers; published data sets by name."""

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from starqe.cli.show import Json, Overwrite, as_text, print_json, print_pairs, print_table, progress

if TYPE_CHECKING:
    from starqe.kg import Graph
    from starqe.kg.report import Report

app = typer.Typer(help="Graphs: import, export, statistics; published data sets by name.", no_args_is_help=True)

Form = StrEnum("Form", "statements turtle trig ntriples nquads reification hypergraph")
Format = Annotated[Form | None, typer.Option("--format", help="The form of the file; told by its extension if left out.")]
OnError = Annotated[Literal["stop", "skip"], typer.Option(help="Stop at a malformed statement, or leave it out and count.")]
EntityBase = Annotated[str | None, typer.Option(help="IRI in front of entity identifiers in RDF, such as http://www.wikidata.org/entity/")]
RelationBase = Annotated[str | None, typer.Option(help="IRI in front of relation identifiers in RDF.")]
Name = Annotated[str, typer.Argument(help="The name of a published data set, such as wd50k.")]
SOURCE = "A file, or a folder with train, valid and test files (plain, .gz, .bz2 or .zst), or the name of a data set that was fetched."


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help=SOURCE)],
    graph: Annotated[Path, typer.Argument(help="The folder to write.")],
    form: Format = None,
    split: Annotated[str | None, typer.Option(help="Split anew, transductively: shares of train, valid, test, such as 0.8,0.1,0.1")] = None,
    seed: Annotated[int, typer.Option(help="Decides the split.")] = 0,
    on_error: OnError = "stop",
    unasserted: Annotated[Literal["leave", "keep"], typer.Option(help="What to do with reified triples that nothing asserts.")] = "leave",
    entity_base: EntityBase = None,
    relation_base: RelationBase = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Read a graph from statement files or RDF 1.2."""
    from starqe.errors import StorageError
    from starqe.kg import graph_stats, import_graph, save_graph, transductive_split
    from starqe.kg.datasets import data_home, named_source
    from starqe.kg.store import check_replaceable

    if graph.exists() and not overwrite:
        raise StorageError(f"{graph} exists already. Choose another place, or give --overwrite to replace it")
    if graph.is_dir() and any(graph.iterdir()):
        check_replaceable(graph)
    shares = _shares(split) if split else None
    source = named_source(source, data_home(os.environ, sys.platform))
    with progress("reading", unit="lines") as advance:
        made, report = import_graph(source, form, _names(entity_base, relation_base), on_error, unasserted, advance)
    if shares:
        made = transductive_split(made, shares, seed)
    save_graph(made, graph, overwrite)
    if as_json:
        print_json({**graph_stats(made), "report": report.as_dict()})
        return
    print(f"{graph}: {len(made):,} statements, {len(made.entities):,} entities, {len(made.relations):,} relations")
    print_findings(made, report)


def print_findings(graph: "Graph", report: "Report") -> None:
    """Prints what reading a graph left out, and what its splits have in common."""
    from starqe.kg import graph_stats

    left_out = {name: count for name, count in report.as_dict().items() if count and name != "problems"}
    for name, count in left_out.items():
        what = {
            "skipped": "malformed statements left out",
            "duplicates": "repeated statements merged",
            "unasserted": "unasserted triples left out",
        }
        what |= {"literals": "literal values left out", "idle_labels": "labels of things that no statement mentions left out"}
        text = ", ".join(f"{kind} {n:,}" for kind, n in count.items()) if isinstance(count, dict) else as_text(count)
        print(f"  {what[name]}: {text}")
    for problem in report.problems:
        print(f"    {problem}")
    findings = {name: count for name, count in graph_stats(graph)["split_findings"].items() if count and name != "distinct_statements"}
    if findings:
        print_pairs(findings, "  the splits are kept as given, and are not transductive:")


@app.command()
def export(
    graph: Annotated[Path, typer.Argument(help="The folder of a graph.")],
    destination: Annotated[Path, typer.Argument(help="The file to write, or the folder where the form has a file a split.")],
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
    """List the published data sets, and which of them are here."""
    from starqe.kg.datasets import DATASETS, data_home
    from starqe.kg.fetch import holding

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
    """Bring a published data set here, checked, and go on where an earlier fetch broke off."""
    from starqe.kg.datasets import data_home, data_set
    from starqe.kg.fetch import fetch as run

    data = data_set(name)
    with progress(f"fetching {name}", data.size, "bytes") as advance:
        got = run(data, data_home(os.environ, sys.platform), place, advance, lambda text: print(text, file=sys.stderr))
    about = {"licence": data.licence, "citation": data.citation}
    if as_json:
        print_json({"name": name, "folder": str(got.folder), "brought": got.brought, "sha256": got.checksums, **about})
        return
    print(f"{got.folder}: {'fetched ' + ', '.join(got.brought) if got.brought else 'here already'}")
    published = [file.name for file in data.files if file.sha256]
    checked = {"as published": published, "as first fetched": [file for file in got.checksums if file not in published]}
    print_pairs({"checksums": "; ".join(f"{which}: {', '.join(files)}" for which, files in checked.items() if files), **about})
    print(f"next: starqe data import {name} GRAPH")


@app.command()
def remove(name: Name, as_json: Json = False) -> None:
    """Remove a data set that was fetched, and nothing else."""
    from starqe.kg.datasets import data_home, data_set
    from starqe.kg.fetch import remove as run

    removed, kept = run(data_set(name), data_home(os.environ, sys.platform))
    if as_json:
        print_json({"removed": [str(path) for path in removed], "kept": [str(path) for path in kept]})
        return
    for path in removed:
        print(f"removed {path}")
    for path in kept:
        print(f"kept {path}: starqe did not put it there")


def _names(entity_base: str | None, relation_base: str | None):  # type: ignore[no-untyped-def]
    from starqe.kg import Names

    default = Names()
    return Names(entity_base or default.entity_base, relation_base or default.relation_base)


def _shares(text: str) -> tuple[float, float, float]:
    try:
        train, valid, test = (float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"three shares such as 0.8,0.1,0.1, found '{text}'", param_hint="--split") from None
    return train, valid, test

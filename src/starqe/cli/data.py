"""``starqe data``: imports, exports and describes graphs; fetches published data sets."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from starqe.cli.import_choices import EntityBase, Format, ImportChoices, RelationBase, import_options, print_findings
from starqe.cli.show import Json, Overwrite, print_json, print_pairs, print_table, progress, say

app = typer.Typer(help="Graphs: import, export, statistics; published data sets by name.", no_args_is_help=True)


Name = Annotated[str, typer.Argument(help="The name of a published data set, such as wd50k.")]
SOURCE = (
    "A file (plain, .gz, .bz2 or .zst), several files, - for standard input, a folder with train, valid and test files or with the "
    "files of one dump, or the name of a data set that was fetched."
)


@app.command("import")
@import_options
def import_(
    source: Annotated[list[Path], typer.Argument(help=SOURCE)],
    graph: Annotated[Path, typer.Argument(help="The folder to write.")],
    choices: ImportChoices,
    split: Annotated[
        str | None, typer.Option(help="Split a graph without splits, transductively: shares of train, valid, test, such as 0.8,0.1,0.1")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides the split.")] = 0,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Read a graph from statement files, RDF, Wikidata's JSON, KGTK, a property graph or a table."""
    from starqe.errors import InputError, StorageError
    from starqe.kg import SPLITS, graph_stats, save_graph, transductive_split
    from starqe.kg.graph_folder import check_replaceable
    from starqe.kg.published.datasets import data_home, named_source

    if graph.exists() and not overwrite:
        raise StorageError(f"{graph} exists already. Choose another place, or replace it with the option overwrite")
    if graph.is_dir() and any(graph.iterdir()):
        check_replaceable(graph)
    shares = _shares(split) if split else None
    sources = [named_source(one, data_home(os.environ, sys.platform)) for one in source]
    with progress("reading", unit="lines or records") as advance:
        made, report = choices.read(sources, advance)
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


def _shares(text: str) -> tuple[float, float, float]:
    try:
        train, valid, test = (float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"three shares such as 0.8,0.1,0.1, found '{text}'", param_hint="--split") from None
    return train, valid, test

"""``starqe data``: imports, exports and describes graphs; fetches published data sets."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from starqe.cli.import_choices import EntityBase, Format, ImportChoices, RelationBase, import_options, print_findings, print_left_out
from starqe.cli.show import Json, Overwrite, print_json, print_pairs, print_table, progress, say

if TYPE_CHECKING:
    from starqe.kg import Draft, Graph, Names, Report

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
    from starqe.errors import InputError
    from starqe.folders import check_free
    from starqe.kg import SPLITS, graph_stats, save_graph, transductive_split
    from starqe.kg.graph_folder import check_replaceable
    from starqe.kg.published.datasets import data_home, named_source

    check_free(graph, overwrite)
    if graph.exists() and any(graph.iterdir()):
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
    literals = f"{len(made.literals):,} literals, " if len(made.literals) else ""
    print(f"{graph}: {len(made):,} statements, {len(made.entities):,} entities, {literals}{len(made.relations):,} relations")
    print_findings(made, report)


@app.command()
@import_options
def update(
    graph: Annotated[Path, typer.Argument(help="The folder of a graph.")],
    choices: ImportChoices,
    changes: Annotated[
        list[Path] | None, typer.Argument(help="What to add: files of any form, graph folders, or a folder that `data diff` wrote.")
    ] = None,
    remove: Annotated[list[Path] | None, typer.Option(help="Statements to remove, in any form; may be repeated.")] = None,
    split: Annotated[
        Literal["train", "valid", "test"] | None, typer.Option(help="The split of new statements; as the files have it, or else train.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder to write; the graph itself is replaced if left out.")] = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Add statements to a graph and remove some; the ids of what is there stay, so that its models still fit."""
    from starqe.folders import check_free
    from starqe.kg import Changes, load_graph, save_graph, update_graph
    from starqe.kg.graph_folder import graph_header

    if out is not None:
        check_free(out, overwrite)
    if not changes and not remove:
        raise typer.BadParameter("give files with statements to add, or --remove with files of statements to remove")
    header, before = graph_header(graph), load_graph(graph)
    with progress("reading", unit="lines or records") as advance:
        read, reports = _read_changes(changes or [], remove or [], choices, before.names, advance)
    after, done = update_graph(before, Changes.of(read["added"], read["removed"]), split)
    if out is None:
        save_graph(after, graph, overwrite=True, replaces=header)
    else:
        save_graph(after, out, overwrite)
    if as_json:
        sizes = {"statements": len(after), "entities": len(after.entities), "relations": len(after.relations)}
        print_json({"graph": str(out or graph), **sizes, **done.as_dict(), "reports": {k: one.as_dict() for k, one in reports.items()}})
        return
    print(f"{out or graph}: {len(after):,} statements, {len(after.entities):,} entities, {len(after.relations):,} relations")
    print(f"  statements: {done.added:,} added, {done.removed:,} removed; labels new or changed: {done.labels:,}")
    print(f"  new entities: {done.new_entities:,}, new relations: {done.new_relations:,}; all other ids stay the same")
    for finding in done.findings():
        print(f"  {finding}")
    for report in reports.values():
        print_left_out(report)


@app.command()
@import_options
def diff(
    old: Annotated[Path, typer.Argument(help="The folder of a graph.")],
    new: Annotated[Path, typer.Argument(help="What it should become: a graph folder, or files of any form.")],
    changes: Annotated[Path, typer.Argument(help="The folder to write: added.jsonl and removed.jsonl.")],
    choices: ImportChoices,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Write what has to be added and removed to turn a graph into another one, for `data update`."""
    from starqe.errors import InputError
    from starqe.folders import check_only, new_folder
    from starqe.kg import diff_graphs, export_graph, load_graph

    before = load_graph(old)
    if (new / "graph.json").exists():
        after = load_graph(new)
    else:
        draft, _ = choices.read_draft([new], before.names, lambda _: None)
        if not len(draft):
            raise InputError(f"{new}: a graph has at least one statement, found none")
        after = draft.finish(before.names)
    added, removed = diff_graphs(before, after)
    with new_folder(changes, overwrite, lambda: check_only(changes, {"added.jsonl", "removed.jsonl"}, "changes of a graph")) as place:
        export_graph(added, place / "added.jsonl")
        export_graph(removed, place / "removed.jsonl")
    if as_json:
        print_json({"changes": str(changes), "added": len(added), "removed": len(removed)})
        return
    print(f"{changes}: {len(added):,} statements to add, {len(removed):,} to remove")
    print(f"next: starqe data update {old} {changes}")


def _read_changes(
    added: list[Path], removed: list[Path], choices: ImportChoices, names: "Names", advance: Callable[[int], None]
) -> "tuple[dict[str, list[Graph | Draft]], dict[str, Report]]":
    """Reads what is added and removed: graph folders, files of any form, and folders that `data diff` wrote."""
    from starqe.kg import load_graph

    given = {"added": [place for place in added if not _is_diff(place)], "removed": removed}
    read: dict[str, list[Graph | Draft]] = {}
    reports: dict[str, Report] = {}
    for part, sources in given.items():
        written = [path for place in added if _is_diff(place) for path in sorted(place.glob(f"{part}.jsonl"))]
        folders = [place for place in sources if (place / "graph.json").exists()]
        read[part] = [load_graph(place) for place in folders]
        if files := [*(place for place in sources if place not in folders), *written]:
            draft, reports[part] = choices.read_draft(files, names, advance)
            read[part].append(draft)
    return read, reports


def _is_diff(place: Path) -> bool:
    """Returns whether a folder was written by `data diff`."""
    return place.is_dir() and any((place / f"{part}.jsonl").exists() for part in ("added", "removed"))


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
    for name in ("literal_tails", "literal_qualifier_values"):
        found[name] = [f"{kind} {count:,}" for kind, count in found[name].items()]
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

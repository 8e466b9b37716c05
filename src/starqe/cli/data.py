"""``starqe data``: graphs in, out, and in numbers."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

from starqe.cli.show import Json, Overwrite, as_text, print_json, print_pairs, progress

app = typer.Typer(help="Graphs: import, export, statistics.", no_args_is_help=True)

Form = StrEnum("Form", "statements turtle trig ntriples nquads reification hypergraph")
Format = Annotated[Form | None, typer.Option("--format", help="The form of the file; told by its extension if left out.")]
EntityBase = Annotated[str | None, typer.Option(help="IRI in front of entity identifiers in RDF, such as http://www.wikidata.org/entity/")]
RelationBase = Annotated[str | None, typer.Option(help="IRI in front of relation identifiers in RDF.")]


@app.command("import")
def import_(
    source: Annotated[Path, typer.Argument(help="A file, or a folder with train, valid and test files; plain, .gz, .bz2 or .zst.")],
    graph: Annotated[Path, typer.Argument(help="The folder to write.")],
    form: Format = None,
    split: Annotated[str | None, typer.Option(help="Split anew, transductively: shares of train, valid, test, such as 0.8,0.1,0.1")] = None,
    seed: Annotated[int, typer.Option(help="Decides the split.")] = 0,
    on_error: Annotated[Literal["stop", "skip"], typer.Option(help="Stop at a malformed statement, or leave it out and count.")] = "stop",
    unasserted: Annotated[Literal["leave", "keep"], typer.Option(help="What to do with reified triples that nothing asserts.")] = "leave",
    entity_base: EntityBase = None,
    relation_base: RelationBase = None,
    overwrite: Overwrite = False,
    as_json: Json = False,
) -> None:
    """Read a graph from statement files or RDF 1.2."""
    from starqe.errors import StorageError
    from starqe.kg import graph_stats, import_graph, save_graph, transductive_split

    if graph.exists() and not overwrite:
        raise StorageError(f"{graph} exists already. Choose another place, or give --overwrite to replace it")
    shares = _shares(split) if split else None
    with progress("reading", unit="lines") as advance:
        made, report = import_graph(source, form, _names(entity_base, relation_base), on_error, unasserted, advance)
    if shares:
        made = transductive_split(made, shares, seed)
    save_graph(made, graph, overwrite)
    if as_json:
        print_json({**graph_stats(made), "report": report.as_dict()})
        return
    print(f"{graph}: {len(made):,} statements, {len(made.entities):,} entities, {len(made.relations):,} relations")
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
    findings = {name: count for name, count in graph_stats(made)["split_findings"].items() if count and name != "distinct_statements"}
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

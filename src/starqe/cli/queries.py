"""``starqe queries``: makes, counts and shows query sets."""

import json
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from starqe.cli.show import Json, print_json, print_pairs, print_table, progress, say

if TYPE_CHECKING:
    from starqe.kg import Graph
    from starqe.queries import QueryTable
    from starqe.queries.generate.formulas import Dialect

app = typer.Typer(help="Query sets: generate, sample, statistics, show.", no_args_is_help=True)
Folder = Annotated[Path, typer.Argument(help="The folder of a query set.")]


@app.command()
def generate(
    graph: Annotated[Path, typer.Argument(help="The folder of a graph.")],
    destination: Annotated[Path, typer.Argument(help="The folder to write; finished tables there are kept.")],
    shapes: Annotated[
        str | None, typer.Option(help="Names, separated by commas, such as 1p,2i,2u; the seven of the paper if left out.")
    ] = None,
    shape_file: Annotated[Path | None, typer.Option(help="A TOML file with your own shapes.")] = None,
    qualifiers: Annotated[
        str | None,
        typer.Option(
            help="Pairs per edge: 1, 0, 0-2 (any subset), or edge by edge as in 1,0,0-2; if left out 1, or 0 if the graph has none."
        ),
    ] = None,
    hub_threshold: Annotated[int, typer.Option(help="In-degree from which a node is a hub, where no join happens; 0: join anywhere.")] = 50,
    limit: Annotated[int | None, typer.Option(help="Maximum number of queries per table: a uniform sample.")] = None,
    seed: Annotated[int, typer.Option(help="Decides the order of the queries.")] = 0,
    variant: Annotated[
        Literal["qualified", "triple-only", "reified"],
        typer.Option(help="The form to write: as they are, without qualifier pairs, or as plain triples (RDF reification)."),
    ] = "qualified",
    splits: Annotated[str, typer.Option(help="The splits to make queries for.")] = "train,valid,test",
    engine: Annotated[
        str, typer.Option(help="sql (DuckDB), spark (the same on a cluster), or sparql: the paper's way, slow, as an independent check.")
    ] = "sql",
    master: Annotated[
        str | None, typer.Option(help="With --engine spark: the cluster, such as local[2], spark://HOST:7077 or yarn.")
    ] = None,
    endpoint: Annotated[str | None, typer.Option(help="With --engine sparql: the URL of an endpoint that holds the graph.")] = None,
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    memory: Annotated[str, typer.Option(help="Memory limit; beyond it, data spills to disk.")] = "4GB",
    as_json: Json = False,
) -> None:
    """Find all queries of all shapes, with all answers."""
    from starqe.kg import load_graph
    from starqe.queries import QuerySettings, SparkEngine, SparqlEngine
    from starqe.queries import generate as run

    if endpoint and engine != "sparql":
        raise typer.BadParameter("--endpoint is for --engine sparql")
    if master and engine != "spark":
        raise typer.BadParameter("--master is for --engine spark")
    chosen = _shapes(shapes, shape_file)
    names = [split.strip() for split in splits.split(",")]
    loaded = load_graph(graph).entity_part
    pairs = qualifiers or ("1" if len(loaded.pair_value) else "0")
    values = {"qualifiers": pairs, "hub_threshold": hub_threshold or None, "limit": limit, "seed": seed, "variant": variant}
    settings = QuerySettings.parse(values)
    how = partial(SparqlEngine, endpoint=endpoint) if endpoint else partial(SparkEngine, master=master) if master else engine
    counts: dict[str, dict[str, int]] = {}
    with progress("generating", len(chosen) * len(names), "tables") as advance:

        def note(split: str, shape: str, count: int) -> None:
            counts.setdefault(split, {})[shape] = count
            advance(1)

        run(loaded, destination, chosen, settings, names, how, note, threads, memory)
    if as_json:
        print_json({"counts": counts})
    else:
        _print_counts(counts)


@app.command()
def sample(
    graph: Annotated[Path, typer.Argument(help="The folder of a graph.")],
    destination: Annotated[Path, typer.Argument(help="The folder to write.")],
    count: Annotated[
        int | None, typer.Option(min=1, help="Number of queries per shape; 2,000 if left out. By --rules betae 5,000, and all of one edge.")
    ] = None,
    shapes: Annotated[
        str | None, typer.Option(help="Names, separated by commas, such as 1p,2i,2u; the seven of the paper, or BetaE's 14, if left out.")
    ] = None,
    shape_file: Annotated[Path | None, typer.Option(help="A TOML file with your own shapes.")] = None,
    qualifiers: Annotated[
        str | None, typer.Option(help="Pairs per edge: 1, 0, 0-2 (the default), or edge by edge as in 1,0,0-2; by --rules betae 0.")
    ] = None,
    turn: Annotated[bool, typer.Option("--turn", help="Reverse the edges: every edge of a shape points the other way.")] = False,
    split: Annotated[Literal["train", "valid", "test"], typer.Option(help="At least one edge is from this split.")] = "test",
    rules: Annotated[
        Literal["paper", "betae"],
        typer.Option(help="betae: as the benchmarks of plain triples, backwards from an answer."),
    ] = "paper",
    seed: Annotated[int, typer.Option(help="Decides the sample.")] = 0,
    as_json: Json = False,
) -> None:
    """Sample random queries where there are too many to generate: without qualifiers, with several, with reversed edges."""
    from starqe.kg import load_graph
    from starqe.queries import QuerySettings, named_types, sample_benchmark, sample_queries

    if rules == "betae" and (turn or qualifiers not in (None, "0")):
        raise typer.BadParameter("by BetaE's rules edges have no qualifiers and any direction: leave out --qualifiers and --turn")
    chosen = named_types() if rules == "betae" and not (shapes or shape_file) else _shapes(shapes, shape_file)
    counts: dict[str, int] = {}
    loaded = load_graph(graph).entity_part
    with progress("drawing", len(chosen), "tables") as advance:

        def note(shape: str, found: int) -> None:
            counts[shape] = found
            advance(1)

        if rules == "betae":
            sample_benchmark(loaded, destination, chosen, split, count, seed, note)
        else:
            settings = QuerySettings.parse(
                {"qualifiers": qualifiers or "0-2", "seed": seed, "limit": 2_000 if count is None else count, "hub_threshold": None}
            )
            sample_queries(loaded, destination, chosen, split, settings, turn, note)
    if as_json:
        print_json({"counts": {split: counts}})
    else:
        _print_counts({split: counts})


@app.command()
def stats(
    queries: Folder,
    graph: Annotated[Path | None, typer.Option(help="The graph of the set: adds the figures on hubs.")] = None,
    reductions: Annotated[
        int, typer.Option(help="Number of queries of each valid and test table whose answers are counted by reduction; needs --graph.")
    ] = 0,
    as_json: Json = False,
) -> None:
    """Count queries and answers."""
    from starqe.kg import load_graph
    from starqe.queries import query_set_stats

    found = query_set_stats(queries, load_graph(graph).entity_part if graph else None, reductions)
    if as_json:
        print_json(found)
        return
    _print_counts(found["counts"])
    sizes = [
        (split, shape, *(size[key] for key in ("min", "lower_quartile", "median", "upper_quartile", "max", "mean")))
        for split, by_shape in found["answers"].items()
        for shape, size in by_shape.items()
    ]
    print_table(("split", "shape", "min", "lower quartile", "median", "upper quartile", "max", "mean"), sizes, "answers per query")
    if found["reductions"]:
        classes = list(dict.fromkeys(name for of in found["reductions"].values() for counts in of.values() for name in counts))
        lines = [(split, shape, *map(counts.get, classes)) for split, of in found["reductions"].items() for shape, counts in of.items()]
        print_table(("split", "shape", *classes), lines, f"answers of the first {reductions:,} queries, by the edges that train lacks")
    if found.get("hubs"):
        print_pairs(found["hubs"], "hubs")


@app.command()
def show(
    queries: Folder,
    shape: Annotated[str, typer.Option(help="The shape.")],
    row: Annotated[int, typer.Option(help="The row, from 0.")] = 0,
    split: Annotated[str, typer.Option(help="The split.")] = "test",
    form: Annotated[
        Literal["logic", "picture", "hypergraph", "reified", "sparql", "formula", "formula-star", "json"] | None,
        typer.Option("--as", help="One form only; all but JSON and the formulas of the shape if left out."),
    ] = None,
    graph: Annotated[Path, typer.Option(help="The graph of the set: it holds numbers only.")] = ...,  # type: ignore[assignment]
    as_json: Json = False,
) -> None:
    """Show one query and its answers, or the SPARQL formula that finds all queries of its shape."""
    from starqe.errors import InputError
    from starqe.kg import SPLITS, load_graph
    from starqe.queries import answer_rows, load_queries, logic, picture, query_of_row, query_to_json, write_sparql
    from starqe.queries.text import hypergraph, reified
    from starqe.queries.variants import unreified

    loaded = load_graph(graph).entity_part
    table = load_queries(queries, split, [shape], row + 1, loaded, reified=True)[shape]
    table = unreified(table) if "reified" in table.header else table
    if not 0 <= row < len(table):
        raise InputError(f"--row: the table has {len(table):,} queries (rows from 0), found {row}")
    query = query_of_row(table, row, loaded)
    answers = [(loaded.entities.identifier(a), loaded.entities.label(a)) for a in table.answers[row]]
    hardness = _hardness(table, row, split, loaded)
    if as_json:
        named = {entity: {"answer": loaded.entities.identifier(entity), "class": name} for entity, name in hardness.items()}
        print_json(
            {"query": json.loads(query_to_json(query)), "answers": [name for name, _ in answers], "reductions": list(named.values())}
        )
        return

    def label(identifier: str) -> str:
        vocabulary = loaded.entities if identifier in loaded.entities else loaded.relations
        return vocabulary.label(vocabulary.id(identifier))

    forms = {
        "logic": lambda: logic(query, label),
        "picture": lambda: picture(query, label),
        "hypergraph": lambda: hypergraph(query, label),
        "reified": lambda: reified(query, label),
        "sparql": lambda: write_sparql(query, loaded.names),
        "formula": lambda: _formula(table, row, split, "1.2"),
        "formula-star": lambda: _formula(table, row, split, "star"),
        "json": lambda: query_to_json(query),
    }
    usual = ["logic", "picture", "hypergraph", "reified", "sparql"] if table.shape.plain else ["logic", "sparql"]
    for name in [form] if form else usual:
        say(forms[name]() + "\n")
    if form is None:
        known = [loaded.entities.label(entity) for entity in answer_rows(loaded.known(SPLITS), table, [row])[0]]
        say(_some(f"{len(answers)} listed answer{'s' if len(answers) != 1 else ''}", [text for _, text in answers]))
        say(_some(f"{len(known)} known on all splits", known))
        if hardness:
            hard = [f"{loaded.entities.label(entity)} ({name})" for entity, name in hardness.items()]
            say(_some(f"{len(hard)} hard, with the edges that train lacks", hard))


def _hardness(table: "QueryTable", row: int, split: str, graph: "Graph") -> dict[int, str]:
    """Returns the hard answers of a query, each with its reduction class; none for training queries."""
    import numpy as np

    from starqe.queries import easy_and_hard
    from starqe.queries.exact.answering import EASY_AND_ALL
    from starqe.queries.exact.reduction import reductions

    if split not in EASY_AND_ALL:
        return {}
    hard = easy_and_hard(graph, table, [row], split)[1]
    return dict(zip(hard.items.tolist(), reductions(graph, table, np.array([row]), hard).classes, strict=True))


def _formula(table: "QueryTable", row: int, split: str, dialect: "Dialect") -> str:
    """Writes the SPARQL that finds all queries of a shape with as many pairs on each edge as one of them."""
    from starqe.queries.generate.formulas import shape_sparql

    edges = len(table.shape.edges)
    counts = [len(table.pairs_of(row, edge)) for edge in range(edges)]
    text = shape_sparql(table.shape, counts, split, None if split == "train" else 0, dialect=dialect)
    note = f"# The first edge is new. All queries of {split}: the same with each edge in its place, {edges} in all\n"
    return text if split == "train" or edges == 1 else note + text


def _some(what: str, names: list[str], most: int = 20) -> str:
    return f"{what}: " + ", ".join(names[:most]) + (" …" if len(names) > most else "")


def _shapes(names: str | None, file: Path | None):  # type: ignore[no-untyped-def]
    from starqe.errors import QueryError
    from starqe.queries import ALL_SHAPES, SHAPES, read_shapes

    known = {**ALL_SHAPES, **(read_shapes(file) if file else {})}
    if names is None:
        return list(read_shapes(file).values()) if file else list(SHAPES.values())
    chosen = []
    for name in names.split(","):
        if name.strip() not in known:
            raise QueryError(f"shapes are {', '.join(known)}, found '{name.strip()}'. Your own go in a TOML file: --shape-file")
        chosen.append(known[name.strip()])
    return chosen


def _print_counts(counts: dict[str, dict[str, int]]) -> None:
    shapes = list(dict.fromkeys(shape for by_shape in counts.values() for shape in by_shape))
    print_table(("queries", *shapes), [(split, *(by_shape.get(shape) for shape in shapes)) for split, by_shape in counts.items()])

"""``starqe bench``: speed, measured on this machine."""

import contextlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from starqe.cli.show import Json, print_json, print_pairs, print_table

if TYPE_CHECKING:
    from starqe.learn import Run
    from starqe.queries import QueryTable

app = typer.Typer(help="Measure speed on this machine.", no_args_is_help=True)
EachThreads = Annotated[int, typer.Option(help="Threads of each version.")]
Against = Annotated[Path | None, typer.Option("--against", help="What an earlier run printed with --json: also show ratios to it.")]
RunFolder = Annotated[Path, typer.Argument(help="The run folder of a model; for reason and serve, a calibrated one.")]
QuerySet = Annotated[Path, typer.Argument(help="The folder of a query set.")]
ShapeNames = Annotated[str | None, typer.Option(help="Names, separated by commas; all if left out.")]
Threads = Annotated[int | None, typer.Option(help="All cores if left out.")]
OF_OTHER = ("other_cpu_ms", "of_other", "of_other_in_sum")
GraphFolder = Annotated[Path | None, typer.Option("--graph", help="The folder of a graph; the embedded one if left out.")]


@app.command("import")
def import_(
    statements: Annotated[int, typer.Option(help="Number of statements to generate and import.")] = 1_000_000,
    seed: Annotated[int, typer.Option(help="Decides the statements.")] = 0,
    form: Annotated[
        Literal["statements", "wikidata", "ntriples", "nquads", "turtle", "trig", "rdfxml", "jsonld"],
        typer.Option("--format", help="The form of the file."),
    ] = "statements",
    against: Against = None,
    as_json: Json = False,
) -> None:
    """Measure the import of a generated file, partly with qualifiers."""
    from starqe.bench.importing import RDF_FILES, bench_import, bench_import_rdf, bench_import_wikidata

    if form in RDF_FILES:
        _print(bench_import_rdf(statements, seed, form), as_json, against)
        return
    _print((bench_import if form == "statements" else bench_import_wikidata)(statements, seed), as_json, against)


@app.command()
def update(
    work: Annotated[Path, typer.Argument(help="A folder for the models; finished ones are used again.")],
    graph: GraphFolder = None,
    epochs: Annotated[int, typer.Option(help="The length of a training from the beginning.", min=1)] = 6,
    limit: Annotated[int, typer.Option(help="Number of test statements that are asked for.", min=1)] = 2_000,
    seed: Annotated[int, typer.Option(help="Decides everything that is random.")] = 0,
    against: Against = None,
    as_json: Json = False,
) -> None:
    """Compare a warm start with training anew, after an update by 1 % of the train statements; on one core."""
    import torch

    from starqe.bench.growing import bench_update

    torch.set_num_threads(1)
    shown = ("model", "mrr", "steps", "cpu_seconds", "share_of_steps", "share_of_time", "new_statements", "new_entities")
    _print_rows(bench_update(_graph(graph), work, epochs, limit, seed), as_json, shown, against)


@app.command()
def queries(
    graph: GraphFolder = None,
    threads: Threads = None,
    against: Against = None,
    as_json: Json = False,
) -> None:
    """Measure the generation of all tables of the seven shapes."""
    from starqe.bench.generating import bench_queries

    result = bench_queries(_graph(graph), threads)
    if not as_json:
        counts = result.pop("counts")
        shapes = list(counts["train"])
        print_table(("queries", *shapes), [(split, *by_shape.values()) for split, by_shape in counts.items()])
    _print(result, as_json, against)


@app.command()
def train(
    graph: GraphFolder = None,
    queries: Annotated[Path | None, typer.Option("--queries", help="The folder of its query set.")] = None,
    steps: Annotated[int, typer.Option(help="Measured steps per row.")] = 60,
    threads: Threads = None,
    against: Against = None,
    as_json: Json = False,
) -> None:
    """Measure training for every similarity and loss, compared with the three dense products that bound it."""
    import torch

    from starqe.bench.training import bench_train

    if threads:
        torch.set_num_threads(threads)
    with _queries(graph, queries, "train", limit=100_000) as (loaded, tables):
        _print_rows(
            bench_train(loaded, tables, steps),
            as_json,
            ("similarity", "loss", "threads", "queries_per_second", "share_of_bound", "cpu_share", "bound_gflops", "peak_mb"),
            against,
        )


@app.command()
def evaluate(
    run: RunFolder,
    queries: QuerySet,
    limit: Annotated[int, typer.Option(help="Queries per shape, at most.")] = 20_000,
    shapes: ShapeNames = None,
    threads: Threads = None,
    against: Against = None,
    as_json: Json = False,
) -> None:
    """Measure evaluation, compared with the one dense product that bounds it."""
    from starqe.bench.evaluating import bench_evaluate

    rows = bench_evaluate(*_run_and_queries(run, queries, shapes, limit, threads))
    columns = ("shape", "queries", "threads", "queries_per_second", "share_of_bound", "cpu_share", "growth_mb", "seconds")
    _print_rows(rows, as_json, columns, against)


@app.command()
def reason(
    run: RunFolder,
    queries: QuerySet,
    limit: Annotated[int, typer.Option(help="Test queries per shape.")] = 200,
    beams: Annotated[str, typer.Option(help="Beams to measure, separated by commas.")] = "4,8,32",
    every: Annotated[bool, typer.Option("--every", help="Also measure predictions for every candidate of the beam.")] = False,
    shapes: ShapeNames = None,
    plot: Annotated[Path | None, typer.Option(help="Plot MRR over speed to this file.")] = None,
    threads: Threads = None,
    against: Against = None,
    as_json: Json = False,
) -> None:
    """Measure the executor: queries per second for each shape, and the value of a wider beam."""
    from starqe.bench.reasoning import bench_reason, plot_beams
    from starqe.reason.reasoner import Reasoner

    opened, tables = _run_and_queries(run, queries, shapes, limit, threads)
    rows = bench_reason(Reasoner.open(opened), tables, _numbers(beams, "--beams"), every=every)
    if plot:
        plot_beams(rows, plot)
    columns = ("shape", "beam", "every", "queries", "threads", "queries_per_second", "cpu_ms", "predictions", "share_of_bound")
    _print_rows(rows, as_json, (*columns, "cpu_share", "exact_share", "mixture_exact_share", "mrr", "growth_mb"), against)


@app.command()
def serve(
    run: RunFolder,
    seconds: Annotated[float, typer.Option(help="Duration of each measurement.")] = 20.0,
    clients: Annotated[str, typer.Option(help="Numbers of concurrent clients, separated by commas: one row each.")] = "1,16",
    by: Annotated[Literal["encoder", "mixture"] | None, typer.Option(help="What predicts; both in turn if left out.")] = None,
    soak: Annotated[float, typer.Option(help="Then send twice the load it can answer, for this many minutes.")] = 0.0,
    threads: Annotated[int, typer.Option(help="Number of threads of the server's arithmetic.")] = 1,
    seed: Annotated[int, typer.Option(help="Decides the queries.")] = 0,
    against: Against = None,
    as_json: Json = False,
) -> None:
    """Measure the service: starts it on this machine, asks it over HTTP, and stops it."""
    from starqe.bench.serving import bench_serve

    counts = _numbers(clients, "--clients")
    rows = bench_serve(run, seconds, counts, (by,) if by else ("encoder", "mixture"), soak, threads, seed)
    columns = ("by", "load", "asked", "distinct_queries", "statuses", "answered_per_second", "p50_ms", "p90_ms", "p99_ms")
    _print_rows(rows, as_json, (*columns, "p50_ms_by_shape", "server_cpu_ms", "memory_mb", "asking_cores"), against)


@app.command()
def ask(
    run: Annotated[Path, typer.Argument(help="The folder of a run that can be asked.")],
    count: Annotated[int, typer.Option(help="Questions of each kind, if the graph has that many.")] = 200,
    other: Annotated[Path | None, typer.Option(help="The folder src of another version of starqe, asked in turns.")] = None,
    threads: EachThreads = 1,
    seed: Annotated[int, typer.Option(help="Decides the questions.")] = 0,
    against: Against = None,
    as_json: Json = False,
) -> None:
    """Measure single questions: reading, known rows, all answers, unions and tuples; side by side with another version."""
    from starqe.bench.asking import bench_ask

    rows = bench_ask(run, count, other, threads, seed)
    columns = ["load", "questions", "cpu_ms", "ms"]
    columns += [name for name in (*OF_OTHER, "of_one_pattern", "of_one_pattern_cpu") if any(name in row for row in rows)]
    _print_rows(rows, as_json, columns, against)


@app.command()
def versions(
    run: RunFolder,
    queries: QuerySet,
    other: Annotated[Path, typer.Option(help="The folder src of another version of starqe, measured in turns.")],
    rounds: Annotated[int, typer.Option(help="Measurements of each piece of work; the median counts.")] = 5,
    limit: Annotated[int, typer.Option(help="Queries per shape that are evaluated.")] = 2_000,
    threads: EachThreads = 1,
    against: Against = None,
    as_json: Json = False,
) -> None:
    """Measure import, opening a graph, reading queries, evaluation and training; side by side with another version."""
    from starqe.bench.versions import bench_versions

    rows = bench_versions(run, queries, other, rounds, limit, threads)
    _print_rows(rows, as_json, ("work", "rounds", "cpu_ms", "ms", *OF_OTHER), against)


@app.command()
def world(
    out: Annotated[Path, typer.Argument(help="The new folder: a graph, and its statements as tables to import.")],
    entities: Annotated[int, typer.Option(help="Number of entities.")] = 1_000_000,
    statements_per_entity: Annotated[float, typer.Option(help="The mean number of statements per entity.")] = 5.0,
    seed: Annotated[int, typer.Option(help="Decides the content: the same seed gives the same bytes.")] = 0,
    as_json: Json = False,
) -> None:
    """Write a synthetic graph with regularities that can be learned, for benchmarks of any size."""
    from starqe.bench.measured import measured
    from starqe.bench.scale.world import World
    from starqe.bench.scale.world_folder import write_world

    with measured() as work:
        counts = write_world(World(entities, statements_per_entity, seed), out)
    result = {**counts, "seed": seed, "seconds": round(work.seconds, 1), "peak_mb": round(work.peak_mb)}
    print_json(result) if as_json else print_pairs(result)


@app.command()
def scale(
    work: Annotated[Path, typer.Argument(help="A folder for worlds and runs; steps that were measured there are not measured again.")],
    entities: Annotated[str, typer.Option(help="Numbers of entities, separated by commas.")] = "10000,100000,1000000",
    seconds: Annotated[float, typer.Option(help="How long is trained at each size.")] = 60.0,
    limit: Annotated[float, typer.Option(help="The minutes that a step may take; then it is ended, and its row says so.")] = 15.0,
    steps: Annotated[str | None, typer.Option(help="Names of steps, separated by commas; all if left out.")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds over all sizes; the fastest of each step counts.")] = 1,
    plot: Annotated[Path | None, typer.Option(help="Plot cost against size to this file.")] = None,
    threads: Annotated[int, typer.Option(help="Number of threads.")] = 1,
    seed: Annotated[int, typer.Option(help="Decides the worlds and everything that is random.")] = 0,
    against: Against = None,
    as_json: Json = False,
) -> None:
    """Measure cost against size on synthetic worlds: import, drawing, training, index, questions; each in its own process."""
    from starqe.bench.scale.growth import bench_scale, plot_scale

    counts, only = _numbers(entities, "--entities"), steps.split(",") if steps else []
    rows = bench_scale(work, counts, seconds, limit, seed, threads, only, rounds, lambda line: print(line, file=sys.stderr, flush=True))
    if plot:
        plot_scale(rows, plot)
    columns = ("entities", "step", "units", "cpu_us_per_unit", "cpu_seconds", "seconds", "peak_mb", "disk_mb")
    _print_rows(rows, as_json, (*columns, "bytes_per_entity", "recall", "p50_ms", "p99_ms", "cpu_p50_ms", "exact_cpu_p50_ms"), against)


def _run_and_queries(run: Path, queries: Path, shapes: str | None, limit: int, threads: int | None) -> "tuple[Run, dict[str, QueryTable]]":
    """Opens a run with its test queries, and sets the number of threads."""
    import torch

    from starqe.learn import Run
    from starqe.queries import load_queries

    if threads:
        torch.set_num_threads(threads)
    opened = Run.open(run)
    return opened, load_queries(queries, "test", shapes.split(",") if shapes else None, limit, opened.graph)


def _numbers(text: str, option: str) -> list[int]:
    """Reads whole numbers separated by commas."""
    if not all(part.strip().isdecimal() and int(part) > 0 for part in text.split(",")):
        raise typer.BadParameter(f"{option} has whole numbers from 1 on, separated by commas, found {text!r}")
    return [int(part) for part in text.split(",")]


@contextlib.contextmanager
def _queries(graph: Path | None, queries: Path | None, split: str, limit: int) -> Iterator[Any]:
    """Yields a graph and its queries; without folders, the embedded graph and queries generated on the spot."""
    from starqe.queries import generate, load_queries

    loaded = _graph(graph)
    with tempfile.TemporaryDirectory() as folder:
        if queries is None:
            queries = Path(folder) / "queries"
            generate(loaded, queries, splits=[split])
        yield loaded, load_queries(queries, split, limit=limit)


def _print_rows(rows: list[dict[str, Any]], as_json: bool, columns: Sequence[str], against: Path | None) -> None:
    if against:
        from starqe.bench.comparing import with_ratios

        rows = with_ratios(rows, against)
        columns = (*columns, *dict.fromkeys(name for row in rows for name in row if name.endswith("_ratio")))
    if as_json:
        print_json(rows)
        return
    print_table([column.replace("_", " ") for column in columns], [[row.get(column) for column in columns] for row in rows])
    about = rows[0] if rows else {}
    print(
        f"This machine: {about.get('cores')} cores, a dense product at {about.get('product_gflops')} GFLOPS, "
        f"a copy at {about.get('copy_gb_per_second')} GB per second."
    )


def _graph(folder: Path | None):  # type: ignore[no-untyped-def]
    from starqe.kg import embedded_graph, load_graph

    return load_graph(folder).entity_part if folder else embedded_graph()


def _print(result: dict[str, Any], as_json: bool, against: Path | None) -> None:
    if against:
        from starqe.bench.comparing import with_ratios

        (result,) = with_ratios([result], against)
    print_json(result) if as_json else print_pairs(result)

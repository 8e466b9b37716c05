"""``starqe train``: from a graph and queries to a model."""

import shlex
import shutil
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starqe.cli.show import Json, Memory, Progress, print_json, resumable
from starqe.errors import InputError, StarqeError
from starqe.folders import locked

if TYPE_CHECKING:
    from starqe.learn import Lesson, TrainConfig, Trainer
    from starqe.learn.config import AnyRecipe
    from starqe.learn.steps.distributed import Processes
    from starqe.queries import QueryTable
    from starqe.reason.predictor.run import AnyRun


def train(
    places: Annotated[
        list[Path],
        typer.Argument(
            metavar="[CONFIG.toml] GRAPH [QUERIES]", help="A recipe (or --preset), the graph, and for an encoder its query set: folders."
        ),
    ],
    out: Annotated[Path, typer.Option("--out", help="The run folder.")] = ...,  # type: ignore[assignment]
    preset: Annotated[str | None, typer.Option(help="A recipe by name, such as starqe-fast or one-hop; the docs list them.")] = None,
    settings: Annotated[list[str], typer.Option("--set", help="key=value, such as train.batch=256; may be repeated.")] = [],  # noqa: B006
    minutes: Annotated[float | None, typer.Option(help="Training time, validation included; the schedule follows the clock.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the existing run.")] = False,
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also log to RUN/tensorboard.")] = False,
    memory: Memory = None,
    as_json: Json = False,
) -> None:
    """Train a model: an encoder on a graph and its queries, or a one-hop predictor on a graph.

    Give a recipe file before GRAPH, or name one with --preset. Interrupt it at any time (Ctrl-C or SIGTERM): a checkpoint is written,
    and --resume continues from there.
    """
    config, graph, queries = _sorted_out(places)
    if (config is None) == (preset is None) and not resume:
        raise typer.BadParameter("give a recipe: either CONFIG.toml before GRAPH, or --preset NAME")
    import torch

    from starqe.learn.steps.distributed import joined
    from starqe.serve.running.memory import limit

    if threads:
        torch.set_num_threads(threads)
    most = limit(memory)[0] if memory else None
    recipe = _recipe(config, preset, settings)
    again = shlex.join(["starqe", "train", *map(str, filter(None, (graph, queries))), "--out", str(out), "--resume"])
    again += f" --minutes {minutes:g}" if minutes is not None else ""
    with joined() as processes:
        if processes.restarted and (out / "run.json").exists():
            resume, recipe = True, None
        if recipe is not None and recipe.train.shards < processes.count:
            recipe = recipe.replace(train={"shards": processes.count})
        quiet = as_json or not processes.writes
        trainer = _train(graph, queries, out, recipe, resume, quiet, minutes, tensorboard and processes.writes, most, processes, again)
        if processes.writes:
            baseline = trainer.lesson.baseline().get("average") if trainer.counters.best is not None else None
            _print_result(out, trainer, baseline, torch.get_num_threads(), as_json)


def _train(
    graph: Path,
    queries: Path | None,
    out: Path,
    recipe: "AnyRecipe | None",
    resume: bool,
    quiet: bool,
    minutes: float | None,
    tensorboard: bool,
    memory: int | None,
    processes: "Processes",
    again: str,
) -> "Trainer":
    """Trains a new run or an existing one, alone or as one of several processes."""
    from starqe.learn import Trainer, kind_of
    from starqe.reason.predictor.ruled import add_rules
    from starqe.reason.predictor.run import PredictorRun

    if resume or processes.writes:
        _check_queries(recipe.kind if recipe else kind_of(out), queries)
    if processes.writes:
        run = _run(graph, out, recipe, resume)
        processes.wait()
    else:  # the first process makes the folder
        processes.wait()
        run = _run(graph, out, None, True)
    try:
        lesson = _lesson(run, queries)
    except StarqeError:
        if not resume and processes.writes:  # the new folder would block the corrected command
            shutil.rmtree(run.folder)
        raise
    try:
        with resumable(again), _locked(out, processes), _Reporter(out, tensorboard, quiet=quiet) as reporter:
            trainer = Trainer(run, lesson, minutes, reporter.note, memory=memory, processes=processes)
            resumed = trainer.resume() if resume else True
            if not quiet and not resumed:
                print("no checkpoint yet: starting from the beginning")
            if not quiet and trainer.counters.finished:
                print("this training is already finished, and its learning rate schedule has ended. To train longer, start a new run")
            reporter.begin(trainer)
            trainer.train()
    except InputError:  # it does not fit into memory
        if not resume and processes.writes and run.load_state() is None:
            shutil.rmtree(run.folder)
        raise
    if processes.writes and isinstance(run, PredictorRun):
        add_rules(run)
    return trainer


def _locked(out: Path, processes: "Processes") -> AbstractContextManager[None]:
    return locked(out) if processes.writes else nullcontext()


def _print_result(out: Path, trainer: "Trainer", baseline: float | None, threads: int, as_json: bool) -> None:
    """Prints how far a training got, and its best validation next to the baseline's."""
    counters, validation = trainer.counters, trainer.best_validation
    if as_json:
        trained = {"run": str(out), "epochs": counters.epoch, "steps": counters.step, "queries": counters.queries}
        found = {"best_epoch": counters.best_epoch, **validation, "baseline_mrr": baseline}
        print_json({**trained, "seconds": round(counters.seconds, 1), **found, "threads": threads})
        return
    measure = "Hits@10" if "validation_hits" in validation else "MRR"
    best = f", validation {measure} {counters.best:.2f} (epoch {counters.best_epoch})" if counters.best is not None else ""
    print(f"{out}: {counters.queries:,} queries in {counters.seconds / 60:.1f} minutes{best}")
    if baseline is not None:
        print(f"  to compare with: always predicting the most frequent entity for the relation has a validation MRR of {baseline:.2f}")


def load_tables(queries: Path, wanted: "TrainConfig") -> tuple[dict[str, "QueryTable"], dict[str, "QueryTable"]]:
    """Reads what a recipe trains on and what it validates on, by shape."""
    from starqe.queries import load_queries, tables_of

    tables = load_queries(queries, "train", wanted.shapes, limit=wanted.pool_per_shape)
    # Models trained on some shapes are chosen by these shapes too.
    shapes = [shape for shape in wanted.shapes if shape in tables_of(queries).get("valid", {})]
    validated = shapes and wanted.validation_queries
    return tables, load_queries(queries, "valid", shapes, limit=wanted.validation_queries) if validated else {}


def _sorted_out(places: list[Path]) -> tuple[Path | None, Path, Path | None]:
    """Returns recipe, graph and queries: a recipe is a .toml file and comes first."""
    config, folders = (places[0], places[1:]) if places[0].suffix == ".toml" else (None, places)
    if not 1 <= len(folders) <= 2:
        raise typer.BadParameter(f"give [CONFIG.toml] GRAPH [QUERIES], found {' '.join(map(str, places))}")
    return config, folders[0], folders[1] if len(folders) == 2 else None


def _check_queries(kind: str, queries: Path | None) -> None:
    """Checks that queries are given for a model that is trained on them, and only then."""
    if kind == "encoder" and queries is None:
        raise typer.BadParameter("an encoder learns from queries: give GRAPH QUERIES")
    if kind == "predictor" and queries is not None:
        raise typer.BadParameter(f"a one-hop predictor learns from the statements of the graph: leave QUERIES out, found {queries}")


def _lesson(run: "AnyRun", queries: Path | None) -> "Lesson[Any]":
    from starqe.learn import QueryLesson, Run
    from starqe.reason.predictor.lesson import PredictLesson

    if isinstance(run, Run):
        assert queries is not None
        return QueryLesson(run, *load_tables(queries, run.recipe.train))
    return PredictLesson(run)


def _recipe(config: Path | None, preset: str | None, settings: list[str]) -> "AnyRecipe | None":
    from starqe.reason.predictor.presets import read_recipe, recipe_of

    if config is None and preset is None:
        if settings:
            raise typer.BadParameter("--set changes a recipe, and --resume uses the run's own: leave it out")
        return None
    if config is not None and preset is not None:
        raise typer.BadParameter("give a recipe: either CONFIG.toml before GRAPH, or --preset NAME")
    recipe = read_recipe(config) if config else recipe_of(str(preset))
    return recipe.with_settings(settings)


def _run(graph: Path, out: Path, recipe: "AnyRecipe | None", resume: bool) -> "AnyRun":
    from starqe.kg import load_graph
    from starqe.reason.predictor.run import RUNS, open_run

    loaded = load_graph(graph)
    if not resume:
        assert recipe is not None
        fitting: Any = recipe
        return RUNS[recipe.kind].create(out, fitting, loaded)
    run = open_run(out)
    run.check_graph(loaded)
    if recipe is not None:
        run.check_recipe(recipe, "To resume, leave the recipe out")
    return run


class _Reporter:
    """Shows training: progress while it runs, a line per epoch, TensorBoard if wanted."""

    def __init__(self, out: Path, tensorboard: bool, quiet: bool) -> None:
        self._quiet = quiet
        self._progress = Progress("training", 1.0, quiet=quiet)
        self._writer: Any = None
        if tensorboard:
            from starqe.learn.tensorboard import writer

            self._writer = writer(out / "tensorboard")

    def __enter__(self) -> "_Reporter":
        self._progress.__enter__()
        return self

    def begin(self, trainer: "Trainer") -> None:
        """Prints the size of an epoch."""
        if not self._quiet:
            size = f"{trainer.lesson.per_epoch:,} queries, {trainer.lesson.steps_per_epoch:,} steps"
            print(f"an epoch: {size}; about {trainer.memory_mb():,} MB of memory; on {trainer.device}")

    def note(self, line: dict[str, Any]) -> None:
        """Shows a report of the training."""
        if self._writer:
            from starqe.learn.tensorboard import log

            log(self._writer, line)
        speed = f", {line['queries_per_second']:,.0f} queries per second" if line["queries_per_second"] else ""
        done = f"epoch {line['epoch']}, {line['queries']:,} queries{speed}, loss per query {line['loss_per_query']:.3f}"
        self._progress.at(line["progress"], done)
        if line.get("validation") and not self._quiet:
            shapes = "  ".join(f"{shape} {value:.1f}" for shape, value in line["validation"].items() if shape not in ("average", "all"))
            begin = f"epoch {line['epoch']:>3}  {line['seconds'] / 60:6.1f} min  loss {line['loss_per_query']:.3f}"
            print(f"{begin}  MRR {line['validation_mrr']:.2f}  {shapes}")

    def __exit__(self, *_: object) -> None:
        self._progress.__exit__(None, None, None)
        if self._writer:
            self._writer.close()

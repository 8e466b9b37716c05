"""``starqe train``: from a graph and queries to a model."""

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starqe.cli.show import Json, print_json
from starqe.errors import StarqeError

if TYPE_CHECKING:
    from starqe.learn import Lesson, TrainConfig, Trainer
    from starqe.learn.config import AnyRecipe
    from starqe.queries import QueryTable
    from starqe.reason.run import AnyRun


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
    minutes: Annotated[float | None, typer.Option(help="Train so long, validation included; the schedule follows the clock.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that is there.")] = False,
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also log to RUN/tensorboard.")] = False,
    as_json: Json = False,
) -> None:
    """Train a model: an encoder on a graph and its queries, or a one-hop predictor on a graph.

    Give a recipe file before GRAPH, or name one with --preset. Interrupt at any time; --resume goes on from the last checkpoint.
    """
    config, graph, queries = _sorted_out(places)
    if (config is None) == (preset is None) and not resume:
        raise typer.BadParameter("give a recipe: either CONFIG.toml before GRAPH, or --preset NAME")
    import torch

    from starqe.learn import Trainer, kind_of

    if threads:
        torch.set_num_threads(threads)
    recipe = _recipe(config, preset, settings)
    _check_queries(recipe.kind if recipe else kind_of(out), queries)
    run = _run(graph, out, recipe, resume)
    try:
        lesson = _lesson(run, queries)
    except StarqeError:
        if not resume:  # the folder was made just now, and would stand in the way of the command that is right
            shutil.rmtree(run.folder)
        raise
    with _Reporter(out, tensorboard, quiet=as_json) as reporter:
        trainer = Trainer(run, lesson, minutes, reporter.note)
        there = trainer.resume() if resume else True
        if not as_json and not there:
            print("no checkpoint yet: starting from the beginning")
        if not as_json and trainer.counters.finished:
            print("this training was finished before, and its rate has fallen to the end. A longer one is a new run")
        reporter.begin(trainer)
        counters = trainer.train()
    result = {
        "run": str(out),
        "epochs": counters.epoch,
        "steps": counters.step,
        "queries": counters.queries,
        "seconds": round(counters.seconds, 1),
    }
    result |= {"best_epoch": counters.best_epoch, "validation_mrr": counters.best, "threads": torch.get_num_threads()}
    if as_json:
        print_json(result)
    else:
        best = f", validation MRR {counters.best:.2f} (epoch {counters.best_epoch})" if counters.best is not None else ""
        print(f"{out}: {counters.queries:,} queries in {counters.seconds / 60:.1f} minutes{best}")


def load_tables(queries: Path, wanted: "TrainConfig") -> tuple[dict[str, "QueryTable"], dict[str, "QueryTable"]]:
    """Reads what a recipe trains on and what it validates on, by shape."""
    from starqe.queries import load_queries, tables_of

    tables = load_queries(queries, "train", wanted.shapes, limit=wanted.pool_per_shape)
    # Models trained on some shapes are chosen by these shapes too.
    shapes = [shape for shape in wanted.shapes if shape in tables_of(queries).get("valid", {})]
    validated = shapes and wanted.validation_queries
    return tables, load_queries(queries, "valid", shapes, limit=wanted.validation_queries) if validated else {}


def _sorted_out(places: list[Path]) -> tuple[Path | None, Path, Path | None]:
    """Tells recipe, graph and queries apart: a recipe is a .toml file and stands first."""
    config, folders = (places[0], places[1:]) if places[0].suffix == ".toml" else (None, places)
    if not 1 <= len(folders) <= 2:
        raise typer.BadParameter(f"give [CONFIG.toml] GRAPH [QUERIES], found {' '.join(map(str, places))}")
    return config, folders[0], folders[1] if len(folders) == 2 else None


def _check_queries(kind: str, queries: Path | None) -> None:
    """Checks that there are queries for a model that learns from them, and none for one that does not."""
    if kind == "encoder" and queries is None:
        raise typer.BadParameter("an encoder learns from queries: give GRAPH QUERIES")
    if kind == "predictor" and queries is not None:
        raise typer.BadParameter(f"a one-hop predictor learns from the statements of the graph: leave QUERIES out, found {queries}")


def _lesson(run: "AnyRun", queries: Path | None) -> "Lesson[Any]":
    from starqe.learn import QueryLesson, Run
    from starqe.reason.lesson import PredictLesson

    if isinstance(run, Run):
        assert queries is not None
        return QueryLesson(run, *load_tables(queries, run.recipe.train))
    return PredictLesson(run)


def _recipe(config: Path | None, preset: str | None, settings: list[str]) -> "AnyRecipe | None":
    from starqe.reason.presets import read_recipe, recipe_of

    if config is None and preset is None:
        if settings:
            raise typer.BadParameter("--set changes a recipe, and --resume goes on with the run's own: leave it out")
        return None
    if config is not None and preset is not None:
        raise typer.BadParameter("give a recipe: either CONFIG.toml before GRAPH, or --preset NAME")
    recipe = read_recipe(config) if config else recipe_of(str(preset))
    return recipe.with_settings(settings)


def _run(graph: Path, out: Path, recipe: "AnyRecipe | None", resume: bool) -> "AnyRun":
    from starqe.kg import load_graph
    from starqe.reason.run import RUNS, open_run

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
    """Shows training: a bar on a terminal, a line an epoch elsewhere, TensorBoard if wanted."""

    def __init__(self, out: Path, tensorboard: bool, quiet: bool) -> None:
        self._quiet = quiet
        self._writer: Any = None
        if tensorboard:
            from starqe.learn.tensorboard import writer

            self._writer = writer(out / "tensorboard")
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> "_Reporter":
        if sys.stderr.isatty() and not self._quiet:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            columns = (
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("training", total=1.0)
        return self

    def begin(self, trainer: "Trainer") -> None:
        if not self._quiet:
            size = f"{trainer.lesson.per_epoch:,} queries, {trainer.lesson.steps_per_epoch:,} steps"
            print(f"an epoch: {size}; about {trainer.memory_mb():,} MB of memory; on {trainer.device}")

    def note(self, line: dict[str, Any]) -> None:
        if self._writer:
            from starqe.learn.tensorboard import log

            log(self._writer, line)
        if self._bar:
            speed = f"{line['queries_per_second']:,.0f} queries/s" if line["queries_per_second"] else ""
            self._bar.update(
                self._task, completed=line["progress"], description=f"epoch {line['epoch']}  loss {line['loss_per_query']:.3f}  {speed}"
            )
        if line.get("validation") and not self._quiet:
            shapes = "  ".join(f"{shape} {value:.1f}" for shape, value in line["validation"].items() if shape not in ("average", "all"))
            begin = f"epoch {line['epoch']:>3}  {line['seconds'] / 60:6.1f} min  loss {line['loss_per_query']:.3f}"
            print(f"{begin}  MRR {line['validation_mrr']:.2f}  {shapes}")

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()
        if self._writer:
            self._writer.close()

"""``starqe tune``: hyper-parameter search."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from starqe.cli.show import Json, print_json, print_table, say
from starqe.cli.train import load_tables

if TYPE_CHECKING:
    from starqe.experiments.tuning.search_space import Space
    from starqe.experiments.tuning.study import Study
    from starqe.learn import Recipe

BASE = ("starqe-fast", ("train.patience=5", "train.delta=0.02"))
"""The base if none is given: our training of the paper's model, stopped as the authors stopped theirs."""


def tune(
    graph: Annotated[Path, typer.Argument(metavar="GRAPH", help="The folder of the graph.")],
    queries: Annotated[Path, typer.Argument(metavar="QUERIES", help="The folder of the query set, with train and valid.")],
    out: Annotated[Path, typer.Option("--out", help="The study folder; an existing study is continued.")],
    trials: Annotated[int, typer.Option(min=1, help="The total number of trials to finish, existing ones included.")] = 20,
    minutes: Annotated[float | None, typer.Option(help="The time of each trial; if left out, its recipe's epochs decide.")] = None,
    total_minutes: Annotated[float | None, typer.Option(help="Start no trial after this many minutes.")] = None,
    base: Annotated[
        str | None, typer.Option(help="Everything outside the space: a preset or CONFIG.toml; starqe-fast if left out.")
    ] = None,
    space: Annotated[Path | None, typer.Option(help="A TOML file with the space; the authors' if left out.")] = None,
    settings: Annotated[list[str], typer.Option("--set", help="key=value in the base; it leaves the space. May be repeated.")] = [],  # noqa: B006
    objective: Annotated[
        Literal["Hits@10", "MRR", "pooled Hits@10"],
        typer.Option(
            help="What is maximised on validation: macro, the mean over the shapes; or pooled over all answers (micro), as the authors did."
        ),
    ] = "Hits@10",
    seed: Annotated[int | None, typer.Option(help="Decides what is tried, and seeds every training.")] = None,
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Search for the hyper-parameters that are best on validation.

    The same command continues where an earlier one ended or was killed. Several may work on one study at the same time.
    """
    import optuna
    import torch

    from starqe.experiments.tuning.study import Study, Terms
    from starqe.experiments.tuning.tune import tune as search
    from starqe.kg import load_graph
    from starqe.queries.query_set import read_query_set

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if threads:
        torch.set_num_threads(threads)
    settings = [*settings, *([f"seed={seed}"] if seed is not None else [])]
    recipe, searched = _recipe(base, settings), _space(space, settings)
    loaded = load_graph(graph).entity_part
    tables, validation = load_tables(queries, recipe.train)
    used = {"train": tables, "valid": validation}
    sizes = {f"{split}.{shape}": len(table) for split, by_shape in used.items() for shape, table in by_shape.items()}
    study = Study(out, Terms(loaded.fingerprint, sizes, read_query_set(queries)["settings"], recipe, searched, objective, minutes))
    try:
        with _Reporter(objective, study, trials, quiet=as_json) as reporter:
            search(study, loaded, tables, validation, trials, total_minutes, reporter.note)
    except KeyboardInterrupt:
        print(f"{out}: {_finished(study)} of {trials} trials are finished and kept. The same command continues", file=sys.stderr)
        raise
    _show_json(out, study) if as_json else _show(out, study, trials)


def _recipe(base: str | None, settings: list[str]) -> "Recipe":
    from starqe.config import read_toml
    from starqe.learn import PRESETS, Recipe, preset

    if base is None:
        recipe = preset(BASE[0]).with_settings(BASE[1])
    else:
        recipe = read_toml(Path(base), Recipe) if base not in PRESETS and base.endswith(".toml") else preset(base)
    return recipe.with_settings(settings)


def _space(file: Path | None, settings: list[str]) -> "Space":
    from starqe.errors import ConfigError
    from starqe.experiments.tuning.search_space import AUTHORS_SPACE, read_space

    given = {setting.partition("=")[0].strip() for setting in settings}
    space = {key: domain for key, domain in (read_space(file) if file else AUTHORS_SPACE).items() if key not in given}
    if not space:
        raise ConfigError("a search space has at least one key, and --set decides them all. Use starqe train, or set fewer")
    return space


def _finished(study: "Study") -> int:
    return sum(result.counts for result in study.results())


def _show(out: Path, study: "Study", trials: int) -> None:
    from starqe.experiments.tuning.study_report import PARAMETER_COLUMNS, importance_text, parameter_rows

    best = study.best
    if best is not None:
        title = f"best {study.terms.objective} {best.value:.2f}, trial {best.trial}"
        print_table(PARAMETER_COLUMNS, parameter_rows(study), title)
        print(importance_text(study))
    running = sum(result.state == "running" for result in study.results())
    others = f", {running} running elsewhere" if running else ""
    train = f"; train the best with: starqe train {out / 'best.toml'} GRAPH QUERIES --out RUN" if best else ""
    print(f"{out}: {_finished(study)} of {trials} trials are finished{others}{train}")


def _show_json(out: Path, study: "Study") -> None:
    import dataclasses

    from starqe.experiments.tuning.importance import importances

    best = study.best
    print_json(
        {
            "study": str(out),
            "objective": study.terms.objective,
            "finished": _finished(study),
            "best": dataclasses.asdict(best) if best else None,
            "importances": dataclasses.asdict(importances(study.results(), study.terms.space)),
            "trials": [dataclasses.asdict(result) for result in study.results()],
        }
    )


class _Reporter:
    """Shows a search: one line per trial, and on a terminal a bar."""

    def __init__(self, objective: str, study: "Study", trials: int, quiet: bool) -> None:
        self._objective, self._study, self._trials, self._quiet = objective, study, trials, quiet
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> "_Reporter":
        if sys.stderr.isatty() and not self._quiet:
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("trials"), TimeElapsedColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._task = self._bar.add_task("searching", total=self._trials, completed=_finished(self._study))
        return self

    def note(self, line: dict[str, Any]) -> None:
        if "state" in line:
            self._note_end(line)
        elif self._bar:
            found = f", {self._objective} {line['objective']:.2f}" if "objective" in line else ""
            self._bar.update(self._task, description=f"trial {line['trial']}: epoch {line['epoch']}{found}")

    def _note_end(self, result: dict[str, Any]) -> None:
        if self._bar:
            self._bar.update(self._task, completed=_finished(self._study))
        if self._quiet:
            return
        from starqe.experiments.tuning.study_report import cell

        outcome = f"{self._objective} {result['value']:6.2f}" if result["value"] is not None else ""
        chosen = "  ".join(f"{key.rpartition('.')[2]} {cell(value)}" for key, value in result["parameters"].items())
        begin = f"trial {result['trial']:>3}  {result['state']:<8}  {outcome:<{len(self._objective) + 7}}  epochs {result['epochs']:>2}"
        say(f"{begin}  {chosen}" + (f"\n           {result['error']}" if result["error"] else ""))

    def __exit__(self, *_: object) -> None:
        if self._bar:
            self._bar.stop()

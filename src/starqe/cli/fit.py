"""``starqe fit``: from any graph file to a model that can be asked."""

import os
import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starqe.cli.import_choices import ImportChoices, import_options, print_findings
from starqe.cli.show import Json, Memory, Progress, print_json, resumable, say

if TYPE_CHECKING:
    from starqe.ask.continuing import Before
    from starqe.kg import Graph

CALIBRATING = "calibrating"  # the same as in starqe.ask.prepare, which would load torch


@import_options
def fit(
    source: Annotated[Path, typer.Argument(help="A graph file or folder, a fetched data set, or a graph folder.")],
    choices: ImportChoices,
    out: Annotated[Path, typer.Option("--out", help="The run folder.")] = ...,  # type: ignore[assignment]
    minutes: Annotated[float, typer.Option(min=0.01, help="Total time: reading, sampling queries, training, calibration.")] = 10,
    seed: Annotated[int, typer.Option(help="Decides everything that is random.")] = 0,
    start: Annotated[
        Path | None, typer.Option("--from", help="A run to go on from, such as that of the graph before an update; it stays as it is.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the existing run.")] = False,
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    memory: Memory = None,
    as_json: Json = False,
) -> None:
    """Make a model that can be asked, from any graph: import, split, sample queries, train, calibrate.

    Interrupt it at any time (Ctrl-C or SIGTERM): the same command with --resume continues from there.
    """
    began = time.monotonic()
    import torch

    from starqe.ask import fit as make
    from starqe.ask import with_validation
    from starqe.ask.continuing import Before
    from starqe.kg import SPLITS
    from starqe.kg.published.datasets import data_home, named_source
    from starqe.queries.sparql.foreign import example
    from starqe.serve.running.memory import limit

    if threads:
        torch.set_num_threads(threads)
    most = limit(memory)[0] if memory else None
    place = named_source(source, data_home(os.environ, sys.platform))
    graph, read = _read(place, choices, quiet=as_json)
    before = Before.open(start) if start else None
    split = before.with_validation(graph) if before else with_validation(graph, seed)
    if not as_json:
        _print_start(before, graph, split)
    stages = _Stages(minutes, as_json)
    again = shlex.join(["starqe", *(word for word in sys.argv[1:] if word != "--resume"), "--resume"])
    with resumable(again), stages:
        answerer = make(split, out, minutes, seed, resume, stages.note, time.monotonic() - began, most, before)
    if resume and not stages.trained and not as_json:
        print("both models were trained to the end before, and were calibrated again. To train longer, start a new run")
    splits = {name: len(split.known([name])) for name in SPLITS}
    seconds = time.monotonic() - began
    if as_json:
        sizes = {"statements": len(graph), "entities": len(graph.entities), "relations": len(graph.relations)}
        trained = {"validation_mrr": stages.best, "baseline_mrr": stages.baseline, "calibrated": answerer.calibrated}
        held_out = splits["valid"] if split is not graph else 0
        source_run = None if start is None else str(start)
        result = {"run": str(out), **sizes, "splits": splits, "held_out_for_validation": held_out, "from": source_run, **trained}
        print_json({**result, "seconds": round(seconds, 1), **read})
        return
    counts = ", ".join(f"{count:,} {name}" for name, count in splits.items() if count)
    print(f"{out}: {len(graph):,} statements ({counts}) about {len(graph.entities):,} entities, in {seconds / 60:.1f} min")
    if not answerer.calibrated:
        print(f"  {answerer.probability.evidence.note}")
    say(f"Ask it:\n  starqe ask {out} {shlex.quote(example(answerer.graph))}")


def _print_start(before: "Before | None", graph: "Graph", split: "Graph") -> None:
    """Prints what a fit begins with, where that is not the graph alone."""
    if before:
        print(_continuation(before, split))
    if split is not graph:
        print(_held_out(split))


def _read(place: Path, choices: ImportChoices, quiet: bool) -> tuple["Graph", dict[str, Any]]:
    """Reads a graph folder, or imports a source; also returns the report of the import, for JSON."""
    from starqe.kg import load_graph

    if (place / "graph.json").exists():
        return load_graph(place), {}
    graph, report = choices.read(place)
    if not quiet:
        print_findings(graph, report)
    return graph, {"report": report.as_dict()}


def _continuation(before: "Before", graph: "Graph") -> str:
    """Describes what is kept of the run that a fit continues from, and what is new."""
    parts = []
    for kind in ("entities", "relations"):
        old, new = getattr(before.run.graph, kind), getattr(graph, kind)
        kept = sum(name in old for name in new)
        parts.append(f"{kept:,} {kind} keep what was learned, {len(new) - kept:,} are new")
    return f"continues from {before.run.folder}: {'; '.join(parts)}"


def _held_out(graph: "Graph") -> str:
    """Prints what was held out for validation, and why."""
    valid, train, test = (len(graph.known([split])) for split in ("valid", "train", "test"))
    kept = f"; the {test:,} test statements stay test" if test else ""
    return (
        f"the graph has no validation split: {valid:,} of its {train + valid:,} train statements are held out, to choose the best "
        f"model and to calibrate its probabilities{kept}"
    )


class _Stages:
    """Shows the stages of a fit: progress while they run, and a line for each that is done."""

    def __init__(self, minutes: float, quiet: bool) -> None:
        self._minutes, self._quiet = minutes, quiet
        self._stage, self._last = "", dict[str, Any]()
        self._shown: Progress | None = None
        self.best: dict[str, float] = {}
        """The best validation MRR of each model that was trained, and the baseline's beside it."""
        self.baseline: dict[str, float] = {}

    @property
    def trained(self) -> bool:
        """Whether anything was trained."""
        return bool(self.best)

    def __enter__(self) -> "_Stages":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._shown:
            self._shown.__exit__(None, None, None)
        if kind is None:
            self._finish()

    def note(self, stage: str, line: dict[str, Any]) -> None:
        """Shows a report of the fit."""
        if stage != self._stage:
            self._finish()
            self._stage, self._last = stage, {}
            self._shown = Progress(stage, 1.0, quiet=self._quiet).__enter__()
        self._last |= line
        name = stage.removeprefix("training the ")
        if line.get("validation"):
            self.best[name], self.baseline[name] = line["best_mrr"], line["baseline_mrr"]
        assert self._shown is not None
        self._shown.at(line["progress"], self._detail())

    def _detail(self) -> str:
        """Describes a stage in words."""
        last = self._last
        parts = [f"{last['queries']:,} queries"] if last.get("queries") else ["under way"]
        if "validation_queries" in last:
            parts = [f"{last['queries']:,} for training and {last['validation_queries']:,} for validation"]
        if last.get("loss_per_query"):
            parts.append(f"loss per query {last['loss_per_query']:.2f}")
        if last.get("best_mrr") is not None:
            parts.append(f"validation MRR {last['best_mrr']:.1f} (the most frequent entity for the relation: {last['baseline_mrr']:.1f})")
        return ", ".join(parts)

    def _finish(self) -> None:
        """Ends the stage that is shown, and prints its line."""
        if not self._stage:
            return
        if self._shown:
            self._shown.__exit__(None, None, None)
            self._shown = None
        if self._quiet:
            return
        last = self._last
        done = "" if self._stage == CALIBRATING else f" {self._detail()},"
        print(f"{self._stage}:{done} {last['seconds'] / 60:.1f} min", flush=True)
        if "training_seconds" in last:
            self._announce(last)

    def _announce(self, last: dict[str, Any]) -> None:
        """Prints how the time is divided, and whether it is enough."""
        training, calibration = last["training_seconds"] / 60, last["calibration_seconds"] / 60
        total = last["seconds"] / 60 + training + calibration
        print(f"next: {training:.1f} min of training, then about {calibration:.1f} min of calibration", flush=True)
        if total > 1.05 * self._minutes:
            print(
                f"  {self._minutes:g} min are not enough for this graph: expect about {total:.1f}. Give more --minutes for a better model"
            )

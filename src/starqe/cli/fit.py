"""``starqe fit``: from any graph file to a model one can ask."""

import os
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from starqe.cli.data import Format, OnError, print_findings
from starqe.cli.prompt import example
from starqe.cli.show import Json, print_json, progress

QUIET = 30.0
"""How many seconds pass at least between two lines about the training."""


def fit(
    source: Annotated[Path, typer.Argument(help="A graph file or folder, a fetched data set, or a graph folder.")],
    out: Annotated[Path, typer.Option("--out", help="The run folder.")] = ...,  # type: ignore[assignment]
    form: Format = None,
    on_error: OnError = "stop",
    minutes: Annotated[float, typer.Option(min=0.05, help="Time for training.")] = 10,
    seed: Annotated[int, typer.Option(help="Decides everything that is drawn.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that is there.")] = False,
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Make a model that can be asked, of any graph: import, split, draw queries, train, calibrate."""
    import torch

    from starqe.ask import fit as make
    from starqe.kg import import_graph, load_graph
    from starqe.kg.datasets import data_home, named_source

    if threads:
        torch.set_num_threads(threads)
    place = named_source(source, data_home(os.environ, sys.platform))
    read: dict[str, Any] = {}
    if (place / "graph.json").exists():
        graph = load_graph(place)
    else:
        graph, report = import_graph(place, form, on_error=on_error)
        read = {"report": report.as_dict()}
        if not as_json:
            print_findings(graph, report)
    shown: dict[str, int] = {}
    said = time.monotonic()
    best: dict[str, float] = {}
    with progress("training", 1000, "") as advance:

        def note(name: str, line: dict[str, Any]) -> None:
            nonlocal said
            done = int(500 * line["progress"])
            advance(done - shown.get(name, 0))
            shown[name] = done
            if line.get("validation"):
                best[name] = line["best_mrr"]
            if not as_json and time.monotonic() - said >= QUIET:
                said = time.monotonic()
                print(f"{name}: {line['progress']:.0%} of its time, loss per query {line['loss_per_query']:.2f}", flush=True)

        answerer = make(graph, out, minutes, seed, resume, note)
    if resume and not shown and not as_json:
        print("this training was finished before. A longer one is a new run")
    held_out = len(answerer.graph.known(["valid"]))
    result = {"run": str(out), "statements": len(graph), "entities": len(graph.entities), "relations": len(graph.relations)}
    result |= {"held_out_for_validation": held_out, "validation_mrr": best}
    if as_json:
        print_json({**result, **read})
        return
    print(f"{out}: {len(graph):,} statements about {len(graph.entities):,} entities, {held_out:,} held out to check on")
    for name, reached in best.items():
        print(f"  {name}: validation MRR {reached:.1f}")
    print(f"Ask it:\n  starqe ask {out} {shlex.quote(example(answerer))}")

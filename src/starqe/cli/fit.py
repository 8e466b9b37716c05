"""``starqe fit``: from any graph file to a model one can ask."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from starqe.cli.show import Json, print_json, progress


def fit(
    source: Annotated[
        Path, typer.Argument(help="A graph file or folder, a fetched data set, or a graph folder.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The run folder.")] = ...,  # type: ignore[assignment]
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
    graph = load_graph(place) if (place / "graph.json").exists() else import_graph(place)[0]
    shown: dict[str, int] = {}
    with progress("training", 1000, "") as advance:

        def note(name: str, line: dict[str, Any]) -> None:
            done = int(500 * line["progress"])
            advance(done - shown.get(name, 0))
            shown[name] = done
            if line.get("validation") and not as_json:
                print(f"{name}: {line['seconds'] / 60:.1f} min, validation MRR {line['validation_mrr']:.1f}")

        answerer = make(graph, out, minutes, seed, resume, note)
    result = {"run": str(out), "statements": len(graph), "entities": len(graph.entities), "relations": len(graph.relations)}
    result |= {"held_out_for_validation": len(answerer.graph.known(["valid"]))}
    if as_json:
        print_json(result)
    else:
        print(f"{out}: {len(graph):,} statements about {len(graph.entities):,} entities. Ask it:\n  starqe ask {out} 'SELECT ?x {{ ... }}'")

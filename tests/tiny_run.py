"""Runs of seconds: they can be asked, and know little."""

from collections.abc import Sequence
from pathlib import Path

from starqe.ask import calibrate
from starqe.ask.prepare import composed_queries
from starqe.kg import Graph
from starqe.learn import QueryLesson, Run, Trainer, preset
from starqe.queries import SHAPES, sample


def tiny_run(folder: Path, graph: Graph, shapes: Sequence[str], epochs: int) -> Path:
    """Trains and calibrates a small encoder on sampled queries of these shapes; returns its folder."""
    tables = {
        split: {name: sample(graph, SHAPES[name], count, split, [(0, 2)] * len(SHAPES[name].edges)) for name in shapes}
        for split, count in (("train", 200), ("valid", 20))
    }
    chosen = {"epochs": epochs, "shapes": tuple(shapes), "queries_per_shape": 100, "one_hop_per_direction": 100}
    run = Run.create(folder, preset("demo").replace(model={"width": 16, "heads": 2}, train=chosen), graph)
    Trainer(run, QueryLesson(run, tables["train"], tables["valid"])).train()
    calibrate(run, validation={**tables["valid"], **composed_queries(graph, "valid", 8)})
    return run.folder

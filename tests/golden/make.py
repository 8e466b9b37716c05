"""Makes golden folders of the formats of this version: ``python -m tests.golden.make tests/golden/2``. Older ones stay as they are."""

import json
import sys
from pathlib import Path

from starqe.kg import graph_of, save_graph
from starqe.kg.statement import Statement
from starqe.learn import QueryLesson, Run, Trainer, preset
from starqe.queries import MORE_SHAPES, SHAPES, generate, load_queries
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.lesson import PredictLesson
from starqe.reason.predictor.presets import PREDICTORS
from starqe.reason.predictor.run import PredictorRun
from tests.golden.read import READERS

STATEMENTS = [Statement("a", "r", "b", (("q", "c"),)), Statement("b", "r", "c", (("q", "a"),)), Statement("c", "s", "a")]
SMALL = ["model.width=4", "train.epochs=1"]
ENCODER = ["model.heads=2", "model.layers=1", 'train.shapes=["1p"]', "train.one_hop_per_direction=4"]


def make(place: Path) -> None:
    """Writes a folder of each kind, and what is read from it."""
    from tests.reason.test_calibration import CALIBRATION, save_calibration

    graph = graph_of(STATEMENTS, [Statement("a", "r", "c", (("q", "b"),))], [Statement("b", "s", "a")])
    save_graph(graph, place / "graph")
    generate(graph, place / "queries", [SHAPES["1p"], *(MORE_SHAPES[name] for name in ("2u", "2in", "2cp"))])
    encoder = preset("demo").with_settings([*SMALL, *ENCODER])
    run = Run.create(place / "run", encoder, graph)
    Trainer(run, QueryLesson(run, load_queries(place / "queries", "train"), {})).train()
    save_calibration(run.folder, CALIBRATION)
    predictor = PredictorRun.create(place / "predictor", PredictorRecipe.parse(PREDICTORS["one-hop-demo"]).with_settings(SMALL), graph)
    Trainer(predictor, PredictLesson(predictor)).train()
    for lock in place.rglob(".lock"):
        lock.unlink()
    expected = {name: read(place / name) for name, read in READERS.items()}
    (place / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    make(Path(sys.argv[1]))

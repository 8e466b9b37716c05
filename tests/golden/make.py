"""Makes golden folders of the formats of this version: ``python -m tests.golden.make tests/golden/2``. Older ones stay as they are."""

import contextlib
import json
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from starqe.experiments.tuning.study import Study, Terms
from starqe.experiments.work_folder import open_work
from starqe.kg import graph_of, save_graph
from starqe.kg.published.fetch import fetch
from starqe.kg.statement import Statement
from starqe.learn import QueryLesson, Recipe, Run, Trainer, preset
from starqe.measure.rows import Row
from starqe.queries import MORE_SHAPES, SHAPES, generate, load_queries
from starqe.queries.formula import And, Atom, Not, Or, Same, Variable
from starqe.queries.query import Query
from starqe.queries.query_json import query_to_json
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.lesson import PredictLesson
from starqe.reason.predictor.presets import PREDICTORS
from starqe.reason.predictor.ruled import add_rules
from starqe.reason.predictor.run import PredictorRun
from tests.golden.read import DATA_SET, READERS, SPACE, SPLITS

STATEMENTS = [Statement("a", "r", "b", (("q", "c"),)), Statement("b", "r", "c", (("q", "a"),)), Statement("c", "s", "a")]
SMALL = ["model.width=4", "train.epochs=1"]
ENCODER = ["model.heads=2", "model.layers=1", 'train.shapes=["1p"]', "train.one_hop_per_direction=4"]
RULED = [
    Statement(f"p{i}", relation, end, (("at", f"c{i % 2}"),))
    for i in range(6)
    for relation, end in (("born", f"t{i % 3}"), ("died", f"t{i % 3}"), ("is", "human"))
] + [Statement(f"t{i}", "in", f"c{i % 2}") for i in range(3)]
X, Y = Variable("x"), Variable("y")
EVERYTHING = And(
    (
        Atom("a", "r", X, (("q", "c"), ("q", Y))),
        Or((Atom(X, "s", "b", inverted=True), Atom(Y, Variable("p"), X, fact=True))),
        Not(Atom(Y, "r", "b")),
        Not(Same(X, Y)),
    )
)
"""A formula with all that the form has."""
ROW = Row(name="statistics", shape="1p", metric="queries", average="", protocol="", n=3, seed=None, ours=3.0)


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
    make_ruled(place / "ruled")
    make_others(place)
    for lock in (*place.rglob(".lock"), *place.rglob(".*.lock")):
        lock.unlink()
    expected = {name: read(place / name) for name, read in READERS.items()}
    (place / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


def make_ruled(folder: Path) -> None:
    """Writes a predictor with rules, on a graph that has some of each kind."""
    recipe = PredictorRecipe.parse(PREDICTORS["one-hop-demo"]).with_settings([*SMALL, "train.rules=true"])
    run = PredictorRun.create(folder, recipe, graph_of(RULED))
    Trainer(run, PredictLesson(run)).train()
    add_rules(run)


def make_others(place: Path) -> None:
    """Writes a query, a folder of tables, a study and a fetched data set."""
    (place / "query.json").write_text(query_to_json(Query(EVERYTHING, (X, Y))) + "\n", encoding="utf-8")
    work = open_work(place / "reproduction", place / "graph", place / "queries")
    work.rows_once(work.folder / "table" / "rows.json", Row, lambda: [ROW])
    study = Study(place / "study", Terms("0123456789abcdef", {"train.1p": 10}, {"seed": 0}, Recipe(seed=3), SPACE))
    for value in (10.0, 30.0):
        trial = study.begin(9)
        assert trial is not None
        trial.report(value, 0)
        study.end(trial, "complete", value)
    home = place.absolute()
    with TemporaryDirectory() as above, contextlib.chdir(above):
        mirror = Path("mirror", DATA_SET.name)
        mirror.mkdir(parents=True)
        for name, text in SPLITS.items():
            (mirror / name).write_text(text, encoding="utf-8")
        fetch(DATA_SET, home, "mirror")


if __name__ == "__main__":
    make(Path(sys.argv[1]))

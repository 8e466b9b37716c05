"""The demo's story, told step by step on the embedded graph."""

import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starqe.cli.ask import print_answers, reasons_text, summary
from starqe.cli.show import print_table, progress

if TYPE_CHECKING:
    from starqe.kg import Graph
    from starqe.learn import Run, RunFolder
    from starqe.learn.lesson import Lesson

EPOCHS = 6
"""How long the encoder trains: the predictor needs its part of the minute, too."""
HELD_OUT = 20
FACT = ("AlbertEinstein", "educatedAt", "ETHZurich")
"""The main triple of the statement that the last question is asked without."""
BY_IDENTIFIERS = """\
SELECT ?university {
  e:LawOfThePhotoelectricEffect r:discovererOrInventor ?who .
  ?who r:educatedAt ?university {| r:academicDegree e:BachelorOfScience |} }"""
BY_LABELS = """\
SELECT ?university {
  "law of the photoelectric effect" "discoverer or inventor" ?who .
  ?who "educated at" ?university {| "academic degree" "Bachelor of Science" |} }"""


def tell(seed: int) -> None:
    """Tells what starqe can do: a graph, its queries, a model, and a question with and without the fact that answers it."""
    import torch

    from starqe.kg import embedded_graph, graph_stats

    torch.set_num_threads(1)  # the graph is so small that threads would wait for one another more than they work
    start = time.perf_counter()
    graph = without(embedded_graph(), FACT)
    stats = graph_stats(graph)
    print("1. A graph of facts with qualifiers, from the history of science")
    counts = f"{stats['statements']:,} statements ({stats['with_qualifiers']:,} with qualifiers)"
    print(f"   {counts} about {stats['entities']:,} entities by {stats['relations']} relations")
    print(f"   {stats['train']:,} are for training; {stats['valid']:,} and {stats['test']:,} are held out, to validate and to test on")
    with tempfile.TemporaryDirectory() as folder:
        run = _learn(graph, Path(folder), seed)
        _predict(run)
        _ask(run)
    print(f"\n{time.perf_counter() - start:.0f} seconds in all (seed {seed})")


def without(graph: "Graph", triple: tuple[str, str, str]) -> "Graph":
    """Gives the graph with the statements of one main triple in the test split: neither trained on nor validated on."""
    import numpy as np

    from starqe.kg import SPLITS, with_split

    head, relation, tail = graph.entities.id(triple[0]), graph.relations.id(triple[1]), graph.entities.id(triple[2])
    held_out = (graph.head == head) & (graph.relation == relation) & (graph.tail == tail)
    return with_split(graph, np.where(held_out, SPLITS.index("test"), graph.split))


def _learn(graph: "Graph", folder: Path, seed: int) -> "Run":
    from starqe.ask import calibrate
    from starqe.learn import QueryLesson, Run, preset
    from starqe.queries import generate, load_queries, tables_of
    from starqe.reason import PREDICTORS, PredictLesson, PredictorRecipe, PredictorRun

    print("\n2. Every query of the seven shapes, with every answer")
    began = time.perf_counter()
    with progress("generating", 14, "tables") as advance:
        generate(graph, folder / "queries", splits=("train", "valid"), progress=lambda *_: advance(1))
    there = tables_of(folder / "queries")
    print_table(("queries", *there["train"]), [(split, *by_shape.values()) for split, by_shape in there.items()])
    print(f"   in {time.perf_counter() - began:.1f} seconds")

    print("\n3. A model: an encoder of whole queries, and a predictor of single facts; calibrated on the validation facts")
    recipe = preset("demo").with_settings([f"seed={seed}", f"train.epochs={EPOCHS}"])
    run = Run.create(folder / "run", recipe, graph)
    tables = load_queries(folder / "queries", "train", limit=recipe.train.pool_per_shape)
    validation = load_queries(folder / "queries", "valid", limit=recipe.train.validation_queries)
    _train("encoder", run, QueryLesson(run, tables, validation))
    predictor = PredictorRun.create(
        folder / "predictor", PredictorRecipe.parse(PREDICTORS["one-hop-demo"]).with_settings([f"seed={seed}"]), graph
    )
    _train("predictor", predictor, PredictLesson(predictor))
    calibrate(run, predictor, seed=seed)
    return run


def _train(name: str, run: "RunFolder[Any]", lesson: "Lesson[Any]") -> None:
    """Trains a model, and says in a line how well it does."""
    from starqe.learn import Trainer

    began, shown = time.perf_counter(), 0
    with progress(f"training the {name}", 1000) as advance:

        def note(line: dict[str, Any]) -> None:
            nonlocal shown
            advance(int(1000 * line["progress"]) - shown)
            shown = int(1000 * line["progress"])

        counters = Trainer(run, lesson, observer=note).train()
    spent = f"{counters.queries:,} queries in {time.perf_counter() - began:.0f} seconds"
    print(f"   {name}: {spent}; validation MRR {counters.best:.1f} (a perfect model: 100)")


def _predict(run: "Run") -> None:
    from starqe.experiments import FrequencyScorer, held_out_table
    from starqe.measure.evaluate import Measure, evaluate
    from starqe.reason.reasoner import Reasoner

    print(f"\n4. {HELD_OUT} held-out facts: which entity is missing?")
    graph = run.graph
    tables = {"1p": held_out_table(graph, HELD_OUT, run.recipe.seed)}
    lines = []
    for name, scorer in (("starqe", Reasoner.open(run).mixture(["train"])), ("most frequent for the relation", FrequencyScorer(graph))):
        rows = evaluate(scorer, tables, len(graph.entities), Measure(protocol="strict", replicates=0), graph=graph)
        found = {row["metric"]: row["ours"] for row in rows if (row["shape"], row["average"]) == ("1p", "macro")}
        lines.append((name, found["MRR"], found["Hits@1"], found["Hits@10"]))
    print_table(("predicted by", "MRR", "Hits@1", "Hits@10"), lines)


def _ask(run: "Run") -> None:
    from starqe.ask import Answerer

    print("5. The paper's question: which university gave a BSc to the discoverer of the law of the photoelectric effect?")
    print(f"{_indented(BY_IDENTIFIERS)}\n   or by labels:\n{_indented(BY_LABELS)}")
    knowing = Answerer.open(run.folder)
    answers = knowing.ask(BY_LABELS, known_only=True)
    print_answers(knowing, answers)
    print(f"   {summary(answers, None, known_only=True)}")

    print("\n6. The same without the fact that answers it (Albert Einstein - educated at - ETH Zurich), which the model has never seen")
    guessing = Answerer.open(run.folder, splits=["train", "valid"])
    print_answers(guessing, guessing.ask(BY_LABELS, top=3))
    place = [answer.entity for answer in guessing.ask(BY_LABELS, top=len(run.graph.entities))].index(FACT[2]) + 1
    print(f"   What was held out is number {place} of {len(run.graph.entities)}. Its explanation:")
    print(_indented(reasons_text(guessing, guessing.explain(BY_LABELS, FACT[2]))))


def _indented(text: str) -> str:
    return textwrap.indent(text, "   ")

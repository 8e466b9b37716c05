"""``starqe demo``: a tour of starqe on the embedded graph."""

import shlex
import tempfile
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starqe.cli.ask.ask import AskOptions, print_answers, summary
from starqe.cli.ask.reasons import reasons_text
from starqe.cli.show import print_table, progress

if TYPE_CHECKING:
    from starqe.kg import Graph
    from starqe.learn import Run, RunFolder
    from starqe.learn.lesson import Lesson

EPOCHS = 6
"""Number of epochs of the encoder; the predictor is trained within the same minute."""
HELD_OUT = 20
FACT = ("AlbertEinstein", "educatedAt", "ETHZurich")
"""The main triple of the statement that is left out for the last question."""
BY_IDENTIFIERS = """\
SELECT ?university {
  e:LawOfThePhotoelectricEffect r:discovererOrInventor ?who .
  ?who r:educatedAt ?university {| r:academicDegree e:BachelorOfScience |} }"""
BY_LABELS = """\
SELECT ?university {
  "law of the photoelectric effect" "discoverer or inventor" ?who .
  ?who "educated at" ?university {| "academic degree" "Bachelor of Science" |} }"""


def demo(
    seed: Annotated[int, typer.Option(help="Decides everything that is random.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", help="Keep the run in this folder, to ask it and to serve it.")] = None,
) -> None:
    """Show what starqe does, on the embedded graph, in about a minute."""
    import torch

    from starqe.kg import embedded_graph, graph_stats
    from starqe.learn import Run, preset

    torch.set_num_threads(1)  # the graph is so small that several threads would be slower
    start = time.perf_counter()
    graph = without(embedded_graph(), FACT)
    stats = graph_stats(graph)
    print("1. A graph of facts with qualifiers, from the history of science")
    counts = f"{stats['statements']:,} statements ({stats['with_qualifiers']:,} with qualifiers)"
    print(f"   {counts} about {stats['entities']:,} entities by {stats['relations']} relations")
    print(f"   {stats['train']:,} are for training; {stats['valid']:,} and {stats['test']:,} are held out, to validate and to test on")
    with tempfile.TemporaryDirectory() as folder:
        run = Run.create(out or Path(folder) / "run", preset("demo").with_settings([f"seed={seed}", f"train.epochs={EPOCHS}"]), graph)
        _learn(run, Path(folder))
        _predict(run)
        _ask(run)
    print(f"\n{time.perf_counter() - start:.0f} seconds in all (seed {seed})")
    if out is not None:
        query = " ".join(BY_LABELS.split())
        print(f"The model is in {out}. Next:\n  starqe ask {out} {shlex.quote(query)} --explain\n  starqe serve {out}")


def without(graph: "Graph", triple: tuple[str, str, str]) -> "Graph":
    """Returns the graph with the statements of one main triple in the test split: neither trained on nor validated on."""
    import numpy as np

    from starqe.kg import SPLITS, with_split

    head, relation, tail = graph.entities.id(triple[0]), graph.relations.id(triple[1]), graph.entities.id(triple[2])
    held_out = (graph.head == head) & (graph.relation == relation) & (graph.tail == tail)
    return with_split(graph, np.where(held_out, SPLITS.index("test"), graph.split))


def _learn(run: "Run", folder: Path) -> None:
    """Trains and calibrates the models of a run; the folder is for temporary files."""
    from starqe.ask import calibrate
    from starqe.learn import QueryLesson
    from starqe.queries import generate, load_queries, tables_of
    from starqe.reason import PREDICTORS, PredictLesson, PredictorRecipe, PredictorRun

    print("\n2. Every query of the seven shapes, with every answer")
    began, graph, recipe = time.perf_counter(), run.graph, run.recipe
    with progress("generating", 14, "tables") as advance:
        generate(graph, folder / "queries", splits=("train", "valid"), progress=lambda *_: advance(1))
    generated = tables_of(folder / "queries")
    print_table(("queries", *generated["train"]), [(split, *by_shape.values()) for split, by_shape in generated.items()])
    print(f"   in {time.perf_counter() - began:.1f} seconds")

    print("\n3. A model: an encoder of whole queries, and a predictor of single facts; calibrated on the validation facts")
    tables = load_queries(folder / "queries", "train", limit=recipe.train.pool_per_shape)
    validation = load_queries(folder / "queries", "valid", limit=recipe.train.validation_queries)
    _train("encoder", run, QueryLesson(run, tables, validation))
    predictor = PredictorRun.create(
        folder / "predictor", PredictorRecipe.parse(PREDICTORS["one-hop-demo"]).replace(seed=recipe.seed), graph
    )
    _train("predictor", predictor, PredictLesson(predictor))
    calibrate(run, predictor, seed=recipe.seed)


def _train(name: str, run: "RunFolder[Any]", lesson: "Lesson[Any]") -> None:
    """Trains a model, and prints its validation MRR."""
    from starqe.learn import Trainer

    began = time.perf_counter()
    with progress(f"training the {name}", 1.0) as shown:
        observer = lambda line: shown.at(line["progress"], f"{line['queries']:,} queries")  # noqa: E731
        counters = Trainer(run, lesson, observer=observer).train()
    spent = f"{counters.queries:,} queries in {time.perf_counter() - began:.0f} seconds"
    print(f"   {name}: {spent}; validation MRR {counters.best:.1f} (a perfect model: 100)")


def _predict(run: "Run") -> None:
    from starqe.experiments import held_out_table
    from starqe.measure.baseline import FrequencyScorer
    from starqe.measure.evaluate import Measure, evaluate
    from starqe.reason.reasoner import Reasoner

    print(f"\n4. {HELD_OUT} held-out facts: which entity is missing?")
    graph = run.graph
    tables = {"1p": held_out_table(graph, HELD_OUT, run.recipe.seed)}
    lines = []
    for name, scorer in (("starqe", Reasoner.open(run).mixture(["train"])), ("most frequent for the relation", FrequencyScorer(graph))):
        rows = evaluate(scorer, tables, len(graph.entities), Measure(protocol="strict", replicates=0), graph=graph)
        found = {row.metric: row.ours for row in rows if (row.shape, row.average) == ("1p", "macro")}
        lines.append((name, found["MRR"], found["Hits@1"], found["Hits@10"]))
    print_table(("predicted by", "MRR", "Hits@1", "Hits@10"), lines)


def _ask(run: "Run") -> None:
    from starqe.ask import Answerer

    print("5. The paper's question: which university gave a BSc to the discoverer of the law of the photoelectric effect?")
    print(f"{_indented(BY_IDENTIFIERS)}\n   or by labels:\n{_indented(BY_LABELS)}")
    knowing = Answerer.open(run.folder)
    answers = knowing.ask(BY_LABELS, known_only=True)
    print_answers(answers)
    print(f"   {summary(answers, AskOptions(None, 0, known_only=True), counted=True)}")

    print("\n6. The same without the fact that answers it (Albert Einstein - educated at - ETH Zurich), which the model has never seen")
    guessing = Answerer.open(run.folder, splits=["train", "valid"])
    print_answers(guessing.ask(BY_LABELS, top=3))
    place = [answer.entity for answer in guessing.ask(BY_LABELS, top=len(run.graph.entities))].index(FACT[2]) + 1
    print(f"   What was held out is number {place} of {len(run.graph.entities)}. Its explanation:")
    print(_indented(reasons_text(guessing, guessing.explain(BY_LABELS, FACT[2]))))


def _indented(text: str) -> str:
    return textwrap.indent(text, "   ")

"""The demo's story, told step by step on the embedded graph."""

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from starqe.cli.show import print_table, progress

if TYPE_CHECKING:
    from starqe.kg import Graph
    from starqe.learn import Run

HELD_OUT = 20


def tell(seed: int) -> None:
    """Tells what starqe can do: a graph, its queries, a model, and a question."""
    import torch

    from starqe.kg import embedded_graph, graph_stats

    torch.set_num_threads(1)  # the graph is so small that threads would wait for one another more than they work
    start = time.perf_counter()
    graph = embedded_graph()
    stats = graph_stats(graph)
    print("1. A graph of facts with qualifiers, from the history of science")
    counts = f"{stats['statements']:,} statements ({stats['with_qualifiers']:,} with qualifiers)"
    print(f"   {counts} about {stats['entities']:,} entities by {stats['relations']} relations")
    print(f"   {stats['train']:,} are for training; {stats['valid']:,} and {stats['test']:,} are held out")
    with tempfile.TemporaryDirectory() as folder:
        run = _learn(graph, Path(folder), seed)
        _predict(run)
        _ask(run)
    print(f"\n{time.perf_counter() - start:.0f} seconds in all (seed {seed})")


def _learn(graph: "Graph", folder: Path, seed: int) -> "Run":
    from starqe.learn import QueryLesson, Run, Trainer, preset
    from starqe.queries import generate, load_queries, tables_of

    print("\n2. Every query of the seven shapes, with every answer")
    began = time.perf_counter()
    with progress("generating", 14, "tables") as advance:
        generate(graph, folder / "queries", splits=("train", "valid"), progress=lambda *_: advance(1))
    there = tables_of(folder / "queries")
    print_table(("queries", *there["train"]), [(split, *by_shape.values()) for split, by_shape in there.items()])
    print(f"   in {time.perf_counter() - began:.1f} seconds")

    print("\n3. A model: the query graph is encoded by message passing, the answers are the entities nearest to it")
    recipe = preset("demo").with_settings([f"seed={seed}"])
    run = Run.create(folder / "run", recipe, graph)
    began = time.perf_counter()
    with progress("training", 1000) as advance:
        shown = 0

        def note(line: dict[str, float]) -> None:
            nonlocal shown
            advance(int(1000 * line["progress"]) - shown)
            shown = int(1000 * line["progress"])

        tables = load_queries(folder / "queries", "train", limit=recipe.train.pool_per_shape)
        validation = load_queries(folder / "queries", "valid", limit=recipe.train.validation_queries)
        counters = Trainer(run, QueryLesson(run, tables, validation), observer=note).train()
    spent = time.perf_counter() - began
    print(f"   {counters.queries:,} queries in {spent:.0f} seconds; validation MRR {counters.best:.1f} (a perfect model: 100)")
    return run


def _predict(run: "Run") -> None:
    from starqe.experiments import FrequencyScorer, held_out_table
    from starqe.measure.evaluate import Measure, evaluate

    print(f"\n4. {HELD_OUT} held-out facts: which entity is missing?")
    graph = run.graph
    tables = {"1p": held_out_table(graph, HELD_OUT, run.recipe.seed)}
    lines = []
    for name, scorer in (("starqe", run.scorer()), ("most frequent for the relation", FrequencyScorer(graph))):
        rows = evaluate(scorer, tables, len(graph.entities), Measure(protocol="strict", replicates=0), graph=graph)
        found = {row["metric"]: row["ours"] for row in rows if (row["shape"], row["average"]) == ("1p", "macro")}
        lines.append((name, found["MRR"], found["Hits@1"], found["Hits@10"]))
    print_table(("predicted by", "MRR", "Hits@1", "Hits@10"), lines)


def _ask(run: "Run") -> None:
    import numpy as np
    import torch

    from starqe.queries import Atom, Query, Variable, answer

    print("5. The paper's question: which university gave a BSc to the discoverer of the law of the photoelectric effect?")
    graph = run.graph
    who, where = Variable("who"), Variable("university")
    query = Query.conjunction(
        [
            Atom("LawOfThePhotoelectricEffect", "discovererOrInventor", who),
            Atom(who, "educatedAt", where, (("academicDegree", "BachelorOfScience"),)),
        ],
        "university",
    )

    def label(identifier: str) -> str:
        vocabulary = graph.entities if identifier in graph.entities else graph.relations
        return vocabulary.label(vocabulary.id(identifier))

    print("   " + query.picture(label).replace("\n", "\n   "))
    known = set(answer(graph.known(["train", "valid", "test"]), query).tolist())
    table = query.to_table(graph)
    scores = run.scorer().scores(table, np.arange(1), torch.empty(1, len(graph.entities)))[0]
    probability, best = torch.softmax(scores, 0).topk(5)
    lines = [
        (rank, graph.entities.label(entity), float(100 * share), "known" if entity in known else "predicted")
        for rank, (entity, share) in enumerate(zip(best.tolist(), probability.tolist(), strict=True), 1)
    ]
    print_table(("rank", "answer", "softmax %", "in the graph"), lines)

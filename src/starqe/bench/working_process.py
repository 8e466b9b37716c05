"""Does work on request and reports what it cost. Run as a script: it uses only what all versions of starqe have.

    python working_process.py RUN QUERIES SOURCE LIMIT THREADS

When it is ready, it prints the folder that starqe was imported from. Then one line is one request, and one line its reply:

    <- {"work": "import" | "open graph" | …}
    -> {"cpu": [seconds], "wall": [seconds]}
"""

import json
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path

WORK = ("import", "open graph", "read queries", "read first queries", "evaluate", "train")
"""What is measured: an import of the graph, opening its folder, reading test queries (all of three shapes, or the first rows of each),
evaluating the model on the first test queries, and some steps of training."""
STEPS = 10
"""Number of training steps per request."""


def main() -> None:
    """Works until standard input is closed."""
    import torch

    import starqe

    run, queries, source = (Path(path) for path in sys.argv[1:4])
    torch.set_num_threads(int(sys.argv[5]))
    with tempfile.TemporaryDirectory() as folder:
        work = _work(run, queries, source, int(sys.argv[4]), Path(folder))
        print(Path(starqe.__file__).resolve().parent, flush=True)
        for line in sys.stdin:
            job = work[json.loads(line)["work"]]
            busy, began = time.process_time(), time.perf_counter()
            job()
            print(json.dumps({"cpu": [time.process_time() - busy], "wall": [time.perf_counter() - began]}), flush=True)


def _work(run: Path, queries: Path, source: Path, limit: int, folder: Path) -> dict[str, Callable[[], object]]:
    """Prepares the pieces of work, and does each once: the first time is slower."""
    from starqe.kg import import_graph, load_graph
    from starqe.learn import QueryLesson, Recipe, Run, Trainer
    from starqe.measure.evaluate import Measure, evaluate
    from starqe.queries import load_queries

    opened = Run.open(run)
    scorer, entities = opened.scorer(), len(opened.graph.entities)
    tables = load_queries(queries, "test", limit=limit)
    large = sorted(tables)[-3:]
    examples = load_queries(queries, "train", limit=50 * limit)
    recipe = Recipe.parse({"train": {"validation_queries": 0, "shapes": tuple(examples)}})
    new = Run.create(folder / "run", recipe, opened.graph)
    trainer = Trainer(new, QueryLesson(new, examples, {}))
    batches = chain.from_iterable(map(trainer.lesson.batches, count()))  # epoch after epoch

    def train() -> None:
        for _ in range(STEPS):
            trainer.step(next(batches))

    jobs: tuple[Callable[[], object], ...] = (
        lambda: import_graph(source),
        lambda: load_graph(run / "graph"),
        lambda: load_queries(queries, "test", large),
        lambda: load_queries(queries, "test", limit=limit),
        lambda: evaluate(scorer, tables, entities, Measure()),
        train,
    )
    for job in jobs:
        job()
    return dict(zip(WORK, jobs, strict=True))


if __name__ == "__main__":
    main()

"""The steps from a world to questions, each in a process of its own, so that its memory is measured. Run as a module.

    python -m starqe.bench.scale.scale_steps STEP FOLDER ENTITIES SEED SECONDS

It prints one JSON object: what the step reports, with its time and the peak memory of the process.
"""

import json
import resource
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from starqe.bench.scale.world import COMMUNITY, QUALIFIERS, World
from starqe.bench.scale.world_folder import GRAPH, STATEMENTS, write_world
from starqe.kg import load_graph, save_graph
from starqe.kg.exchange import import_graph
from starqe.kg.reading.import_options import Columns
from starqe.queries import SHAPES, QueryTable, sample

if TYPE_CHECKING:
    from starqe.kg import Graph
    from starqe.measure.index.nearest import EntityIndex

WIDTH = 64
QUERIES, DRAWN = 200, 5_000
"""The number of questions, and the number of training queries per shape that are sampled to measure sampling."""
COUNT = 100
"""The number of entities to find per question."""
RECIPE = (
    f"model.width={WIDTH}",
    "train.optimizer=rows",
    "train.validation_queries=0",
    "train.average=0",
    "train.varied_per_shape=0",
    "train.redraw=true",
)
"""The settings of the trained encoder that differ from the preset ``starqe-ask``."""
_EXACT = 20  # questions that are also asked by exact search
_NOISE = 0.5
"""The noise of stand-in rows and questions, next to centres of length 1. With it, as large a share of the lists has to be visited at 47,155
entities as in an encoder trained on WD50K."""


@dataclass(frozen=True)
class Size:
    """One size of the world, and the folder for its files."""

    folder: Path
    entities: int
    seed: int
    seconds: float
    """The training time."""

    @property
    def world(self) -> World:
        """The world of this size."""
        return World(self.entities, seed=self.seed)


def write(size: Size) -> dict[str, Any]:
    """Writes the world."""
    return write_world(size.world, size.folder / "world")


def import_(size: Size) -> dict[str, Any]:
    """Imports the tables of the world, and saves the graph."""
    graph, _ = import_graph(size.folder / "world" / STATEMENTS, columns=Columns("head", "relation", "tail", QUALIFIERS))
    save_graph(graph, size.folder / "graph", overwrite=True)
    return {"units": len(graph)}


def open_(size: Size) -> dict[str, Any]:
    """Opens the graph."""
    return {"units": len(load_graph(size.folder / "world" / GRAPH))}


def draw(size: Size) -> dict[str, Any]:
    """Samples training queries of the seven shapes; opening the graph and building its look-ups are not counted."""
    graph = _graph(size)
    start = time.process_time()
    graph.entity_part.known(["train"]).build_indexes()
    look_ups = time.process_time() - start
    start, wall = time.process_time(), time.perf_counter()
    drawn = _drawn(graph, "train", DRAWN, size.seed)
    return {
        "units": sum(map(len, drawn.values())),
        "unit_cpu_seconds": time.process_time() - start,
        "unit_seconds": time.perf_counter() - wall,
        "look_ups_cpu_seconds": round(look_ups, 2),
    }


def train(size: Size) -> dict[str, Any]:
    """Trains an encoder for some time; the memory per entity is that of the process without the graph and its queries."""
    from starqe.learn import QueryLesson, Run, Trainer, preset

    graph = _graph(size)
    queries = _drawn(graph, "train", DRAWN, size.seed)
    recipe = preset("starqe-ask").with_settings([*RECIPE, f"seed={size.seed}"])
    run = Run.create(size.folder / "run", recipe, graph)
    before = _peak()
    trainer = Trainer(run, QueryLesson(run, queries), size.seconds / 60)
    start = time.process_time()
    counters = trainer.train()
    return {
        "units": counters.queries,
        "unit_cpu_seconds": time.process_time() - start,
        "unit_seconds": counters.seconds,
        "bytes_per_entity": round((_peak() - before) / size.entities),
    }


def index(size: Size) -> dict[str, Any]:
    """Builds the index of the trained encoder."""
    from starqe.learn import Run
    from starqe.reason.indexing import index_run

    return {"units": size.entities, **asdict(index_run(Run.open(size.folder / "run", _graph(size)), size.seed))}


def ask(size: Size) -> dict[str, Any]:
    """Encodes questions of the seven shapes one at a time, and finds their best entities: by the index, and some by exact search."""
    from starqe.learn import Run
    from starqe.measure.retrieval import retrieve

    graph = _graph(size)
    scorer = Run.open(size.folder / "run", graph).scorer()
    assert scorer.index is not None, "the index was built before"
    tables = _drawn(graph, "valid", QUERIES // len(SHAPES), size.seed).values()
    questions = [(table, np.array([row])) for table in tables for row in range(len(table))]
    scorer.best(questions[:1], COUNT)
    result = _latency(lambda one: scorer.best([one], COUNT), questions)
    memory = _peak()
    some = questions[:: max(1, len(questions) // _EXACT)]
    exact = _latency(lambda one: retrieve(scorer.blocks([one]), 1, COUNT), some)
    return {**result, "recall": scorer.index.measured.recall, "exact_cpu_p50_ms": exact["cpu_p50_ms"], "peak_mb": round(memory / 1e6)}


def retrieve_(size: Size) -> dict[str, Any]:
    """Builds and asks an index of rows that have the communities of the world as clusters: a stand-in for a long training."""
    from starqe.measure.index.nearest import build_index
    from starqe.measure.retrieval import retrieve
    from starqe.model.similarity import SIMILARITY, EntityRows

    rows, vectors = _stand_in(size)
    entities = EntityRows(SIMILARITY["dot"], lambda: rows)
    start, wall = time.process_time(), time.perf_counter()
    built = build_index(size.folder / "stand-in" / "index", lambda: rows, "dot", vectors, "stand-in", size.seed)
    building = {"build_cpu_seconds": round(time.process_time() - start, 1), "build_seconds": round(time.perf_counter() - wall, 1)}
    result = _asked(built, vectors)
    exact = _latency(lambda one: retrieve(entities.blocks(one[None]), 1, COUNT), vectors[:_EXACT])
    on_disk = sum(path.stat().st_size for path in (size.folder / "stand-in" / "index").iterdir())
    measured = {name: value for name, value in asdict(built.measured).items() if name != "entities"}
    return {**result, **building, **measured, "exact_cpu_p50_ms": exact["cpu_p50_ms"], "index_mb": round(on_disk / 1e6)}


def _asked(built: "EntityIndex", vectors: Any) -> dict[str, Any]:
    built.best(vectors[:1], COUNT)
    return _latency(lambda one: built.best(one[None], COUNT), vectors)


def _stand_in(size: Size) -> tuple[Any, Any]:
    """Returns rows for all entities, mapped from a file, and the vectors of questions: a community's centre, and noise."""
    import torch

    place = size.folder / "stand-in"
    place.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(size.seed)
    communities = -(-size.entities // COMMUNITY)
    centres = rng.standard_normal((communities, WIDTH), np.float32) * WIDTH**-0.5
    rows = np.memmap(place / "rows.f32", np.float32, "w+", shape=(size.entities, WIDTH))
    for first in range(0, size.entities, 1 << 18):
        ids = np.arange(first, min(first + (1 << 18), size.entities))
        length = np.exp(0.3 * rng.standard_normal((len(ids), 1), np.float32))
        rows[ids] = length * (centres[ids // COMMUNITY] + _NOISE / WIDTH**0.5 * rng.standard_normal((len(ids), WIDTH), np.float32))
    rows.flush()
    noise = _NOISE / WIDTH**0.5 * rng.standard_normal((QUERIES, WIDTH), np.float32)
    vectors = WIDTH**0.5 * (centres[rng.integers(0, communities, QUERIES)] + noise)
    return torch.from_numpy(rows), torch.from_numpy(vectors)


def _latency(work: Callable[[Any], object], questions: Sequence[Any]) -> dict[str, Any]:
    """Times questions one after the other: wall time, and CPU time, which other load changes less."""
    clocks = []
    for question in questions:
        began = time.perf_counter(), time.process_time()
        work(question)
        clocks.append((time.perf_counter() - began[0], time.process_time() - began[1]))
    (p50, cpu_p50), (p99, cpu_p99) = 1e3 * np.quantile(clocks, [0.5, 0.99], axis=0)
    found = {"p50_ms": p50, "p99_ms": p99, "cpu_p50_ms": cpu_p50, "cpu_p99_ms": cpu_p99}
    cpu = float(np.sum(clocks, axis=0)[1])
    return {"units": len(questions), "unit_cpu_seconds": cpu, **{name: round(float(value), 2) for name, value in found.items()}}


def _graph(size: Size) -> "Graph":
    return load_graph(size.folder / "world" / GRAPH)


def _drawn(graph: "Graph", split: str, count: int, seed: int) -> dict[str, QueryTable]:
    drawn = {name: sample(graph, shape, count, split, [(0, 2)] * len(shape.edges), seed) for name, shape in SHAPES.items()}
    return {name: table for name, table in drawn.items() if len(table)}


def _peak() -> int:
    """The peak memory of this process so far, in bytes."""
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


STEPS: Mapping[str, Callable[[Size], dict[str, Any]]] = {
    "write": write,
    "import": import_,
    "open": open_,
    "draw": draw,
    "train": train,
    "index": index,
    "ask": ask,
    "retrieve": retrieve_,
}
"""The steps, in their order."""


REPEATED, REPEATED_UNTIL = ("import", "open", "draw"), 40.0
"""Steps of which the fastest of three runs counts, and the seconds after which none begins again: other load slows them down."""


def measured(step: str, size: Size) -> dict[str, Any]:
    """Runs a step, and returns its report with time and memory."""
    began, report = time.perf_counter(), _once(step, size)
    for _ in range(2 if step in REPEATED else 0):
        if time.perf_counter() - began > REPEATED_UNTIL:
            break
        again = _once(step, size)
        if again["cpu_us_per_unit"] < report["cpu_us_per_unit"]:
            report = {**again, "peak_mb": report["peak_mb"]}  # of the first run: what it leaves behind is not counted
    return report


def _once(step: str, size: Size) -> dict[str, Any]:
    start, wall = time.process_time(), time.perf_counter()
    found = STEPS[step](size)
    cpu, seconds = time.process_time() - start, time.perf_counter() - wall
    report = {"cpu_seconds": round(cpu, 2), "seconds": round(seconds, 2), "peak_mb": round(_peak() / 1e6), **found}
    if "units" in report:
        own = report.pop("unit_cpu_seconds", cpu)
        report["cpu_us_per_unit"] = round(1e6 * own / max(report["units"], 1), 2)
    return report


def main() -> None:
    """Runs one step, as the command line says."""
    step, folder, entities, seed, seconds = sys.argv[1:]
    print(json.dumps(measured(step, Size(Path(folder), int(entities), int(seed), float(seconds)))))


if __name__ == "__main__":
    main()

"""Whatever is damaged in a folder of ours: an error of ours, or what was there before. Never silently something else."""

import hashlib
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from starqe.ask import Answerer, calibrate
from starqe.errors import StorageError
from starqe.folders import read_header, write_header
from starqe.kg import Graph, embedded_graph, load_graph, save_graph
from starqe.learn import Run, Trainer
from starqe.queries import SHAPES, generate, load_queries, sample
from starqe.reason.predictor.config import PredictorRecipe
from starqe.reason.predictor.lesson import PredictLesson
from starqe.reason.predictor.presets import PREDICTORS
from starqe.reason.predictor.ruled import add_rules
from starqe.reason.predictor.run import PredictorRun
from starqe.reason.reasoner import Reasoner
from starqe.reason.rules.rule_table import NODES, STEPS
from tests.damage import silent_changes
from tests.reason.sized_town import sized_run

SHAPE_NAMES = ["1p", "2i"]
INDEXED = Path(__file__).parent / "golden" / "indexed"


def read_graph(folder: Path) -> Any:
    graph = load_graph(folder)
    return graph.fingerprint, graph.entities.labels, graph.relations.labels, graph.names


def read_queries(folder: Path) -> Any:
    tables = load_queries(folder, "valid", SHAPE_NAMES)
    columns = {name: (table.anchors, table.relations, table.pairs.items, table.answers.items) for name, table in tables.items()}
    return {
        name: (json.dumps(dict(tables[name].header), sort_keys=True), [column.tolist() for column in of]) for name, of in columns.items()
    }


def digest_of(*parts: Mapping[str, torch.Tensor]) -> str:
    digest = hashlib.sha256()
    for tensors in parts:
        for name in sorted(tensors):
            digest.update(name.encode() + tensors[name].numpy().tobytes())
    return digest.hexdigest()


def read_run(folder: Path) -> Any:
    run = Run.open(folder)
    state = run.load_state()
    assert state is not None
    reasoner = Reasoner.open(run)
    fitted = reasoner.calibration, reasoner.weights, reasoner.settings
    inside = read_predictor(folder / "predictor", run.graph) if (folder / "predictor").exists() else None
    return digest_of(state[0], run.encoder().state_dict()), state[1], run.recipe, repr(fitted), run.graph.fingerprint, inside


def read_predictor(folder: Path, graph: Graph | None = None) -> Any:
    """Reads a predictor with its checkpoint, or that of a run, which has the graph and needs no checkpoint."""
    run = PredictorRun.open(folder, graph)
    state = run.load_state() if graph is None else ({}, {})
    assert state is not None
    return digest_of(state[0], run.predictor().state_dict()), state[1], run.recipe, run.graph.fingerprint


def read_rules(folder: Path) -> Any:
    """Reads a predictor and what its rules say."""
    book = PredictorRun.open(folder).rules()
    assert book is not None
    columns = {name: getattr(book.rules, name).tolist() for name in (*STEPS, *NODES, "support", "body", "confidence")}
    return read_predictor(folder), book.rules.weight, columns


def read_index(folder: Path) -> Any:
    """Reads a run, and what its index finds."""
    run = Run.open(folder)
    scorer = run.scorer()
    assert scorer.index is not None
    found = scorer.best([(sample(run.graph, SHAPES["1p"], 5, "valid", [(0, 1)]), np.arange(5))], 10)
    return digest_of(run.encoder().state_dict()), run.recipe, run.graph.fingerprint, scorer.index.measured, found.ids.tolist()


@pytest.fixture(scope="module")
def made(askable_run: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Callable[[Path], Any]]]:
    """A small folder of each kind, and how it is read."""
    place = tmp_path_factory.mktemp("damage")
    save_graph(embedded_graph(), place / "graph")
    generate(embedded_graph(), place / "queries", [SHAPES[name] for name in SHAPE_NAMES], splits=["valid"])
    shutil.copytree(askable_run, place / "run", ignore=shutil.ignore_patterns("metrics.jsonl", ".lock"))
    recipe = PredictorRecipe.parse(PREDICTORS["one-hop-demo"]).with_settings(["model.width=4", "train.epochs=1"])
    predictor = PredictorRun.create(place / "predictor", recipe, embedded_graph())
    Trainer(predictor, PredictLesson(predictor)).train()
    shutil.copytree(place / "run", place / "both")
    shutil.copytree(INDEXED, place / "indexed")
    ruled = PredictorRun.create(place / "ruled", recipe.with_settings(["train.rules=true"]), embedded_graph())
    Trainer(ruled, PredictLesson(ruled)).train()
    add_rules(ruled)
    calibrate(Run.open(place / "both"), predictor, {"1p": sample(embedded_graph(), SHAPES["1p"], 20, "valid", [(0, 2)])})
    for path in (*place.rglob(".lock"), *place.rglob("metrics.jsonl")):
        path.unlink()
    return {
        "graph": (place / "graph", read_graph),
        "queries": (place / "queries", read_queries),
        "run": (place / "run", read_run),
        "predictor": (place / "predictor", read_predictor),
        "both": (place / "both", read_run),
        "ruled": (place / "ruled", read_rules),
        "indexed": (place / "indexed", read_index),
    }


@pytest.mark.parametrize("kind", ["graph", "queries", "run", "predictor", "both", "ruled", "indexed"])
@pytest.mark.parametrize("tries", [40, pytest.param(600, marks=pytest.mark.slow)])
def test_damage_is_noticed_or_harmless(made, kind, tries):
    if kind == "indexed":
        pytest.importorskip("faiss", reason="needs the extra index")
    folder, read = made[kind]
    assert list(silent_changes(folder, lambda: read(folder), tries, seed=tries)) == []


def read_literals(folder: Path) -> Any:
    graph = load_graph(folder)
    return read_graph(folder), graph.literals.keys.to_pylist(), graph.literals.numbers.tolist()


def read_numbers(folder: Path) -> Any:
    answerer = Answerer.open(folder, splits=["train"])
    found = [answerer.ask(f"SELECT ?s {{ e:{person} r:size ?s }}") for person in ("p0", "p60")]
    answerer.close()
    return repr(found), read_literals(folder / "graph")


@pytest.fixture(scope="module")
def sized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that predicts numbers, with a graph that has literals."""
    folder = sized_run(tmp_path_factory.mktemp("sized"))
    for path in (*folder.rglob(".lock"), *folder.rglob("metrics.jsonl")):
        path.unlink()
    return folder


@pytest.mark.full
@pytest.mark.parametrize(("name", "read"), [("graph", read_literals), ("", read_numbers)], ids=["literals", "numbers"])
@pytest.mark.parametrize("tries", [30, pytest.param(600, marks=pytest.mark.slow)])
def test_damage_of_literals_and_of_what_predicts_them_is_noticed_or_harmless(sized, name, read, tries):
    folder = sized / name
    assert list(silent_changes(folder, lambda: read(folder), tries, seed=tries)) == []


@pytest.mark.parametrize(
    "text", ["[" * 100_000 + "]" * 100_000, '{"a":' * 100_000 + "1" + "}" * 100_000, " " * 2**25, '{"version": 1e999}']
)
def test_headers_that_are_deep_or_huge_are_refused(tmp_path, text):
    (tmp_path / "h.json").write_text(text)
    with pytest.raises(StorageError, match="not the header of a graph folder"):
        read_header(tmp_path / "h.json", "starqe graph")


def test_a_header_that_was_changed_is_refused(tmp_path):
    write_header(tmp_path / "h.json", "starqe graph", 1, {"statements": 7})
    (tmp_path / "h.json").write_text((tmp_path / "h.json").read_text().replace("7", "8"))
    with pytest.raises(
        StorageError, match=r"h\.json: damaged or changed \(checksum \w{8}, recorded \w{8}\)\. Restore it from a copy, or make it again"
    ):
        read_header(tmp_path / "h.json", "starqe graph")

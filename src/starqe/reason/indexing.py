"""Builds the indexes of a run: of the entities of its encoder, and of its one-hop predictor if it has one."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch

from starqe.errors import QueryError
from starqe.folders import locked
from starqe.kg import Graph
from starqe.learn import EncoderScorer, Run
from starqe.learn.run import WEIGHTS
from starqe.learn.tensor_file import recorded_checksum
from starqe.measure.index.lists import available, sampled_rows
from starqe.measure.index.nearest import FOLDER, Measured, build_index
from starqe.queries import SHAPES, sample
from starqe.queries.gaps import HEAD, TAIL, with_gap
from starqe.reason.calibration import PREDICTOR
from starqe.reason.predictor.run import AnyRun, PredictorRun, open_run

INDEXED_FROM = 1_000_000
"""A fit builds indexes from this number of entities on; for smaller graphs, exact search is fast enough."""
QUERIES = 210
"""The number of sampled queries on which an index is measured."""


def build_indexes(folder: Path, seed: int = 0, step: Callable[[float], None] = lambda _: None) -> dict[str, Measured]:
    """Builds the index of a run, and that of the predictor inside it; existing ones are replaced.

    Args:
        folder: The folder of a run of any kind.
        seed: Decides what is sampled.
        step: Called with the progress, from 0 to 1.

    Returns:
        The measurements, by kind of model.

    Raises:
        InputError: There are too few entities.
        QueryError: The graph has no query to measure by.
        StorageError: The folder is not a run, is damaged, has no weights yet, or cannot be written.
        UnsupportedError: The library is missing, or the similarity cannot be indexed.
    """
    with locked(folder):
        runs: list[AnyRun] = [open_run(folder)]
        if (folder / PREDICTOR).exists():
            runs.append(PredictorRun.open(folder / PREDICTOR, runs[0].graph))
        return {run.kind: index_run(run, seed, partial(_part, step, number, len(runs))) for number, run in enumerate(runs)}


def _part(step: Callable[[float], None], number: int, parts: int, share: float) -> None:
    step((number + share) / parts)


def index_large(runs: Sequence[AnyRun], seed: int = 0) -> None:
    """Builds the indexes of models of a large graph, if the library is installed; without one, search is exact.

    Raises:
        QueryError: The graph has no query to measure by.
        StorageError: A run has no weights yet, or cannot be written.
    """
    for run in runs:
        if len(run.graph.entities) >= INDEXED_FROM and available():
            index_run(run, seed)


def index_run(run: AnyRun, seed: int = 0, step: Callable[[float], None] = lambda _: None) -> Measured:
    """Builds the index of one model.

    Raises:
        InputError: There are too few entities.
        QueryError: The graph has no query to measure by.
        StorageError: The run has no weights yet, or cannot be written.
        UnsupportedError: The library is missing, or the similarity cannot be indexed.
    """
    vectors, matrix = _encoder_queries(run, seed) if isinstance(run, Run) else _predictor_queries(run, seed)
    similarity = run.recipe.model.similarity if isinstance(run, Run) else "dot"
    return build_index(run.folder / FOLDER, matrix, similarity, vectors, recorded_checksum(run.folder / WEIGHTS), seed, step).measured


Model = tuple[torch.Tensor, Callable[[], torch.Tensor]]
"""The vectors of sampled queries, and a function that returns the rows of the entities."""


def _encoder_queries(run: Run, seed: int) -> Model:
    """Samples queries of the seven shapes, as validation has them."""
    split, each = _split(run.graph), QUERIES // len(SHAPES)
    drawn = [sample(run.graph, shape, each, split, [(0, 2)] * len(shape.edges), seed) for shape in SHAPES.values()]
    tables = [table for table in drawn if len(table)]
    if not tables:
        raise QueryError("an index is measured by queries of the graph, and it has none of the seven shapes")
    encoder = run.encoder()
    scorer = EncoderScorer(encoder, run.graph, run.recipe.train.variant)
    return scorer.vectors([(table, np.arange(len(table))) for table in tables]), encoder.entity_matrix


def _predictor_queries(run: PredictorRun, seed: int) -> Model:
    """Samples statements that lack their head or their tail."""
    known = np.flatnonzero(run.graph.split == ("train", "valid").index(_split(run.graph)))
    rows = known[sampled_rows(seed, len(known), QUERIES // 2, "statements to index by")]
    predictor = run.predictor()
    with torch.inference_mode():
        return torch.cat([predictor(with_gap(run.graph, rows, position)) for position in (TAIL, HEAD)]), predictor.entity_matrix


def _split(graph: Graph) -> str:
    return "valid" if len(graph.known(["valid"])) else "train"

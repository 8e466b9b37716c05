"""An approximate index of the entities: the best ones of a query without comparing it with all, for graphs of millions.

The rows are clustered into lists; a query visits the lists nearest to it. The rows of the lists are numbers of 4 bits, which the processor
looks up 32 rows at a time, and the best of them are compared again by their exact scores. The normaliser is the sum over these, plus an
estimate of the rest from a fixed random sample of the entities. In a run it is a folder:

    index.json     {"format": "starqe index", "version": 2, the weights that it belongs to, its sizes, what was measured when it was built}
    lists.faiss    the clusters and their rows

B queries · V entities · D width · k best.
"""

import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from starqe.errors import InputError, MismatchError, StorageError, UnsupportedError
from starqe.folders import check_only, file_checksum, new_folder, read_header, recover, write_header
from starqe.measure.index.lists import RENEW, clustered, library, read_lists, sampled_rows, search
from starqe.measure.retrieval import Best, retrieve
from starqe.model.similarity import SIMILARITY, EntityRows
from starqe.ragged import IntArray

FORMAT, VERSION = "starqe index", 2
FOLDER, HEADER, LISTS = "index", "index.json", "lists.faiss"
LEAST = 1_000
"""The minimum number of entities of an index."""
COUNT = 100
"""The number of best entities whose recall is measured."""
ENOUGH = 0.96
"""The recall up to which more lists are visited."""
CANDIDATES, MOST_CANDIDATES = 1_024, 8_192
"""The minimum number of entities whose exact scores are computed for a query, and the most that an index chooses."""
WITH_ALL_LISTS = 0.985
"""The recall that the number of candidates is chosen for, if all lists are visited: the rest of what may be lost is left to the lists."""
SAMPLE = 16_384
"""The number of entities that the rest of the normaliser is estimated from."""


@dataclass(frozen=True)
class Measured:
    """What was measured when an index was built, on sampled queries next to exact search."""

    entities: int
    lists: int
    probes: int
    """The number of lists that a query visits."""
    queries: int
    recall: float
    """The share of the 100 best entities that are found."""
    normaliser_error: float
    """The root mean square error of the logarithm of the normaliser."""
    estimated_error: float
    """The same, as the estimates themselves expect it."""
    candidates: int = CANDIDATES
    """The number of entities whose exact scores are computed."""


class EntityIndex:
    """Finds the best entities of query vectors approximately; safe to use from several threads.

    Args:
        lists: The index of the library.
        similarity: The name of the similarity.
        matrix: Returns the rows of the entities, for exact scores: (V, D).
        measured: What was measured when it was built.
        seed: Decides the sample that the normaliser is estimated from.
    """

    def __init__(self, lists: Any, similarity: str, matrix: Callable[[], Tensor], measured: Measured, seed: int = 0) -> None:
        self._lists, self._name, self._matrix, self.measured, self._seed = lists, similarity, matrix, measured, seed

    @cached_property
    def _sample(self) -> tuple[IntArray, Tensor]:
        """The sampled entities, ascending, and their rows: (m,), (m, D)."""
        ids = sampled_rows(self._seed, self.measured.entities, SAMPLE, "normaliser sample")
        return ids, self._rows(ids)

    def _rows(self, ids: IntArray) -> Tensor:
        return self._matrix()[torch.from_numpy(ids)].float()

    def best(self, vectors: Tensor, count: int, without: Sequence[IntArray] | None = None) -> Best:
        """Finds the best entities of some queries, besides those that do not compete: (B, D).

        Args:
            vectors: The query vectors.
            count: The number of entities wanted for each; fewer are found if there are fewer.
            without: For each query, the entities that do not compete.
        """
        vectors = vectors.detach().float().cpu()
        without = without or [np.empty(0, np.int64)] * len(vectors)
        count = min(count, self.measured.entities)
        wanted = min(max(self.measured.candidates, 2 * count) + max(map(len, without), default=0), self.measured.entities)
        places = search(self._lists, vectors, self._name, wanted, self.measured.probes)
        ids, scores = np.zeros((len(vectors), count), np.int64), torch.full((len(vectors), count), -torch.inf)
        total, error = torch.empty(len(vectors)), torch.empty(len(vectors))
        of_sample = SIMILARITY[self._name].scores(vectors, self._sample[1])  # (B, m)
        for row, vector in enumerate(vectors):
            found = np.sort(places[row][places[row] >= 0])  # each is in one list
            found = found[~np.isin(found, without[row])] if len(without[row]) else found
            own = self.at(vector[None], found)[0]
            order = own.argsort(descending=True, stable=True)[:count]  # of equal ones, the lowest id comes first
            ids[row, : len(order)], scores[row, : len(order)] = found[order.numpy()], own[order]
            total[row], error[row] = self._normaliser(own, of_sample[row], found, np.unique(without[row]))
        return Best(ids, scores, total, torch.full((len(vectors),), torch.inf), error)

    def at(self, vectors: Tensor, ids: IntArray) -> Tensor:
        """Computes the exact scores of some entities: (B, D), (n,) -> (B, n)."""
        return SIMILARITY[self._name].scores(vectors.float(), self._rows(ids))

    def _normaliser(self, own: Tensor, of_sample: Tensor, found: IntArray, without: IntArray) -> tuple[float, float]:
        """Returns the logarithm of the normaliser and its standard error, from the scores of the found and of the sample."""
        sample = self._sample[0]
        free = np.ones(len(sample), bool)
        for others in (found, without):
            free[_places_of(others, sample)] = False
        rest = self.measured.entities - len(found) - len(without)
        scores = of_sample.numpy()[free].astype(np.float64)
        known = own.double().numpy()
        most = max(known.max(initial=-np.inf), scores.max(initial=-np.inf))
        weights = np.exp(scores - most)
        total = np.exp(known - most).sum() + (rest * weights.mean() if len(weights) else 0.0)
        if len(weights) < 2 or total == 0:
            return float(most + np.log(total)) if total else -math.inf, 0.0
        # A sample can miss the few large terms of the rest. So the least of the found counts as one more of it: what is left is about that.
        least = np.exp(known.min(initial=most) - most)
        spread = np.append(weights, least).std(ddof=1) if len(weights) < rest else 0.0  # a sample of all has no error
        return float(most + np.log(total)), float(rest * spread / math.sqrt(len(weights)) / total)


def _places_of(values: IntArray, among: IntArray) -> IntArray:
    """Returns the places of values in an ascending array; values that it lacks are left out."""
    places = np.searchsorted(among, values)
    inside = places < len(among)
    return np.asarray(places[inside][among[places[inside]] == values[inside]])


def build_index(
    folder: Path,
    matrix: Callable[[], Tensor],
    similarity: str,
    vectors: Tensor,
    weights: str,
    seed: int = 0,
    step: Callable[[float], None] = lambda _: None,
) -> EntityIndex:
    """Builds the index of a model's entities, measures it, and writes it, completely or not at all; an earlier one is replaced.

    Args:
        folder: The folder of the index.
        matrix: Returns the rows of the entities: (V, D).
        similarity: The name of the similarity.
        vectors: Vectors of sampled queries, to measure by: (B, D).
        weights: What identifies the weights that the rows belong to.
        seed: Decides what is sampled.
        step: Called with the share of the work that is done.

    Raises:
        InputError: There are too few entities, or no queries.
        UnsupportedError: The similarity cannot be indexed, or the library is missing.
        StorageError: The folder cannot be written.
    """
    if SIMILARITY[similarity].order is None:
        raise UnsupportedError(f"an index orders entities by products or distances, found the similarity '{similarity}'. Use exact search")
    rows = matrix()
    if len(rows) < LEAST or not len(vectors):
        raise InputError(f"an index has at least {LEAST:,} entities and is measured by queries, found {len(rows):,} and {len(vectors):,}")
    faiss = library()
    lists = clustered(rows, similarity, seed, lambda share: step(0.1 + 0.7 * share))
    measured = _measure(lists, matrix, similarity, vectors.detach().float().cpu(), seed)
    with new_folder(folder, True, lambda: _check_replaceable(folder)) as place:
        faiss.write_index(lists, str(place / LISTS))
        content = {"weights": weights, "similarity": similarity, "seed": seed, "measured": asdict(measured)}
        write_header(place / HEADER, FORMAT, VERSION, {**content, "checksums": {LISTS: file_checksum(place / LISTS)}})
    step(1.0)
    return open_index(folder, matrix, similarity, weights)


def _check_replaceable(folder: Path) -> None:
    if (folder / HEADER).exists():  # else it is what is left of one that was removed
        read_header(folder / HEADER, FORMAT)
    check_only(folder, (HEADER, LISTS), "an index")


def _measure(lists: Any, matrix: Callable[[], Tensor], similarity: str, vectors: Tensor, seed: int) -> Measured:
    """Chooses how many lists are visited and candidates compared; measures recall and the error of the normaliser, next to exact search."""
    entities = EntityRows(SIMILARITY[similarity], lambda: matrix())
    count = min(COUNT, len(matrix()))
    exact = [retrieve(_float_blocks(entities, some), len(some), count) for some in torch.split(vectors, 16)]
    true = np.concatenate([best.ids for best in exact])

    def tried(probes: int, candidates: int) -> tuple[Best, Measured]:
        sizes = Measured(len(matrix()), lists.nlist, probes, len(vectors), 0.0, 0.0, 0.0, candidates)
        found = EntityIndex(lists, similarity, matrix, sizes, seed).best(vectors, count)
        recall = float(np.mean([np.isin(one, other).mean() for one, other in zip(true, found.ids, strict=True)]))
        return found, replace(sizes, recall=recall)

    candidates = CANDIDATES
    while candidates < MOST_CANDIDATES and tried(lists.nlist, candidates)[1].recall < WITH_ALL_LISTS:
        candidates *= 2
    fewer, probes = 0, min(8, lists.nlist)
    while tried(probes, candidates)[1].recall < ENOUGH and probes < lists.nlist:
        fewer, probes = probes, min(2 * probes, lists.nlist)
    while probes - fewer > 1 + probes // 16:
        middle = (fewer + probes) // 2
        fewer, probes = (fewer, middle) if tried(middle, candidates)[1].recall >= ENOUGH else (middle, probes)
    found, measured = tried(probes, candidates)
    assert found.error is not None, "an index estimates"
    off = found.log_normaliser - torch.cat([best.log_normaliser for best in exact])
    errors = [math.sqrt(float(value.double().square().mean())) for value in (off, found.error)]
    return replace(measured, normaliser_error=errors[0], estimated_error=errors[1])


def _float_blocks(entities: EntityRows, vectors: Tensor) -> Any:
    return ((start, scores.float()) for start, scores in entities.blocks(vectors))


def open_index(folder: Path, matrix: Callable[[], Tensor], similarity: str, weights: str) -> EntityIndex:
    """Opens an index.

    Raises:
        MismatchError: It was built for other weights, or another similarity.
        StorageError: It is damaged.
        UnsupportedError: The library is missing.
    """
    header = read_header(folder / HEADER, FORMAT, VERSION)
    if header.get("weights") != weights or header.get("similarity") != similarity:
        built = f"for the weights {header.get('weights')} and the similarity {header.get('similarity')}"
        raise MismatchError(f"{folder} was built {built}, and the model has the weights {weights} and {similarity}. {RENEW}")
    path = folder / LISTS
    try:
        recorded, found = header["checksums"][LISTS], file_checksum(path)
        if recorded != found:
            raise StorageError(f"{path}: damaged or changed (checksum {found}, recorded {recorded}). {RENEW}")
        measured = Measured(**header["measured"])
        lists, entities = read_lists(path, similarity, *matrix().shape), len(matrix())
        if (measured.lists, measured.entities) != (lists.nlist, entities) or not 0 < measured.probes <= measured.lists:
            raise ValueError(f"entities and lists are {entities} and {lists.nlist}, found {measured}")
        if not 0 < measured.candidates <= MOST_CANDIDATES:
            raise ValueError(f"an index has 1 to {MOST_CANDIDATES} candidates, found {measured.candidates}")
        return EntityIndex(lists, similarity, matrix, measured, int(header["seed"]))
    except (OSError, KeyError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError, MemoryError) as error:
        raise StorageError(f"{folder}: damaged ({error}). {RENEW}") from None


def index_of(folder: Path, matrix: Callable[[], Tensor], similarity: str, weights: Callable[[], str]) -> EntityIndex | None:
    """Opens the index in the folder of a run, if it has one; what identifies the weights that it has to belong to is only asked then.

    Raises:
        MismatchError: It was built for other weights.
        StorageError: It, or the file of the weights, is damaged.
        UnsupportedError: The library is missing.
    """
    place = folder / FOLDER
    if not place.exists():
        recover(place)
    return open_index(place, matrix, similarity, weights()) if (place / HEADER).exists() else None


def remove_index(folder: Path) -> None:
    """Removes the index in the folder of a run, if it has one."""
    (folder / FOLDER / HEADER).unlink(missing_ok=True)  # without it, the rest is no index
    shutil.rmtree(folder / FOLDER, ignore_errors=True)

"""The lists of an index: rows in clusters, kept as numbers of 4 bits. The library (faiss) looks them up 32 rows at a time.

A product grows with the length of a row, so the best rows of a query are long ones, or of its own direction. Rows are divided into bands by
length: the shorter half, half of the rest, and so on; each band is clustered by direction. A query q visits the lists in the order of

    q·m + 1.5 |q| s        m the mean of the rows of a list, s their standard deviation per feature

which few of their rows exceed. The library compares by products, so this is one more feature: 1.5 s of a list, |q| of a query, 0 of a row.
Distances have one band, and are compared with the means.

V entities · D width · L lists · n rows of a block.
"""

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from starqe.errors import StorageError, UnsupportedError
from starqe.model.similarity import BLOCK, SIMILARITY
from starqe.ragged import FloatArray, IntArray
from starqe.seed import derive, generator

RENEW = "Build the index again"
BANDS = 6
SPREAD = 1.5
_LISTS = 3  # times the square root of the entities; twice as many take twice as long to build
_ROWS_PER_LIST = 40  # that the clustering learns from
_ROUNDS = 8
_CODED = 32_768  # rows that the 16 values of a feature are learned from
_READING = threading.Lock()


def library() -> Any:
    """Returns the library.

    Raises:
        UnsupportedError: It is missing.
    """
    try:
        import faiss
    except ImportError:
        raise UnsupportedError(
            "an index of entities needs the package faiss-cpu. Install it (pip install 'starqe[index]'), or remove the index"
        ) from None
    faiss.omp_set_num_threads(torch.get_num_threads())
    return faiss


def available() -> bool:
    """Returns whether the library that builds and reads indexes is installed."""
    try:
        library()
    except UnsupportedError:
        return False
    return True


def sampled_rows(seed: int, rows: int, count: int, purpose: str) -> IntArray:
    """Returns different rows at random, ascending; all if there are no more."""
    return np.sort(generator(seed, purpose).choice(rows, min(count, rows), replace=False))


def clustered(rows: Tensor, similarity: str, seed: int, step: Callable[[float], None] = lambda _: None) -> Any:
    """Returns the lists of all rows, for the order of a similarity: (V, D)."""
    faiss, bands = library(), _learned_bands(rows, similarity, seed)
    by_product = _by_product(similarity)
    width, count = rows.shape[1] + by_product, bands.first[-1]
    centres = (faiss.IndexFlatIP if by_product else faiss.IndexFlatL2)(width)
    lists = faiss.IndexIVFPQ(centres, width, count, width, 4, faiss.METRIC_INNER_PRODUCT if by_product else faiss.METRIC_L2)
    lists.by_residual, lists.is_trained = False, True
    some = torch.from_numpy(sampled_rows(seed, len(rows), _CODED, "rows to learn codes from"))
    lists.pq.cp.seed = derive(seed, "codes") % 2**31
    lists.pq.train(_stored(rows[some], similarity))
    sums, squares, sizes = torch.zeros(count, width), torch.zeros(count), torch.zeros(count)
    for start in range(0, len(rows), BLOCK):
        block = _stored(rows[start : start + BLOCK], similarity)
        own = bands.lists_of(block[:, : rows.shape[1]])
        lists.add_core(len(block), faiss.swig_ptr(block), None, faiss.swig_ptr(own))
        place, values = torch.from_numpy(own), torch.from_numpy(block)
        sums.index_add_(0, place, values)
        squares.index_add_(0, place, values.square().sum(1))
        sizes.index_add_(0, place, torch.ones(len(block)))
        step(min(1.0, (start + BLOCK) / len(rows)))
    sizes.clamp_min_(1.0)
    means = sums / sizes[:, None]
    if by_product:
        means[:, -1] = SPREAD * ((squares / sizes - means.square().sum(1)).clamp_min(0) / rows.shape[1]).sqrt()
    centres.add(means.numpy())
    packed = faiss.IndexIVFPQFastScan(lists, 32)
    centres.this.disown()
    packed.own_fields = True
    return packed


@dataclass(frozen=True)
class _Bands:
    """Rows by length, and the directions that those of each band are clustered by."""

    edges: FloatArray
    """The lengths between the bands, ascending."""
    centres: list[Any]
    """For each band, the library's exact index of its centres."""
    first: list[int]
    """The number of the first list of each band, and at the end the number of lists."""

    def lists_of(self, block: FloatArray) -> IntArray:
        """Returns the list of each row: (n, D) -> (n,)."""
        found = np.empty(len(block), np.int64)
        for band, own in enumerate(_in_bands(np.linalg.norm(block, axis=1), self.edges)):
            if len(own):
                found[own] = self.first[band] + self.centres[band].search(np.ascontiguousarray(block[own]), 1)[1][:, 0]
        return found


def _learned_bands(rows: Tensor, similarity: str, seed: int) -> _Bands:
    faiss, by_product = library(), _by_product(similarity)
    one_band = SIMILARITY[similarity].order != "product"
    lengths = np.concatenate([torch.linalg.vector_norm(block.detach().float(), dim=1).numpy() for block in torch.split(rows, BLOCK)])
    edges = np.empty(0) if one_band else np.unique(np.quantile(lengths, [1 - 0.5**band for band in range(1, BANDS)]))
    members = _in_bands(lengths, edges)
    each, first = max(1, list_count(len(rows)) // len(members)), [0]
    centres: list[Any] = []
    for band, own in enumerate(members):
        chosen = own[sampled_rows(seed, len(own), _ROWS_PER_LIST * each, f"rows to cluster, band {band}")]
        some = _operand(rows[torch.from_numpy(chosen)], similarity)
        kept = faiss.IndexFlatIP(rows.shape[1]) if by_product else faiss.IndexFlatL2(rows.shape[1])
        if len(some):
            settings = {"niter": _ROUNDS, "seed": derive(seed, "clusters") % 2**31, "spherical": by_product}
            limits = {"min_points_per_centroid": 1, "max_points_per_centroid": 2**30}
            means = faiss.Kmeans(rows.shape[1], min(each, len(some)), **settings, **limits)
            means.train(_directions(some) if by_product else some)
            kept.add(means.centroids)
        centres.append(kept)
        first.append(first[-1] + kept.ntotal)
    return _Bands(edges, centres, first)


def _in_bands(lengths: FloatArray, edges: FloatArray) -> list[IntArray]:
    """Returns the rows of each band."""
    band = np.searchsorted(edges, lengths, "right")
    return [np.flatnonzero(band == number) for number in range(len(edges) + 1)]


def list_count(entities: int) -> int:
    """Returns about how many lists this number of entities has."""
    return int(2 ** round(math.log2(_LISTS * math.sqrt(entities))))


def _by_product(similarity: str) -> bool:
    return SIMILARITY[similarity].order != "distance"


def _operand(rows: Tensor, similarity: str) -> Any:
    """Returns rows or vectors as the index compares them: (n, D) float32."""
    rows = rows.detach().float()
    directions = SIMILARITY[similarity].order == "product of directions"
    return np.ascontiguousarray((torch.nn.functional.normalize(rows) if directions else rows).numpy())


def _directions(rows: FloatArray) -> FloatArray:
    found: FloatArray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), np.float32(1e-12))
    return found


def _stored(rows: Tensor, similarity: str) -> Any:
    """Returns rows as the lists keep them: (n, D) -> (n, D or D + 1) float32."""
    operand = _operand(rows, similarity)
    return np.pad(operand, ((0, 0), (0, 1))) if _by_product(similarity) else operand


def search(lists: Any, vectors: Tensor, similarity: str, count: int, probes: int) -> IntArray:
    """Returns the entities whose rows seem best, of the lists that a query visits; -1 where there are no more. (B, D) -> (B, count).

    Raises:
        StorageError: The lists are damaged.
    """
    faiss, asked = library(), _operand(vectors, similarity)
    if lists.d > asked.shape[1]:
        asked = np.hstack([asked, np.linalg.norm(asked, axis=1, keepdims=True)])
    found: IntArray = lists.search(asked, count, params=faiss.SearchParametersIVF(nprobe=probes))[1]
    if found.max(initial=-1) >= lists.ntotal:
        raise StorageError(f"the index of the entities is damaged: it has {lists.ntotal:,}, found the number {found.max()}. {RENEW}")
    return found


def read_lists(path: Path, similarity: str, entities: int, width: int) -> Any:
    """Reads the lists; a file that claims more than it holds is refused before memory is taken for it.

    Raises:
        ValueError: They are of something else.
        RuntimeError: They are damaged.
    """
    faiss, extended = library(), width + _by_product(similarity)
    with _READING:  # the limit is one for all threads
        faiss.set_deserialization_vector_byte_limit(path.stat().st_size + 64 * list_count(entities) * extended)
        lists = faiss.read_index(str(path), faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY)
    if isinstance(lists, faiss.IndexIVFScalarQuantizer):  # version 1: numbers of 8 bits, mapped into memory
        faiss.downcast_InvertedLists(lists.invlists).prefetch_nthread = 0  # else it starts 32 threads per query
        extended = width
    elif not isinstance(lists, faiss.IndexIVFPQFastScan):
        raise ValueError(f"an index has lists of numbers of 4 bits, found {type(lists).__name__}")
    if (lists.ntotal, lists.d) != (entities, extended):
        raise ValueError(f"entities and width are {entities} and {extended}, found {lists.ntotal} and {lists.d}")
    return lists

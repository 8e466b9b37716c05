"""Similarities of query vectors and entities: scores and their gradients by matrix products alone.

B queries · V entities · D width. No (B, V, D) tensor is ever made: |x - y|² = |x|² - 2 x·y + |y|². For training, every
similarity defines how the gradient G of the scores becomes gradients of both sides through two products, with X the operand:

    H = `slope`(G)        A = H · entities (B, D)        C = Hᵀ · X (V, D)
    gradient of the vectors = `pull_vectors`(A, row sums of H)        of the entities = `pull_entities`(C, column sums of H)
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

import torch
from torch import Tensor

SMALLEST_NORM = 1e-12
SMALLEST_DISTANCE = 1e-4
FEW = 4
"""Up to this number of vectors, the product is computed in the order that is faster for few vectors."""
PACKED_ROWS = 4_096
"""Smaller matrices are not packed: their products take no time."""
BLOCK = 65_536
"""The number of entities per block: their scores for 16 queries take 4 MiB. Smaller blocks save less than their calls cost."""
PRODUCT_BYTES = 24 << 20
"""oneDNN allocates its result. Up to this size the memory is used again; fresh memory costs half as much as the product."""
_PACKED_FOR = 16  # the number of vectors that the packed order is chosen for; it serves others almost as well


class Similarity(ABC):
    """A stateless similarity."""

    sums = False
    """Whether the gradients need the row and column sums of H."""
    keeps_scores = False
    """Whether `slope` needs the scores."""
    order: Literal["product", "product of directions", "distance"] | None = None
    """What orders the entities of a query as the scores do, so that an index can find the best; None if nothing of this kind does."""

    @abstractmethod
    def terms(self, entities: Tensor) -> Tensor | None:
        """Returns the term of each entity that the scores need in addition to the products. (V,)."""

    def operand(self, vectors: Tensor) -> Tensor:
        """Returns the left side of the products. (B, D)."""
        return vectors

    def scores(self, vectors: Tensor, entities: Tensor, out: Tensor | None = None, terms: Tensor | None = None) -> Tensor:
        """Scores every entity for every query; larger is more similar. (B, D), (V, D) -> (B, V).

        Args:
            vectors: The query vectors.
            entities: The rows to compare with.
            out: A buffer that is filled and returned, to save an allocation. It may be on another device.
            terms: `terms` of the entities, if they are known already.
        """
        with torch.no_grad():
            place = vectors.new_empty(len(vectors), len(entities)) if out is None or out.device != vectors.device else out
            if entities.dtype != vectors.dtype:  # rows of a table in training: float16 is for storage only
                for start in range(0, len(entities), BLOCK):
                    place[:, start : start + BLOCK] = self.scores(vectors, entities[start : start + BLOCK].to(vectors.dtype))
                return place if out is None or out is place else out.copy_(place)
            scores = self._fill(vectors, entities, place, self.terms(entities) if terms is None else terms)
            return scores if out is None or out is place else out.copy_(scores)

    @abstractmethod
    def _fill(self, vectors: Tensor, entities: Tensor, out: Tensor, terms: Tensor | None) -> Tensor:
        """Fills ``out`` with the scores. (B, V)."""

    def slope(self, gradient: Tensor, scores: Tensor | None, terms: Tensor | None) -> Tensor:  # noqa: ARG002
        """Turns G into H, in place. (B, V)."""
        return gradient

    def pull_vectors(self, product: Tensor, sums: Tensor | None, vectors: Tensor) -> Tensor:  # noqa: ARG002
        """Turns A into the gradient of the vectors. (B, D)."""
        return product

    def pull_entities(self, product: Tensor, sums: Tensor | None, entities: Tensor, terms: Tensor | None) -> None:  # noqa: B027
        """Turns C into the gradient of the entities, in place; the default leaves C as it is. (V, D)."""


def _products(vectors: Tensor, entities: Tensor, out: Tensor) -> Tensor:
    """Fills ``out`` with x·y. (B, D), (V, D) -> (B, V).

    For few vectors the entities are the left factor: as the right one, all of them would be copied into another order first.
    """
    if len(vectors) <= FEW:
        return out.copy_((entities @ vectors.T).T)
    return torch.mm(vectors, entities.T, out=out)


def _length(rows: Tensor) -> Tensor:
    return torch.linalg.vector_norm(rows, dim=1, keepdim=True).clamp_min_(SMALLEST_NORM)  # type: ignore[no-any-return]


class Dot(Similarity):
    """The dot product x·y."""

    order = "product"

    def terms(self, entities: Tensor) -> None:
        """Returns None: dot products need no terms."""

    def _fill(self, vectors: Tensor, entities: Tensor, out: Tensor, terms: Tensor | None) -> Tensor:  # noqa: ARG002
        return _products(vectors, entities, out)


class Cosine(Similarity):
    """The cosine x·y / (|x| |y|); a vector of length zero is similar to nothing.

    With u = x/|x|, H is G divided by |y|, column by column, and both gradients lose their part along the vector itself.
    """

    order = "product of directions"

    def terms(self, entities: Tensor) -> Tensor:
        """Returns 1 / |y|. (V,)."""
        return _length(entities).reciprocal_().squeeze(1)

    def operand(self, vectors: Tensor) -> Tensor:
        """Returns u. (B, D)."""
        return vectors / _length(vectors)

    def _fill(self, vectors: Tensor, entities: Tensor, out: Tensor, terms: Tensor | None) -> Tensor:
        assert terms is not None
        return _products(self.operand(vectors), entities, out).mul_(terms)

    def slope(self, gradient: Tensor, scores: Tensor | None, terms: Tensor | None) -> Tensor:  # noqa: ARG002
        """Divides by |y|."""
        assert terms is not None
        return gradient.mul_(terms)

    def pull_vectors(self, product: Tensor, sums: Tensor | None, vectors: Tensor) -> Tensor:  # noqa: ARG002
        """Returns (A - (A·u) u) / |x|."""
        length = _length(vectors)
        unit = vectors / length
        return (product - (product * unit).sum(1, keepdim=True) * unit) / length

    def pull_entities(self, product: Tensor, sums: Tensor | None, entities: Tensor, terms: Tensor | None) -> None:  # noqa: ARG002
        """Computes C - (C·y) y / |y|²."""
        assert terms is not None
        along = torch.einsum("vd,vd->v", product, entities).mul_(terms.square())  # (V,), four times as fast as vecdot
        product.addcmul_(entities, along[:, None], value=-1)


class _OfDistance(Similarity):
    """What depends on the distance alone."""

    sums = True
    order = "distance"

    def terms(self, entities: Tensor) -> Tensor:
        """Returns |y|². (V,)."""
        return _length(entities).squeeze(1).square_()


class PowerNorm(_OfDistance):
    """The negative squared distance -|x - y|². Its gradients are 2 (A - sums x) and 2 (C - sums y), with H = G."""

    def _fill(self, vectors: Tensor, entities: Tensor, out: Tensor, terms: Tensor | None) -> Tensor:
        assert terms is not None
        torch.addmm(terms, vectors, entities.T, beta=-1, alpha=2, out=out)
        return out.sub_(vectors.square().sum(1, keepdim=True))

    def pull_vectors(self, product: Tensor, sums: Tensor | None, vectors: Tensor) -> Tensor:
        """Returns 2 (A - sums x)."""
        assert sums is not None
        return 2 * (product - sums[:, None] * vectors)

    def pull_entities(self, product: Tensor, sums: Tensor | None, entities: Tensor, terms: Tensor | None) -> None:  # noqa: ARG002
        """Computes 2 (C - sums y)."""
        assert sums is not None
        product.addcmul_(entities, sums[:, None], value=-1).mul_(2)


class Distance(_OfDistance):
    """The negative distance -|x - y|, with H = G / |x - y|. Its gradients are A - sums x and C - sums y.

    Distances are not below `SMALLEST_DISTANCE`, about the rounding of the products: below that, the gradient fades to
    zero instead of pointing in an arbitrary direction.
    """

    keeps_scores = True

    def _fill(self, vectors: Tensor, entities: Tensor, out: Tensor, terms: Tensor | None) -> Tensor:
        assert terms is not None
        torch.addmm(terms, vectors, entities.T, alpha=-2, out=out)
        return out.add_(vectors.square().sum(1, keepdim=True)).clamp_min_(SMALLEST_DISTANCE**2).sqrt_().neg_()

    def slope(self, gradient: Tensor, scores: Tensor | None, terms: Tensor | None) -> Tensor:  # noqa: ARG002
        """Divides by the distance; the sign of the scores is applied in `pull_vectors` and `pull_entities`."""
        assert scores is not None
        return gradient.div_(scores)

    def pull_vectors(self, product: Tensor, sums: Tensor | None, vectors: Tensor) -> Tensor:
        """Returns A - sums x, with the sign that `slope` left out."""
        assert sums is not None
        return sums[:, None] * vectors - product

    def pull_entities(self, product: Tensor, sums: Tensor | None, entities: Tensor, terms: Tensor | None) -> None:  # noqa: ARG002
        """Computes C - sums y, with the sign that `slope` left out."""
        assert sums is not None
        product.neg_().addcmul_(entities, sums[:, None])


SIMILARITY: Mapping[str, Similarity] = {"dot": Dot(), "cosine": Cosine(), "distance": Distance(), "power-norm": PowerNorm()}
"""The similarities; the norms are L2."""


class EntityRows:
    """The entities that queries are compared with: all of them, or one block after the other.

    Rows that no longer change are packed on first use, in the order in which oneDNN multiplies them; this doubles their memory. On AMD
    processors, the dot products with up to 12 vectors are then 4 to 6 times as fast as by `torch.mm`, with 177 vectors 1.6 times as
    fast. Other similarities, few rows and other devices do without, and so does a torch that was built without oneDNN.

    Args:
        similarity: How vectors and rows are compared.
        matrix: Returns the rows: (V, D).
        frozen: Whether they no longer change.
    """

    def __init__(self, similarity: Similarity, matrix: Callable[[], Tensor], *, frozen: bool = False) -> None:
        self._similarity, self._matrix, self._frozen = similarity, matrix, frozen
        self._packed: list[tuple[Tensor, Tensor | None]] = []

    def scores(self, vectors: Tensor, out: Tensor) -> Tensor:
        """Returns the scores of all entities; may write them to ``out``, on any device, and return it. (B, D) -> (B, V)."""
        if not self._packs():
            return self._similarity.scores(vectors, self._matrix(), out)
        some = PRODUCT_BYTES // (4 * min(BLOCK, out.shape[1]))
        if len(vectors) <= some and out.shape[1] <= BLOCK and out.device == vectors.device:
            return next(self.blocks(vectors))[1]
        for first in range(0, len(vectors), some):
            for start, scores in self.blocks(vectors[first : first + some]):
                out[first : first + some, start : start + scores.shape[1]] = scores
        return out

    def blocks(self, vectors: Tensor) -> Iterator[tuple[int, Tensor]]:
        """Yields the scores of up to `BLOCK` entities at a time, on the CPU, with the first entity of each block. (B, D) -> (B, n)."""
        for number, (rows, packed) in enumerate(self._parts()):
            if packed is None:
                yield number * BLOCK, self._similarity.scores(vectors, rows).cpu()
            else:
                yield number * BLOCK, torch.ops.mkldnn._linear_pointwise(vectors, packed, None, "none", [], "")

    def at(self, vectors: Tensor, ids: Tensor) -> Tensor:
        """Returns the scores of some entities. (B, D), (n,) -> (B, n)."""
        rows = self._matrix().detach()
        if isinstance(self._similarity, Dot) and rows.device.type == "cpu":
            return torch.mm(vectors, rows.index_select(0, ids).T)
        return self._similarity.scores(vectors, rows.index_select(0, ids.to(rows.device))).cpu()

    def pairs(self, vectors: Tensor, ids: Tensor) -> Tensor:
        """Returns the score of one entity for each vector. (n, D), (n,) -> (n,)."""
        rows = self._matrix().detach()
        if isinstance(self._similarity, Dot) and rows.device.type == "cpu":
            return rows.index_select(0, ids).mul_(vectors).sum(1)
        return torch.cat([self.at(vector[None], id_[None])[0] for vector, id_ in zip(vectors, ids, strict=True)])

    def frozen_rows(self) -> Tensor | None:
        """Returns the rows if they no longer change, are many, on the CPU and compared by dot products; else None. (V, D)."""
        return self._matrix().detach() if self._packs() else None

    def _parts(self) -> list[tuple[Tensor, Tensor | None]]:
        """Returns the rows of each block, as they are and packed."""
        if self._packed:
            return self._packed
        rows = torch.split(self._matrix().detach(), BLOCK)
        if not self._packs():
            return [(block, None) for block in rows]
        packed = [(block, torch.ops.mkldnn._reorder_linear_weight(block.contiguous(), _PACKED_FOR)) for block in rows]
        self._packed = packed  # in one step: several threads may come here
        return packed

    def _packs(self) -> bool:
        rows = self._matrix()
        fits = self._frozen and isinstance(self._similarity, Dot) and len(rows) >= PACKED_ROWS
        on_cpu = rows.device.type == "cpu" and rows.dtype == torch.float32
        return fits and on_cpu and torch._C._has_mkldnn and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")

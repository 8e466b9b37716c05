"""A product of complex numbers, with the qualifiers in the relation and beside it."""

import numpy as np
import torch
from torch import Tensor

from starqe.model.compose import complex_multiply
from starqe.model.embedding import InputEmbedding, MakeTable
from starqe.model.noise import drop
from starqe.model.segment import segment_sum
from starqe.model.space import Blocks
from starqe.model.weights import weight, xavier
from starqe.queries.gaps import HEAD, MISSING, POSITIONS, RELATION, TAIL, Gaps, asked_relation
from starqe.ragged import IntArray
from starqe.reason.predictor.config import PredictorConfig
from starqe.reason.predictor.predictor import Predictor
from starqe.reason.predictor.scales import Scales
from starqe.seed import derive


class ComplEx(Predictor):
    """Multiplies the given end by the qualified relation, in complex numbers (ComplEx, with a relation for each direction).

        q = W Σ E[value] R[relation]                     over the qualifier pairs
        p = Σ E[value] P[relation]                       over the qualifier pairs
        vector = E[given end] (R[r] + q) + p             with the inverse rows of R[r] and P where the head is missing

    The dot product of the vector with an entity e is the real part of  (E[given end] (R[r] + q) + p) conj(E[e]). The first part asks how
    the pairs change the relation between the ends; p is the information of a value itself about the missing end: the work that an award was
    given for has an author, whatever the award. The product is linear in each factor. So what is multiplied with a relation or a value
    that is missing is a vector, too:

        l = conj(E[head]) E[tail]
        vector = l + q                                   where the relation is missing, compared with rows C of their own
        vector = conj(R[relation]) Wᵀ (l + R[r] + q)     where the value of a pair is missing, q over the other pairs
                 + conj(P[relation]) E[tail] + conj(P[inverse]) E[head]

    A number or a date as a value or a tail is a mixture of the rows of two knots of E, its scale's (`Scales`).

    With several members, the features are divided: each member has its own complex numbers and its own W, and its loss. Outside training
    the vector is divided by their number, so that the scores are averages over the members.

    In these, q and R[r] do not come from the product above: they describe the kind of statement, at no cost. C is not R, since a softmax
    over all relations updates every row at every step, and would disturb the product.
    """

    positions = POSITIONS

    def __init__(
        self,
        config: PredictorConfig,
        entities: int,
        relations: int,
        seed: int,
        scales: Scales | None = None,
        table: MakeTable = weight,
    ) -> None:
        super().__init__(config, entities, relations, scales)
        self._knots = 0 if scales is None else len(scales.knots)
        self.embedding = InputEmbedding(entities + self._knots, config.width, table)
        self.relation_embedding = InputEmbedding(2 * relations, config.width)
        self.pair_embedding = InputEmbedding(2 * relations, config.width)
        self.relation_candidates = InputEmbedding(relations, config.width)
        self.pair_weight = weight(config.width, config.width // config.members)  # W, one member below the other
        self.reset_parameters(torch.Generator().manual_seed(derive(seed, "model parameters")))

    def reset_parameters(self, generator: torch.Generator) -> None:
        """Initialises every parameter; relations of unit size in each feature keep the scale of the entities."""
        self.embedding.reset_parameters(generator, self.config.initial_length * self.config.members**0.5)
        for embedding in (self.relation_embedding, self.pair_embedding):
            embedding.reset_parameters(generator, self.config.width**0.5)
        self.relation_candidates.reset_parameters(generator)
        for matrix in self.pair_weight.chunk(self.config.members):
            xavier(matrix, generator)

    def vectors(self, gaps: Gaps, noise: torch.Generator | None) -> Tensor:
        """Computes the vector of each gap. (B, D)."""
        found = drop(self._products(gaps, noise), self.config.dropout, noise)
        return found / self.config.members if noise is None and self.config.members > 1 else found

    def _products(self, gaps: Gaps, noise: torch.Generator | None) -> Tensor:
        """Computes the vectors of all members. (B, D)."""
        at_an_end = (gaps.position == HEAD) | (gaps.position == TAIL)
        if at_an_end.all():
            return self._ends(gaps, noise)
        kinds = ((np.flatnonzero(at_an_end), self._ends), (np.flatnonzero(~at_an_end), self._between))
        found = torch.cat([vectors(gaps.take(rows), noise) for rows, vectors in kinds if len(rows)])
        place = np.argsort(np.concatenate([rows for rows, _ in kinds]))
        return found.index_select(0, self._index(place))

    def penalty(self, gaps: Gaps, noise: torch.Generator) -> Tensor:
        """Computes the mean over the statements of Σ |x|³ over all numbers x of its parts, with the gap filled by one of its answers (N3).

        These are entities and relations. P has no penalty: on WD50K, one would cost a point of validation MRR.
        """
        backward = gaps.position == HEAD
        draws = torch.rand(len(gaps), generator=noise, device=noise.device).cpu().numpy()
        answer = gaps.answers.items[gaps.answers.offsets[:-1] + (draws * gaps.answers.counts).astype(np.int64)]
        relation = np.where(gaps.position == RELATION, answer, gaps.relation) + backward * self.relations
        values = np.concatenate([gaps.head, gaps.tail, np.where(gaps.position == RELATION, MISSING, answer), gaps.pair_value])
        of_relation = np.concatenate([gaps.relation, gaps.relation, asked_relation(gaps), gaps.pair_relation])
        each, weight = np.arange(len(gaps)), np.ones(len(gaps)) if gaps.weight is None else gaps.weight
        owner, present = np.concatenate([each, each, each, gaps.pairs.owner]), values != MISSING
        kinds = (
            (self._values(values[present], of_relation[present], None), weight[owner[present]]),
            (self._relations(np.concatenate([relation, gaps.pair_relation])), weight[np.concatenate([each, gaps.pairs.owner])]),
        )
        total = torch.zeros(())
        for rows, share in kinds:
            total = total + _third_powers(self._apart(rows)) @ torch.from_numpy(share).to(rows).repeat_interleave(self.config.members)
        return total / (len(gaps) * self.config.members)

    def entity_matrix(self) -> Tensor:
        """Returns the embeddings of the entities. (V, D)."""
        return self.embedding.weight[: self.entities]

    @property
    def blocks(self) -> dict[str, Blocks]:
        """The parameters with a row for each entity or relation, by name."""
        both = {f"{name}.weight": ("relations", "relations") for name in ("relation_embedding", "pair_embedding")}
        return {"embedding.weight": ("entities", self._knots), **both, "relation_candidates.weight": ("relations",)}

    def relation_matrix(self) -> Tensor:
        """Returns the candidates for a relation. (relations, D)."""
        return self.relation_candidates.weight[: self.relations]

    def _ends(self, gaps: Gaps, noise: torch.Generator | None) -> Tensor:
        """Computes the vectors of statements that lack an end. (B, D)."""
        backward = gaps.position == HEAD
        relation = self._relations(gaps.relation + backward * self.relations)  # (B, D)
        end = self._entities(np.where(backward, gaps.tail, gaps.head), noise)  # (B, D)
        if not len(gaps.pair_value) and not torch.is_grad_enabled():  # in training, every parameter has a gradient
            return self._times(end, relation)
        value, owner = self._values(gaps.pair_value, gaps.pair_relation, noise), self._index(gaps.pairs.owner)  # (Q, D)
        own = self._pair_relations(gaps.pair_relation + backward[gaps.pairs.owner] * self.relations)  # (Q, D)
        qualified = relation + self._pairs(value, gaps.pair_relation, owner, len(gaps))
        return self._times(end, qualified) + segment_sum(self._times(value, own), owner, len(gaps))

    def _between(self, gaps: Gaps, noise: torch.Generator | None) -> Tensor:
        """Computes the vectors of statements that have both ends. (B, D)."""
        head, tail = self._entities(gaps.head, noise), self._values(gaps.tail, gaps.relation, noise)  # (B, D)
        given = gaps.pair_value != MISSING
        value, owner = self._values(gaps.pair_value[given], gaps.pair_relation[given], noise), self._index(gaps.pairs.owner[given])
        pairs = self._pairs(value, gaps.pair_relation[given], owner, len(gaps))
        context = self._times(self._conjugate(head), tail) + pairs  # (B, D)
        (for_value,) = np.nonzero(gaps.position != RELATION)
        if not len(for_value):
            return context
        asked, rows = gaps.pair_relation[~given], self._index(for_value)
        whole = context.index_select(0, rows) + self._relations(gaps.relation[for_value])  # (those for a value, D)
        found = self._times(self._conjugate(self._relations(asked)), self._by_weight(whole, transposed=True))
        for end, key in ((tail, asked), (head, asked + self.relations)):
            found = found + self._times(self._conjugate(self._pair_relations(key)), end.index_select(0, rows))
        return context.index_copy(0, rows, found)

    def _pairs(self, value: Tensor, key: IntArray, owner: Tensor, count: int) -> Tensor:
        """Returns q of every statement. (Q, D) -> (B, D)."""
        return self._by_weight(segment_sum(self._times(value, self._relations(key)), owner, count))

    def _apart(self, rows: Tensor) -> Tensor:
        """Returns the numbers of each member in a row of their own. (n, D) -> (n · members, D / members)."""
        return rows.reshape(-1, self.config.width // self.config.members)

    def _times(self, one: Tensor, other: Tensor) -> Tensor:
        """Multiplies complex numbers, member by member. (n, D)."""
        return complex_multiply(self._apart(one), self._apart(other)).view(one.shape)

    def _conjugate(self, rows: Tensor) -> Tensor:
        """Changes the signs of the imaginary parts, member by member. (n, D)."""
        return conjugate(self._apart(rows)).view(rows.shape)

    def _by_weight(self, rows: Tensor, transposed: bool = False) -> Tensor:
        """Multiplies the rows of each member with its W (or Wᵀ). (n, D)."""
        matrices = self.pair_weight.view(self.config.members, -1, self.pair_weight.shape[1])
        matrices = matrices.transpose(1, 2) if transposed else matrices
        of_members = self._apart(rows).view(len(rows), self.config.members, -1).transpose(0, 1)  # (members, n, D / members)
        return torch.bmm(of_members, matrices).transpose(0, 1).reshape(rows.shape)

    def _entities(self, ids: IntArray, noise: torch.Generator | None) -> Tensor:
        rows: Tensor = self.embedding(self._index(ids), self.config.input_dropout, noise)
        return rows

    def _values(self, ids: IntArray, relation: IntArray, noise: torch.Generator | None) -> Tensor:
        """Returns the rows of entities, and of literals on the scales of these relations. (n,) -> (n, D)."""
        (literal,) = np.nonzero(ids >= self.entities)
        if not len(literal):
            return self._entities(ids, noise)
        assert self.scales is not None, "literals are on scales"
        below, share = self.scales.between(relation[literal], ids[literal])
        first = ids.astype(np.int64)
        first[literal] = self.entities + below
        rows = self._entities_without_noise(first)  # (n, D)
        at = self._index(literal)
        step = self._entities_without_noise(self.entities + below + 1) - rows.index_select(0, at)
        return drop(rows.index_add(0, at, step * torch.from_numpy(share[:, None]).to(rows)), self.config.input_dropout, noise)

    def number_logits(self, vectors: Tensor, scales: IntArray) -> Tensor:
        """Returns the logits of the knots of some scales, one scale after the other. (B, D) -> (B, knots)."""
        assert self.scales is not None, "numbers are on scales"
        return vectors @ self._entities_without_noise(self.entities + self.scales.places.take(scales).items).T

    def _entities_without_noise(self, ids: IntArray) -> Tensor:
        rows: Tensor = self.embedding(self._index(ids), 0.0, None)
        return rows

    def _relations(self, ids: IntArray) -> Tensor:
        rows: Tensor = self.relation_embedding(self._index(ids), 0.0, None)
        return rows

    def _pair_relations(self, ids: IntArray) -> Tensor:
        rows: Tensor = self.pair_embedding(self._index(ids), 0.0, None)
        return rows

    def _index(self, ids: IntArray) -> Tensor:
        return torch.from_numpy(ids.astype(np.int64)).to(self.embedding.weight.device)


def _third_powers(rows: Tensor) -> Tensor:
    """Computes Σ |x|³ over the complex numbers of each row. (n, D) -> (n,)."""
    re, im = rows.chunk(2, dim=-1)
    return (re.square() + im.square()).pow(1.5).sum(1)


def conjugate(numbers: Tensor) -> Tensor:
    """Changes the signs of the imaginary parts. (…, D) -> (…, D)."""
    re, im = numbers.chunk(2, dim=-1)
    return torch.cat([re, -im], dim=-1)

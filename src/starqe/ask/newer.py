"""Graphs that are newer than the model: entities and relations that the model lacks are answered by facts alone."""

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from torch import Tensor

from starqe.errors import InputError, UnsupportedError
from starqe.kg import Graph, Vocabulary
from starqe.queries.gaps import Gaps
from starqe.queries.sparql.request import SparqlRequest
from starqe.reason.listed import Listed, everywhere


@dataclass(frozen=True, eq=False)
class Newer:
    """The entities and relations of a graph that the model does not know: those after the ones of the model's graph."""

    graph: Graph
    entities: int
    """Number of entities that the model knows."""
    relations: int

    def __bool__(self) -> bool:
        return self.entities < len(self.graph.entities) or self.relations < len(self.graph.relations)

    def mentioned(self, request: SparqlRequest) -> list[str]:
        """Returns the labels of entities and relations in a query that the model does not know."""
        if not self:
            return []
        found = []
        for atom in (atom for alternative in request.alternatives for atom in alternative.query.all_atoms):
            found += [*self._labels(self.graph.entities, self.entities, atom.entities)]
            found += [*self._labels(self.graph.relations, self.relations, [atom.relation, *(key for key, _ in atom.qualifiers)])]
        return list(dict.fromkeys(found))

    def _labels(self, vocabulary: Vocabulary, known: int, terms: Iterable[object]) -> Iterable[str]:
        ids = (vocabulary.id(term) for term in terms if isinstance(term, str) and term in vocabulary)
        return [vocabulary.label(id_) for id_ in ids if id_ >= known]


def newer_note(labels: list[str]) -> str:
    """Writes the note that nothing is predicted for some names."""
    names = ", ".join(f"'{label}'" for label in labels[:3]) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")
    are, them = ("is", "it") if len(labels) == 1 else ("are", "them")
    return f"{names} {are} newer than the model: known facts are given, and nothing is predicted for {them}. Train the model further"


@contextlib.contextmanager
def known_to_the_model() -> Iterator[None]:
    """Turns the error about a name that the model does not know into one that says why the row cannot be explained.

    Raises:
        UnsupportedError: A name is not in the vocabulary of the model.
    """
    try:
        yield
    except InputError as error:
        raise UnsupportedError(f"a row that is not known is explained by the model, and the graph is newer than it: {error}") from None


class Nothing:
    """Predicts nothing (a `starqe.reason.executor.truth.OneHop`)."""

    def probabilities(self, gaps: Gaps, out: Tensor) -> Tensor:
        """Returns 0 for every entity: (B, V)."""
        return out[: len(gaps)].zero_()

    def best(self, gaps: Gaps, count: int) -> list[Listed]:  # noqa: ARG002
        """Returns 0 for every entity."""
        return [everywhere(0)] * len(gaps)

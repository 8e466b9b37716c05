"""The rows of the embeddings: entities, relation nodes, special symbols, and relations in two directions."""

from dataclasses import dataclass

from starqe.errors import InputError

Blocks = tuple[str | int, ...]
"""The rows of a parameter, block by block: one row for each of the ``entities`` or ``relations``, or a number of other rows."""

SYMBOLS = ("variable", "target", "blank")
"""The special symbols: each has one input row, and each of its nodes starts as a copy of that row."""


@dataclass(frozen=True)
class Space:
    """The ids of a vocabulary, laid out as rows of the two embeddings.

    Input rows: the entities, then in a reified space one node for each relation, then the special symbols.
    Relation rows: every relation forward, then every relation inverse. A reified space has three relations more
    (rdf:subject, rdf:predicate, rdf:object), after the vocabulary's own.

    Raises:
        InputError: There are no entities or no relations.
    """

    entities: int
    relations: int
    reified: bool = False

    def __post_init__(self) -> None:
        if self.entities < 1 or self.relations < 1:
            raise InputError(f"a model needs at least one entity and one relation, found {self.entities} and {self.relations}")

    @property
    def nodes(self) -> int:
        """Number of input rows that a query can name: entities, and relation nodes in a reified space."""
        return self.entities + (self.relations if self.reified else 0)

    @property
    def input_rows(self) -> int:
        """Number of rows of the input embedding."""
        return self.nodes + len(SYMBOLS)

    @property
    def input_blocks(self) -> Blocks:
        """The rows of the input embedding, block by block."""
        return ("entities", *(("relations",) if self.reified else ()), len(SYMBOLS))

    @property
    def relation_blocks(self) -> Blocks:
        """The rows of the relation embedding, block by block."""
        return (("relations", 3) if self.reified else ("relations",)) * 2

    def symbol(self, kind: str) -> int:
        """Returns the input row of a special symbol."""
        return self.nodes + SYMBOLS.index(kind)

    @property
    def directed(self) -> int:
        """Number of relations that an edge can have."""
        return self.relations + (3 if self.reified else 0)

    @property
    def relation_rows(self) -> int:
        """Number of rows of the relation embedding: forward, then inverse."""
        return 2 * self.directed

"""What the generator of queries asks of an engine; the way of the paper (SPARQL) and the fast way (SQL) are two of them."""

from dataclasses import dataclass
from typing import Protocol

import duckdb
import numpy as np

from starqe.kg import SPLITS
from starqe.queries.edges import Constants
from starqe.queries.shape import Shape

CONTEXT = {split: SPLITS[: code + 1] for code, split in enumerate(SPLITS)}
"""The splits that the edges of a split's queries come from; at least one edge is new: of the split itself."""


@dataclass(frozen=True)
class Work:
    """One table to make: a shape, a split, and the numbering of its edges' constants."""

    shape: Shape
    split: str
    counts: tuple[tuple[int, int], ...]
    """The fewest and the most qualifier pairs of each edge."""
    edges: str
    """The table of edge rows in the database."""
    constants: tuple[Constants, ...]
    """What each edge can say, by number."""
    hubs: np.ndarray
    """The entities at which no join happens, ascending."""

    @property
    def radix(self) -> list[int]:
        """How many different constants each edge can have."""
        return [len(constants) for constants in self.constants]


class Engine(Protocol):
    """Finds the solutions of a shape."""

    def fill(self, database: duckdb.DuckDBPyConnection, work: Work) -> None:
        """Makes the table ``solved(key, answer, solutions)``: one row for each distinct query and answer.

        The key packs the numbers of the edges' constants as `starqe.queries.sql.pack` does; ``solutions`` counts the
        rows of the paper's bag that lead from the one to the other.
        """

"""The interface of query generation engines: the fast one (SQL) and the paper's (SPARQL) implement it."""

from collections.abc import Iterator
from typing import Protocol

import pyarrow as pa

from starqe.kg import SPLITS
from starqe.queries.generate.settings import QuerySettings
from starqe.queries.shape import Shape

CONTEXT = {split: SPLITS[: code + 1] for code, split in enumerate(SPLITS)}
"""The splits that the edges of a split's queries come from; at least one edge is new: of the split itself."""


class Engine(Protocol):
    """Finds the queries of a shape in one graph."""

    def solve(self, shape: Shape, split: str, settings: QuerySettings) -> Iterator[pa.Table]:
        """Yields every query of a shape with its answers, as tables with the columns of `starqe.queries.table.column_names`.

        The seed of the settings decides their order; the limit of the settings ends them.
        """

    def close(self) -> None:
        """Frees the engine's resources."""

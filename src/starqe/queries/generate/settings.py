"""The settings of query generation."""

import re
from typing import Annotated, Any, Literal

import pydantic

from starqe.config import Section
from starqe.errors import QueryError
from starqe.queries.generate.hubs import THRESHOLD
from starqe.queries.shape import Shape
from starqe.queries.variants import Variant

_COUNT = re.compile(r"(\d+)(?:-(\d+))?")


def _readable(text: str) -> str:
    qualifier_counts(text)
    return text


class QuerySettings(Section):
    """The settings of a query set. The defaults are those of the paper."""

    qualifiers: Annotated[str, pydantic.AfterValidator(_readable)] = "1"
    """Qualifier pairs per edge: `1` exactly one, `0` none, `0-2` any subset of up to two; `1,0,0-2` sets it edge by edge."""
    hub_threshold: int | None = pydantic.Field(THRESHOLD, ge=1)
    """Minimum in-degree of a hub, which no join passes through. Left out: no hubs."""
    solutions_below: dict[str, int] = pydantic.Field({"3p": 100})
    """Shapes whose valid and test queries are kept only with fewer solutions than this."""
    seed: int = 0
    """Decides the order of the queries. The first k of a table are a uniform sample of it."""
    limit: int | None = pydantic.Field(None, ge=1)
    """Maximum number of queries per table."""
    variant: Variant = "qualified"
    """The form that the queries are written in; their answers are the same in all forms."""
    rules: Literal["paper", "betae"] = "paper"
    """Whose rules say what a query of a set is; by those of BetaE, queries are sampled only."""

    def stored(self) -> dict[str, Any]:
        """Returns the settings as a query set stores them; without the usual variant and rules, as in older sets."""
        usual = {"variant": "qualified", "rules": "paper"}
        return self.model_dump(mode="json", exclude={name for name, value in usual.items() if getattr(self, name) == value})

    def counts_for(self, shape: Shape) -> tuple[tuple[int, int], ...]:
        """Returns the fewest and the most pairs for each edge of a shape; pairs with open values are included.

        Raises:
            QueryError: The setting names another number of edges than the shape has.
        """
        counts = qualifier_counts(self.qualifiers)
        if len(counts) == 1:
            counts *= len(shape.edges)
        if len(counts) != len(shape.edges):
            raise QueryError(
                f"qualifiers are for every edge or edge by edge: '{self.qualifiers}' has {len(counts)} edges, "
                f"and shape '{shape.name}' has {len(shape.edges)}"
            )
        values = [len(shape.values_of(edge)) for edge in range(len(counts))]
        return tuple((max(fewest, least), max(most, least)) for (fewest, most), least in zip(counts, values, strict=True))


def qualifier_counts(text: str) -> tuple[tuple[int, int], ...]:
    """Reads ``"1"``, ``"0-2"`` or ``"1,0,0-2"``: the fewest and the most pairs, for every edge or edge by edge.

    Raises:
        ValueError: The text has another form.
    """
    counts = []
    for part in text.split(","):
        match = _COUNT.fullmatch(part.strip())
        fewest, most = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if fewest > most or most > 8:
            raise ValueError(
                f"qualifiers are a number up to 8 or a range such as 0-2, for every edge or edge by edge with commas; found '{part}'"
            )
        counts.append((fewest, most))
    return tuple(counts)

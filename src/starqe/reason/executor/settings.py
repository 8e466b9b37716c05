"""The settings of the executor."""

from typing import Literal

import pydantic

from starqe.config import Section


class ReasonSettings(Section):
    """How facts and predictions become the truth of a query."""

    norm: Literal["product", "goedel", "lukasiewicz"] = "product"
    """How the truths of several edges become one: their product, the smallest, or 1 minus the sum of their doubts."""
    beam: int = pydantic.Field(8, ge=1)
    """Predictions are made for at most this many candidates of an inner variable. Known facts are followed for all of them."""
    settled: int = pydantic.Field(1, ge=1)
    """Number of best predicted answers that are exact in scores, if the beam allows: predictions that cannot change them are not made."""
    listed: int = pydantic.Field(128, ge=2)
    """Number of most probable entities that are kept of each prediction, where a graph has many more; the others have a bound."""
    cap: float = pydantic.Field(0.999, gt=0, lt=1)
    """The most that a prediction can be true: less than a known fact."""
    questions: int = pydantic.Field(4096, ge=1)
    """How many one-hop predictions a query may need; the beam is narrowed until they suffice. One candidate is always asked."""

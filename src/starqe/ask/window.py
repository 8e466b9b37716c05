"""Which rows of the sequence "known rows, then predicted ones" are shown."""

from dataclasses import dataclass

from starqe.ask.known_rows import LISTED, KnownRows
from starqe.ask.ranking import MOST_PREDICTED
from starqe.queries.sparql.request import SparqlRequest

THRESHOLD = 0.5
"""The lowest probability of a predicted answer if neither top nor LIMIT is given."""


@dataclass(frozen=True)
class Cut:
    """Limits on the rows that are shown, besides LIMIT and OFFSET of the query."""

    top: int | None = None
    """At most this many known rows, and at most this many predicted ones."""
    known_only: bool = False
    max_known: int | None = None
    max_predicted: int | None = None


@dataclass(frozen=True)
class Window:
    """The rows to show: a number of known ones from the offset on, and a range of the ranking of predicted ones."""

    known: int | None
    """Number of known rows at most."""
    skipped: int
    """Number of predicted rows that OFFSET leaves out."""
    end: int
    """Where the range of predicted rows ends."""
    counted: bool
    """Whether top or LIMIT says how many are wanted; else the threshold decides."""
    known_capped: bool
    """Whether the service's limit cuts the known rows."""
    predicted_capped: bool
    """Whether it cuts the predicted ones, if there are enough."""


def window(request: SparqlRequest, known_rows: KnownRows, cut: Cut) -> Window:
    """Returns the rows to show: LIMIT and OFFSET choose from the sequence, then top and the service's limits cut each part."""
    wanted = [most for most in (request.limit, cut.top) if most is not None]
    known = min([*wanted, *([] if cut.max_known is None else [cut.max_known])], default=None)
    # If the number of rows is not exact, it is larger than any list.
    reachable = [max(0, known_rows.count - request.offset)] if known_rows.exact else []
    known_capped = cut.max_known is not None and min([*wanted, *reachable], default=cut.max_known + 1) > cut.max_known
    room = 0 if cut.known_only else MOST_PREDICTED
    if wanted and room:
        room = min([*([] if request.limit is None else [max(0, request.limit - min(reachable, default=request.limit))]), *wanted])
    allowed = room if cut.max_predicted is None else min(room, cut.max_predicted)
    skipped = max(0, request.offset - known_rows.count)
    return Window(known, skipped, skipped + allowed if allowed else 0, bool(wanted), known_capped, allowed < room)


def rows_needed(request: SparqlRequest, cut: Cut) -> int:
    """Returns how many known rows have to be listed: all that can be, where predictions are compared with them.

    One more than LIMIT reaches is enough: if there are that many, no prediction is wanted, and else they are all.
    """
    if not cut.known_only:
        return LISTED if request.limit is None else min(LISTED, request.offset + request.limit + 1)
    wanted = [most for most in (request.limit, cut.top, cut.max_known) if most is not None]
    return min([LISTED, *(request.offset + most + 1 for most in wanted)])

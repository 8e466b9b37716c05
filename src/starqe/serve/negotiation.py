"""The form of SPARQL results that suits a client: its Accept header against what there is."""

from collections.abc import Mapping

from pyoxigraph import QueryResultsFormat

FORMS: Mapping[str, QueryResultsFormat] = {
    "application/sparql-results+json": QueryResultsFormat.JSON,
    "application/json": QueryResultsFormat.JSON,
    "application/sparql-results+xml": QueryResultsFormat.XML,
    "application/xml": QueryResultsFormat.XML,
    "text/xml": QueryResultsFormat.XML,
    "text/csv": QueryResultsFormat.CSV,
    "text/tab-separated-values": QueryResultsFormat.TSV,
}
"""Media type -> form; of those that suit a client alike, the first is taken."""


def choose(accept: str) -> str | None:
    """Gives the media type of `FORMS` that an Accept header likes best, or None where it allows none; empty means anything.

    The most specific range that matches a media type decides about it; a quality of 0 forbids it. Parameters other than
    the quality are not looked at.
    """
    ranges = [_range(part) for part in accept.split(",") if part.strip()] or [("*/*", 1.0)]
    qualities = {media_type: _quality(media_type, ranges) for media_type in FORMS}
    best = max(qualities, key=lambda media_type: qualities[media_type])
    return best if qualities[best] > 0 else None


def _range(part: str) -> tuple[str, float]:
    media_range, *parameters = (piece.strip() for piece in part.split(";"))
    quality = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                quality = min(1.0, max(0.0, float(value)))
            except ValueError:
                quality = 0.0
    return media_range.lower(), quality if quality == quality else 0.0


def _quality(media_type: str, ranges: list[tuple[str, float]]) -> float:
    for pattern in (media_type, media_type.split("/")[0] + "/*", "*/*"):
        if found := [quality for media_range, quality in ranges if media_range == pattern]:
            return max(found)
    return 0.0

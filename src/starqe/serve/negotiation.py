"""Content negotiation: chooses the media type of a result by the Accept header."""

from collections.abc import Iterable, Mapping

from pyoxigraph import QueryResultsFormat, RdfFormat

FORMS: Mapping[str, QueryResultsFormat] = {
    "application/sparql-results+json": QueryResultsFormat.JSON,
    "application/json": QueryResultsFormat.JSON,
    "application/sparql-results+xml": QueryResultsFormat.XML,
    "application/xml": QueryResultsFormat.XML,
    "text/xml": QueryResultsFormat.XML,
    "text/csv": QueryResultsFormat.CSV,
    "text/tab-separated-values": QueryResultsFormat.TSV,
}
"""Media type -> form of rows; of those with equal quality, the first is chosen."""

BOOLEANS = tuple(media_type for media_type, form in FORMS.items() if form in (QueryResultsFormat.JSON, QueryResultsFormat.XML))
"""The media types that have a form for the result of ASK."""

GRAPHS: Mapping[str, RdfFormat] = {
    "text/turtle": RdfFormat.TURTLE,
    "application/n-triples": RdfFormat.N_TRIPLES,
    "application/rdf+xml": RdfFormat.RDF_XML,
    "application/ld+json": RdfFormat.JSON_LD,
    "application/trig": RdfFormat.TRIG,
    "application/n-quads": RdfFormat.N_QUADS,
}
"""Media type -> form of the triples of CONSTRUCT and DESCRIBE."""


def choose(accept: str, offered: Iterable[str] = FORMS) -> str | None:
    """Returns the media type of those offered that an Accept header prefers, or None if it allows none; an empty header allows all.

    The most specific range that matches a media type decides; a quality of 0 excludes it. Parameters other than the quality are
    ignored.
    """
    ranges = [_range(part) for part in accept.split(",") if part.strip()] or [("*/*", 1.0)]
    qualities = {media_type: _quality(media_type, ranges) for media_type in offered}
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

"""Typed values: dates, numbers with units, texts, coordinates."""

from typing import NamedTuple

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
GEO = "http://www.opengis.net/ont/geosparql#"
PREFIXES = {XSD: "xsd:", RDF: "rdf:", GEO: "geo:"}

STRING, BOOLEAN, INTEGER, DECIMAL, DOUBLE = (XSD + name for name in ("string", "boolean", "integer", "decimal", "double"))
DATE, DATE_TIME, TIME, YEAR, ANY_URI = (XSD + name for name in ("date", "dateTime", "time", "gYear", "anyURI"))
LANGUAGE_STRING = RDF + "langString"
WKT = GEO + "wktLiteral"


class Literal(NamedTuple):
    """A literal of RDF, with additional information from Wikidata and others.

    Lexical form, datatype and language are those of RDF, so a literal can be written there unchanged. The rest is empty
    where the source does not say it. (A named tuple is made three times as fast as a frozen dataclass, and a dump has millions.)
    """

    lexical: str
    datatype: str = STRING
    """An IRI."""
    language: str = ""
    unit: str = ""
    """The unit of a quantity, by its identifier; empty for a plain number."""
    precision: float | None = None
    """Of a date, Wikidata's code (9 a year, 11 a day); of coordinates, degrees."""
    lower: str = ""
    """The lower bound of a quantity."""
    upper: str = ""
    """The upper bound of a quantity."""
    calendar: str = ""
    """``julian`` if the source gives a date in the Julian calendar; the lexical form is Gregorian in any case."""

    @property
    def kind(self) -> str:
        """The datatype with its usual prefix, such as ``xsd:date``."""
        return short_datatype(self.datatype)


def short_datatype(iri: str) -> str:
    """Shortens the IRI of a datatype by the usual prefixes."""
    for long, short in PREFIXES.items():
        if iri.startswith(long):
            return short + iri.removeprefix(long)
    return iri

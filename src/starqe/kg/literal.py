"""Typed values: dates, numbers with units, texts, coordinates."""

import math
import re
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
GEO = "http://www.opengis.net/ont/geosparql#"
PREFIXES = {XSD: "xsd:", RDF: "rdf:", GEO: "geo:"}

STRING, BOOLEAN, INTEGER, DECIMAL, DOUBLE = (XSD + name for name in ("string", "boolean", "integer", "decimal", "double"))
DATE, DATE_TIME, TIME, YEAR, ANY_URI = (XSD + name for name in ("date", "dateTime", "time", "gYear", "anyURI"))
LANGUAGE_STRING = RDF + "langString"
WKT = GEO + "wktLiteral"

_INTEGERS = "integer long int short byte unsignedLong unsignedInt unsignedShort unsignedByte"
_INTEGERS += " nonNegativeInteger positiveInteger nonPositiveInteger negativeInteger"
NUMBERS = frozenset([DECIMAL, DOUBLE, XSD + "float", *(XSD + name for name in _INTEGERS.split())])
TIMES = frozenset([DATE, DATE_TIME, YEAR, XSD + "gYearMonth", XSD + "dateTimeStamp"])

MARK = "\0"
"""The first character of a literal's key; no identifier contains it."""
_DETAILS = ("unit", "precision", "lower", "upper", "calendar")
_TIME = re.compile(r"(-?\d{4,})(?:-(\d\d))?(?:-(\d\d))?(?:T(\d\d):(\d\d):(\d\d(?:\.\d+)?))?(Z|[+-]\d\d:\d\d)?")
_WRITTEN = re.compile(
    r'"(.*)"(?:\^\^(?:(xsd|rdf|geo):(\w+)|<([^<>"\s]*)>)|@([A-Za-z]+(?:-+[A-Za-z0-9]+)*))(?:\[([^\[\]\s]*)\])?', re.DOTALL
)
_SHORT = re.compile(r"(?:xsd|rdf|geo):\w+")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_PLAIN = {escape[1]: character for character, escape in _ESCAPES.items()}
_ESCAPED = re.compile('[\\\\"\0-\x1f\x7f\x85\u2028\u2029\ufeff]')
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|(.))", re.DOTALL)


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

    @property
    def term(self) -> "Literal":
        """The literal as RDF knows it: without unit, precision, bounds and calendar."""
        return Literal(self.lexical, self.datatype, self.language)

    @property
    def key(self) -> str:
        """A text that identifies the literal; it sorts literals by datatype first. Languages are compared in lower case.

        Raises:
            ValueError: Datatype, language or details contain a null character.
        """
        return literal_key(*self)

    @classmethod
    def of_key(cls, key: str) -> "Literal":
        """Returns the literal that a key identifies."""
        _, datatype, language, unit, precision, lower, upper, calendar, lexical = key.split(MARK, 8)
        return cls(lexical, datatype, language, unit, float(precision) if precision else None, lower, upper, calendar)

    @property
    def number(self) -> float:
        """The value of a number, or of a time in days since 1970; NaN for everything else."""
        if self.datatype in NUMBERS:
            try:
                return float(self.lexical)
            except ValueError:
                return math.nan
        return days_of(self.lexical) if self.datatype in TIMES else math.nan

    @property
    def axis(self) -> str:
        """The axis of its values: ``time``, or ``number`` with its unit; empty if it has no order. Literals of one axis are comparable."""
        if self.datatype in NUMBERS:
            return f"number {self.unit}".strip()
        return "time" if self.datatype in TIMES else ""

    @property
    def label(self) -> str:
        """What people read: the text, a number with its unit, a date as far as it is known."""
        if self.datatype == DATE_TIME and self.precision is not None and self.precision <= 11 and (match := _TIME.fullmatch(self.lexical)):
            parts = [match[1], match[2], match[3]][: max(int(self.precision) - 8, 1)]
            return "-".join(part for part in parts if part)
        return f"{self.lexical} {self.unit}" if self.unit else self.lexical


def literal_key(
    lexical: str,
    datatype: str = STRING,
    language: str = "",
    unit: str = "",
    precision: float | None = None,
    lower: str = "",
    upper: str = "",
    calendar: str = "",
) -> str:
    """Returns the key of a literal with these parts; readers of many literals need not make the literal.

    Raises:
        ValueError: Datatype, language or details contain a null character.
    """
    datatype = LANGUAGE_STRING if language else datatype
    shown = "" if precision is None else precision_text(precision)
    begin = f"\0{datatype}\0{language.lower()}\0{unit}\0{shown}\0{lower}\0{upper}\0{calendar}"
    if begin.count(MARK) != 7:
        raise ValueError(f"a datatype, a language and a unit have no control characters, found {datatype!r}, {language!r} and {unit!r}")
    return f"{begin}\0{lexical}"


def short_datatype(iri: str) -> str:
    """Shortens the IRI of a datatype by the usual prefixes."""
    for long, short in PREFIXES.items():
        if iri.startswith(long):
            return short + iri.removeprefix(long)
    return iri


def long_datatype(name: str) -> str:
    """Returns the IRI of a datatype that may be written with one of the usual prefixes."""
    for long, short in PREFIXES.items():
        if name.startswith(short):
            return long + name.removeprefix(short)
    return name


def days_of(lexical: str) -> float:
    """Returns the number of days since 1970 of an XML Schema date, dateTime, gYearMonth or gYear; NaN for other text."""
    match = _TIME.fullmatch(lexical)
    if match is None:
        return math.nan
    year, month, day = int(match[1]), int(match[2] or 1), int(match[3] or 1)
    hours, minutes, seconds = int(match[4] or 0), int(match[5] or 0), float(match[6] or 0)
    if not 1 <= month <= 12 or not 1 <= day <= 31 or abs(year) > 10**12:
        return math.nan
    zone = match[7] or "Z"
    offset = 0 if zone == "Z" else (-1 if zone[0] == "-" else 1) * (int(zone[1:3]) * 60 + int(zone[4:6]))
    return _days(year, month, day) + (hours * 3600 + (minutes - offset) * 60 + seconds) / 86400


def date_of(days: float) -> str:
    """Returns the date, as ``xsd:date`` writes it, that is this number of days from 1970."""
    number = math.floor(days) + 719_468
    era, of_era = divmod(number, 146_097)
    of_year = (of_era - of_era // 1_460 + of_era // 36_524 - of_era // 146_096) // 365
    day = of_era - (365 * of_year + of_year // 4 - of_year // 100)
    month = (5 * day + 2) // 153
    year = of_year + era * 400 + (month >= 10)
    return f"{'-' * (year < 0)}{abs(year):04d}-{month + 3 - 12 * (month >= 10):02d}-{day - (153 * month + 2) // 5 + 1:02d}"


def _days(year: int, month: int, day: int) -> int:
    """Counts the days from 1970 in the Gregorian calendar, in years that begin with March."""
    year -= month <= 2
    era, of_era = divmod(year, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def written(value: "str | Literal") -> str:
    r"""Writes a value as one line of text, for formats without types of their own: an identifier as it is, a literal as in Turtle.

    Details follow in brackets: ``"1949-01-01T00:00:00Z"^^xsd:dateTime[precision=9]``.

    Raises:
        ValueError: An identifier would be read as a literal.
    """
    if isinstance(value, str):
        if value.startswith('"') and _WRITTEN.fullmatch(value):
            raise ValueError(
                f"an identifier that looks like a literal cannot be written in this form, found {value!r}. Choose another form"
            )
        return value
    details = details_text(details_of(value))
    return rdf_text(value, short=True) + (f"[{details}]" if details else "")


def rdf_text(literal: Literal, short: bool = False) -> str:
    """Writes a literal as N-Triples does, in one line; or, if ``short``, with the usual prefixes and with its datatype in any case."""
    text = f'"{_ESCAPED.sub(_escaped, literal.lexical)}"'
    if literal.language:
        return f"{text}@{literal.language}"
    if not short and literal.datatype == STRING:
        return text
    kind = literal.kind if short and literal.kind != literal.datatype and _SHORT.fullmatch(literal.kind) else ""
    if literal.datatype in TIMES and not _TIME.fullmatch(literal.lexical):
        kind = ""  # readers correct short forms of dates, and this one has to stay as it is
    return f"{text}^^{kind or f'<{literal.datatype}>'}"


def details_of(literal: Literal) -> dict[str, str]:
    """Returns the details of a literal that RDF has no place for, by name."""
    found = {name: getattr(literal, name) for name in _DETAILS}
    found["precision"] = "" if literal.precision is None else precision_text(literal.precision)
    return {name: text for name, text in found.items() if text}


def precision_text(precision: float) -> str:
    """Writes a precision; a whole number has no decimal point."""
    return repr(float(precision)).removesuffix(".0")


def details_text(details: Mapping[str, str]) -> str:
    """Writes the details of a literal in one line, such as ``unit=Q11573;precision=9``."""
    return ";".join(f"{name}={quote(text, safe='')}" for name, text in details.items())


def with_details(literal: Literal, details: str) -> Literal:
    """Returns a literal with the details of a text such as ``unit=Q11573;precision=9``.

    Raises:
        ValueError: The text has other names.
    """
    found = {name: unquote(text) for name, _, text in (part.partition("=") for part in details.split(";"))}
    if not found.keys() <= {*_DETAILS}:
        raise ValueError(f"the details of a literal are {', '.join(_DETAILS)}, found {details!r}")
    precision = float(found.pop("precision")) if "precision" in found else None
    return literal._replace(precision=precision, **found)


def read_written(text: str) -> "str | Literal":
    """Reads what `written` writes; everything else is an identifier.

    Raises:
        ValueError: It has unknown details.
    """
    match = _WRITTEN.fullmatch(text) if text.startswith('"') else None
    if match is None:
        return text
    lexical, prefix, name, iri, language, details = match.groups()
    lexical = _ESCAPE.sub(_character, lexical) if "\\" in lexical else lexical
    if language:
        literal = Literal(lexical, LANGUAGE_STRING, language)
    elif iri is not None and ":" not in iri:
        literal = Literal(lexical, DECIMAL, unit=iri)  # as HN-YG writes units
    else:
        literal = Literal(lexical, iri if iri is not None else long_datatype(f"{prefix}:{name}"))
    return with_details(literal, details) if details else literal


def _escaped(match: re.Match[str]) -> str:
    return _ESCAPES.get(match[0]) or f"\\u{ord(match[0]):04X}"


def _character(match: re.Match[str]) -> str:
    return chr(int(match[1], 16)) if match[1] else _PLAIN.get(match[2], match[0])

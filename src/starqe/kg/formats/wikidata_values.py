"""The values of Wikidata's JSON as identifiers and literals, in the lexical forms of Wikidata's own RDF."""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from starqe.kg import literal
from starqe.kg.literal import Literal

ENTITY = "http://www.wikidata.org/entity/"
JULIAN = ENTITY + "Q1985786"
EARTH = ENTITY + "Q2"
PRECISION_YEAR, PRECISION_MONTH, PRECISION_DAY = 9, 10, 11

is_entity_id = re.compile(r"[A-Z][1-9]\d*(?:-[A-Z][1-9]\d*)?").fullmatch
"""Matches Q42, P31, L1883 and its parts L1883-F1 and L1883-S1, E10."""
_LETTERS = {"item": "Q", "property": "P", "lexeme": "L", "mediainfo": "M", "entity-schema": "E"}
_TIME = re.compile(r"([+-]?)(\d{1,16})-(\d\d)-(\d\d)(T\d\d:\d\d:\d\dZ)").fullmatch
_USUAL_LENGTH = len("+1952-03-11T00:00:00Z")


def entity_id(value: dict[str, Any]) -> str:
    """Returns the identifier of an entity value; dumps before 2017 have only its number.

    Raises:
        KeyError, TypeError, ValueError: The value is malformed.
    """
    identifier: str = value.get("id") or f"{_LETTERS[value['entity-type']]}{value['numeric-id']}"
    if not is_entity_id(identifier):
        raise ValueError(f"an entity is written like Q42, found {identifier!r}")
    return identifier


Made = TypeVar("Made", Literal, str)
"""A literal, or its key."""
Make = Callable[..., Made]
"""Makes it of the parts of a literal: `Literal`, or `starqe.kg.literal.literal_key`."""


def _text(value: str, datatype: str | None, make: Make[Made]) -> Made:
    return make(_string(value), literal.ANY_URI if datatype == "url" else literal.STRING)


def _language_text(value: dict[str, Any], _datatype: str | None, make: Make[Made]) -> Made:
    return make(_string(value["text"]), literal.LANGUAGE_STRING, _string(value["language"]))


def _quantity(value: dict[str, Any], _datatype: str | None, make: Make[Made]) -> Made:
    unit = value["unit"]
    unit = "" if unit == "1" else unit[unit.rfind("/") + 1 :]
    return make(_string(value["amount"]), literal.DECIMAL, "", unit, None, value.get("lowerBound") or "", value.get("upperBound") or "")


def _coordinates(value: dict[str, Any], _datatype: str | None, make: Make[Made]) -> Made:
    globe = value.get("globe") or EARTH
    point = f"Point({_number(value['longitude'])} {_number(value['latitude'])})"
    prefix = "" if globe.rsplit("/", 1)[-1] == "Q2" else f"<{globe}> "
    return make(prefix + point, literal.WKT, precision=value.get("precision"))


def _time(value: dict[str, Any], _datatype: str | None, make: Make[Made]) -> Made:
    made: Made = _made_time(value["time"], value["precision"], value.get("calendarmodel") == JULIAN, make)
    return made


@lru_cache(2**16, typed=True)
def _made_time(text: str, precision: int, julian: bool, make: Make[Made]) -> Made:
    """Turns a point in time into xsd:dateTime, in which the year before 1 is 0 (where a date is known to the year); unknown months
    and days become the first. Dates repeat, so the last ones are remembered.
    """
    match = _TIME(text)
    if match is None or type(precision) is not int:
        raise ValueError(f"a time is written like +1952-03-11T00:00:00Z with a precision, found {text!r} with {precision!r}")
    if julian or len(text) != _USUAL_LENGTH or text[0] != "+":
        return _unusual_time(match, precision, julian, make)
    if precision >= PRECISION_DAY:
        lexical = text[1:]
    else:
        lexical = (text[1:8] + "-01" if precision == PRECISION_MONTH else text[1:5] + "-01-01") + text[11:]
    return make(lexical.replace("-00", "-01"), literal.DATE_TIME, "", "", precision)


def _unusual_time(match: re.Match[str], precision: int, julian: bool, make: Make[Made]) -> Made:
    """Turns a point in time before the year 1, after 9999, or in the Julian calendar."""
    year, month, day = int(match[1] + match[2]), int(match[3]), int(match[4])
    if year < 0 and precision >= PRECISION_YEAR:
        year += 1
    month = max(month, 1) if precision >= PRECISION_MONTH else 1
    day = max(day, 1) if precision >= PRECISION_DAY else 1
    if julian and precision >= PRECISION_DAY:
        year, month, day = gregorian(year, month, day)
    lexical = f"{'-' if year < 0 else ''}{abs(year):04d}-{month:02d}-{day:02d}{match[5]}"
    return make(lexical, literal.DATE_TIME, precision=precision, calendar="julian" if julian else "")


def gregorian(year: int, month: int, day: int) -> tuple[int, int, int]:
    """Turns a date of the Julian calendar into the Gregorian one, both with a year 0 (by way of the day number of Julian days)."""
    shift = (14 - month) // 12
    years, months = year + 4800 - shift, month + 12 * shift - 3
    number = day + (153 * months + 2) // 5 + 365 * years + years // 4 - 32083
    a = number + 32044
    b = (4 * a + 3) // 146097
    c = a - 146097 * b // 4
    d = (4 * c + 3) // 1461
    e = c - 1461 * d // 4
    m = (5 * e + 2) // 153
    return 100 * b + d - 4800 + m // 10, m + 3 - 12 * (m // 10), e - (153 * m + 2) // 5 + 1


def _number(value: float) -> str:
    """Writes a coordinate as the shortest number with the same value."""
    return repr(value).removesuffix(".0") if isinstance(value, float) else str(int(value))


def _string(value: Any) -> str:
    if type(value) is not str:
        raise TypeError(f"a text is expected, found {value!r}")
    return value


VALUES: dict[str, Callable[[Any, str | None, Make[Any]], Any]] = {
    "string": _text,
    "monolingualtext": _language_text,
    "quantity": _quantity,
    "globecoordinate": _coordinates,
    "time": _time,
}
"""Type of a data value -> the literal that it becomes, given the value, the datatype of the property, and what makes a literal."""

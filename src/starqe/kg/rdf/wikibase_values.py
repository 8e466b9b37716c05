"""The values of Wikidata's RDF: full values beside simple ones, files and web addresses."""

import re
from urllib.parse import quote, unquote

import numpy as np
from pyoxigraph import Literal, NamedNode

from starqe.kg.literal import ANY_URI, WKT, details_text, precision_text
from starqe.kg.rdf.details import PREFIX
from starqe.kg.rdf.numbered_terms import Terms
from starqe.ragged import IntArray

ONTOLOGY = "http://wikiba.se/ontology#"
FULL = {"statement/value": "statement", "qualifier/value": "qualifier"}
"""The part between ``prop/`` and the id of a property, for nodes with full values -> that for the simple values beside them."""
_PARTS = {
    **dict.fromkeys((ONTOLOGY + "timeValue", ONTOLOGY + "quantityAmount"), "main"),
    **dict.fromkeys((ONTOLOGY + "timePrecision", ONTOLOGY + "geoPrecision"), "precision"),
    ONTOLOGY + "timeCalendarModel": "calendar",
    ONTOLOGY + "quantityUnit": "unit",
    ONTOLOGY + "quantityLowerBound": "lower",
    ONTOLOGY + "quantityUpperBound": "upper",
    ONTOLOGY + "geoLatitude": "latitude",
    ONTOLOGY + "geoLongitude": "longitude",
    ONTOLOGY + "geoGlobe": "globe",
}
"""The predicates of a node with a full value -> the part of the value that they hold."""
_LEXICAL = re.compile(r'""(.*?)"(?:\^\^|@|$)', re.DOTALL)
"""The text of a literal without escapes, as numbers are, after the mark that it is one."""
_FILE = re.compile(r"https?://commons\.wikimedia\.org/(?:wiki/Special:FilePath/|data/main/)(.+)")
_EARTH, _ONE, _JULIAN = "Q2", "Q199", "Q1985786"


def plain_values(rows: IntArray, terms: Terms, entities: str) -> IntArray:
    """Returns rows with files and web addresses as literals, as they are in Wikidata's JSON.

    Args:
        rows: (T, 4) subject, relation, value, split.
        terms: The numbers of terms; literals are added.
        entities: The beginning of the IRIs of entities.
    """
    texts = list(terms.ids)
    numbers, place = np.unique(rows[:, 2], return_inverse=True)
    found = [_plain(number, texts[number], terms, entities) for number in numbers.tolist()]
    return np.column_stack([rows[:, :2], np.array(found, np.int32)[place.reshape(-1)], rows[:, 3]])


def _plain(number: int, text: str, terms: Terms, entities: str) -> int:
    if text.startswith((entities, '"', "_:")) or "/.well-known/genid/" in text:
        return number
    file = _FILE.fullmatch(text)
    return _number(Literal(unquote(file[1])) if file else Literal(text, datatype=NamedNode(ANY_URI)), terms)


def _number(literal: Literal, terms: Terms) -> int:
    return terms.number(literal, lambda _: False)


def with_simple_values(rows: dict[str, IntArray], triples: IntArray, terms: Terms) -> None:
    """Adds the simple values of full ones that have none beside them, as Wikidata Toolkit writes them."""
    parts, texts = _parts(triples, terms.ids), list(terms.ids)
    for full, simple in FULL.items():
        has = {(node, relation, split) for node, relation, _, split in rows[simple].tolist()}
        more = [
            (node, relation, value, split)
            for node, relation, of_value, split in rows[full].tolist()
            if (node, relation, split) not in has and (value := _simple(parts.get(of_value, {}), texts, terms)) is not None
        ]
        rows[simple] = np.concatenate([rows[simple], np.array(more, np.int32).reshape(-1, 4)])


def _simple(parts: dict[str, int], texts: list[str], terms: Terms) -> int | None:
    """Returns the number of the literal with the value of a node; None if its kind is unknown."""
    if "longitude" not in parts or "latitude" not in parts:
        return parts.get("main")
    longitude, latitude = (_text_of(texts[parts[name]]) for name in ("longitude", "latitude"))
    globe = texts[parts["globe"]] if "globe" in parts else _EARTH
    prefix = "" if _text_of(globe) == _EARTH else f"<{globe}> "
    return _number(Literal(f"{prefix}Point({longitude} {latitude})", datatype=NamedNode(WKT)), terms)


def _parts(triples: IntArray, ids: dict[str, int]) -> dict[int, dict[str, int]]:
    """Returns the parts of each node with a full value."""
    wanted = {ids[iri]: name for iri, name in _PARTS.items() if iri in ids}
    parts: dict[int, dict[str, int]] = {}
    for node, predicate, value, _ in triples[np.isin(triples[:, 1], list(wanted))].tolist():
        parts.setdefault(node, {})[wanted[predicate]] = value
    return parts


def details_of_values(triples: IntArray, rows: dict[str, IntArray], ids: dict[str, int]) -> IntArray:
    """Returns the details that full values have about the literals of a statement, as triples of `starqe.kg.rdf.details`."""
    parts, texts = _parts(triples, ids), list(ids)
    found = []
    for place, kind in FULL.items():
        simple: dict[tuple[int, int, int], list[int]] = {}
        for node, relation, value, split in rows[kind].tolist():
            if texts[value].startswith('"'):
                simple.setdefault((node, relation, split), []).append(value)
        for node, relation, full, split in rows[place].tolist():
            of_value, values = parts.get(full, {}), simple.get((node, relation, split), [])
            main = [value for value in values if value == of_value.get("main")] or values
            details = _detail_text({name: texts[value] for name, value in of_value.items()})
            if details and len(main) == 1:
                name = "" if kind == "statement" else quote(texts[relation], safe="")
                found.append((node, ids[f"{PREFIX}{name};{details}"], main[0], split))
    return np.array(found, np.int32).reshape(-1, 4)


def _detail_text(parts: dict[str, str]) -> str:
    """Writes precision, calendar, unit and bounds of a full value, given its parts as terms."""
    plain = {name: _text_of(text) for name, text in parts.items()}
    found: dict[str, str] = {name: plain[name] for name in ("lower", "upper") if name in plain}
    if "precision" in plain:
        found["precision"] = precision_text(float(plain["precision"]))
    if plain.get("calendar") == _JULIAN:
        found["calendar"] = "julian"
    if plain.get("unit", _ONE) != _ONE:  # the number one: no unit
        found["unit"] = plain["unit"]
    return details_text(found)


def _text_of(term: str) -> str:
    """Returns the text of a literal, or the last part of an IRI."""
    return match[1] if (match := _LEXICAL.match(term)) else term.rsplit("/", 1)[-1]

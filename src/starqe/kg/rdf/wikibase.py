"""Wikidata's own RDF, and that of other Wikibase sites: statement nodes become statements with qualifiers.

    wd:Q8413 p:P26 wds:1 .                       the statement node of an entity
    wds:1 ps:P26 wd:Q233483 ;                    its value
          pq:P580 "0307"^^xsd:dateTime ;         qualifiers
          wikibase:rank wikibase:NormalRank .
    wd:Q8413 wdt:P26 wd:Q233483 .                the same without the node: "truthy"

A property is one relation, ``wdt:P26``, in all three places. Full values (``psv:``, ``pqv:``) give precision and calendar, unit and bounds
to the literals of their statement. Files and web addresses, deprecated statements, references, normalised values, and descriptions of
pages and properties are left out and counted.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from urllib.parse import quote

import numpy as np

from starqe.kg.iris import TYPE
from starqe.kg.literal import details_text, precision_text
from starqe.kg.rdf.details import PREFIX
from starqe.ragged import BoolArray, IntArray

ONTOLOGY = "http://wikiba.se/ontology#"
RANK, DEPRECATED = ONTOLOGY + "rank", ONTOLOGY + "DeprecatedRank"
ENTITY, DIRECT = "entity/", "prop/direct/"

_PROPERTY = re.compile(r"(?P<site>https?://[^#?]*/)prop/(?P<place>[a-z/-]*?)/?(?P<id>P\d+)")
_KEPT = ("link", "statement", "qualifier", "direct")
"""The predicates of statements: ``p:``, ``ps:``, ``pq:`` and ``wdt:``."""
OTHER = "other"
_DESCRIPTION = "descriptions of values, properties and pages"
_LEFT_OUT = {
    "statement/value-normalized": "normalised values",
    "qualifier/value-normalized": "normalised values",
    "direct-normalized": "normalised values",
    "reference": "references",
    "reference/value": "references",
    "reference/value-normalized": "references",
}
"""The part between ``prop/`` and the id of a property -> its meaning."""
_FULL = {"statement/value": True, "qualifier/value": False}
"""The part between ``prop/`` and the id of a property, for nodes with full values -> whether it is the value of the statement."""
_METADATA = {
    ONTOLOGY: _DESCRIPTION,
    "http://schema.org/": _DESCRIPTION,
    "http://www.w3.org/2002/07/owl#": _DESCRIPTION,
    "http://creativecommons.org/ns#": _DESCRIPTION,
    "http://www.w3.org/2004/02/skos/core#altLabel": "other names",
    "http://www.w3.org/ns/prov#": "references",
    "http://www.w3.org/ns/lemon/": "lexemes",
    "http://purl.org/dc/terms/language": "lexemes",
    TYPE: _DESCRIPTION,
}
"""Beginnings of predicates -> their meaning in Wikibase RDF."""


_PARTS = {
    **dict.fromkeys((ONTOLOGY + "timeValue", ONTOLOGY + "quantityAmount"), "main"),
    **dict.fromkeys((ONTOLOGY + "timePrecision", ONTOLOGY + "geoPrecision"), "precision"),
    ONTOLOGY + "timeCalendarModel": "calendar",
    ONTOLOGY + "quantityUnit": "unit",
    ONTOLOGY + "quantityLowerBound": "lower",
    ONTOLOGY + "quantityUpperBound": "upper",
}
"""The predicates of a node with a full value -> the detail that they hold."""
_LEXICAL = re.compile(r'""(.*?)"(?:\^\^|@|$)', re.DOTALL)
"""The text of a literal without escapes, as numbers are, after the mark that it is one."""


@dataclass(frozen=True)
class Converted:
    """The triples of a Wikibase site as statements. T triples · R statement nodes."""

    triples: IntArray  # (T, 4) the rest: truthy triples, the qualifiers of statement nodes, and triples of other kinds
    reified: IntArray  # (R, 6) statement node, subject, relation, value, split, 1
    relations: dict[int, int]
    """The number of a property as an entity (``wd:P26``) -> its number as a relation."""
    left_out: Counter[str]
    """What was left out, by kind."""


def site_of(predicates: Sequence[str]) -> str | None:
    """Returns the common prefix of the IRIs of a Wikibase site, found by predicates such as ``…/prop/statement/P31``, or None."""
    found = (_PROPERTY.fullmatch(predicate) for predicate in predicates)
    return next((match["site"] for match in found if match and match["place"] in ("statement", "direct")), None)


def convert(triples: IntArray, ids: dict[str, int], site: str) -> Converted:
    """Converts statement nodes to statements.

    Args:
        triples: (T, 4) subject, predicate, object, split.
        ids: The number of each term by its text; relations that do not occur yet are added.
        site: The common prefix of the site's IRIs.
    """
    texts = list(ids)
    predicates, which = np.unique(triples[:, 1], return_inverse=True)
    uses = [_use_of(texts[predicate], site) for predicate in predicates.tolist()]
    use = np.array([kind for kind, _ in uses], object)[which.reshape(-1)]
    relation = np.array([ids.setdefault(f"{site}{DIRECT}{id_}", len(ids)) if id_ else -1 for _, id_ in uses], np.int32)[which.reshape(-1)]
    rows = {kind: np.column_stack([triples[:, 0], relation, triples[:, 2:]])[use == kind] for kind in (*_KEPT, *_FULL)}
    left_out = Counter(str(kind) for kind in use if kind not in _KEPT and kind not in _FULL and kind != OTHER)

    deprecated = triples[(triples[:, 1] == ids.get(RANK, -1)) & (triples[:, 2] == ids.get(DEPRECATED, -1)), 0]
    links = rows["link"][~np.isin(rows["link"][:, 2], deprecated)]
    owner = {(node, relation, split): head for head, relation, node, split in links.tolist()}
    values = [row for row in rows["statement"].tolist() if (row[0], row[1], row[3]) in owner]
    node = np.array([row[0] for row in values], np.int32)
    facts = np.array([[owner[n, r, split], r, value, split] for n, r, value, split in values], np.int32).reshape(-1, 4)
    left_out["deprecated statements"] += len(np.unique(deprecated))
    left_out["statements without a value"] += len(links) - len(np.unique(node))

    def is_entity(rows: IntArray, what: str) -> BoolArray:
        """Returns which values are entities, and counts the others under a name."""
        numbers, inverse = np.unique(rows[:, 2], return_inverse=True)
        kind = np.array([_kind_of_value(texts[number], site) for number in numbers.tolist()], object)[inverse.reshape(-1)]
        left_out.update(f"{what} with {name}" for name in kind if name and what)
        return np.array(kind == "", bool)

    fine = is_entity(facts, "facts")
    qualifiers = rows["qualifier"][np.isin(rows["qualifier"][:, 0], node[fine])]
    own, stated = {*map(tuple, facts.tolist())}, {(head, relation, split) for head, relation, _, split in facts.tolist()}
    truthy = np.array([row for row in rows["direct"].tolist() if tuple(row) not in own], np.int32).reshape(-1, 4)
    # An unknown value is a different blank node in each of the two places: it is counted once, at the statement node.
    again = np.array([(head, relation, split) in stated for head, relation, _, split in truthy.tolist()], bool)
    is_fact = is_entity(truthy, "")
    is_entity(truthy[~again], "facts")
    details = _details(triples, rows, ids, texts)
    return Converted(
        np.concatenate([triples[use == OTHER], truthy[is_fact], qualifiers[is_entity(qualifiers, "qualifiers")], details]),
        np.column_stack([node, facts, np.ones(len(facts), np.int32)])[fine],
        {ids[name]: number for name, number in _as_entities(site, uses, ids) if name in ids},
        +left_out,
    )


def _details(triples: IntArray, rows: dict[str, IntArray], ids: dict[str, int], texts: list[str]) -> IntArray:
    """Returns the details that full values have about the literals of a statement, as triples of `starqe.kg.rdf.details`."""
    wanted = {ids[iri]: name for iri, name in _PARTS.items() if iri in ids}
    parts: dict[int, dict[str, int]] = {}
    for node, predicate, value, _ in triples[np.isin(triples[:, 1], list(wanted))].tolist():
        parts.setdefault(node, {})[wanted[predicate]] = value
    names = list(ids)  # with the relations that were added to the terms of the triples
    found = []
    for place, is_tail in _FULL.items():
        simple: dict[tuple[int, int, int], list[int]] = {}
        for node, relation, value, split in rows["statement" if is_tail else "qualifier"].tolist():
            if texts[value].startswith('"'):
                simple.setdefault((node, relation, split), []).append(value)
        for node, relation, full, split in rows[place].tolist():
            of_value, values = parts.get(full, {}), simple.get((node, relation, split), [])
            main = [value for value in values if value == of_value.get("main")] or values
            details = _detail_text({name: texts[value] for name, value in of_value.items()})
            if details and len(main) == 1:
                name = "" if is_tail else quote(names[relation], safe="")
                found.append((node, ids.setdefault(f"{PREFIX}{name};{details}", len(ids)), main[0], split))
    return np.array(found, np.int32).reshape(-1, 4)


def _detail_text(parts: dict[str, str]) -> str:
    """Writes precision, calendar, unit and bounds of a full value, given its parts as terms."""
    plain = {name: match[1] if (match := _LEXICAL.match(text)) else text.rsplit("/", 1)[-1] for name, text in parts.items()}
    found: dict[str, str] = {name: plain[name] for name in ("lower", "upper") if name in plain}
    if "precision" in plain:
        found["precision"] = precision_text(float(plain["precision"]))
    if plain.get("calendar") == "Q1985786":
        found["calendar"] = "julian"
    if plain.get("unit", "Q199") != "Q199":  # Q199 is the number one: no unit
        found["unit"] = plain["unit"]
    return details_text(found)


def _as_entities(site: str, uses: list[tuple[str, str]], ids: dict[str, int]) -> Iterator[tuple[str, int]]:
    for _, id_ in uses:
        if id_:
            yield f"{site}{ENTITY}{id_}", ids[f"{site}{DIRECT}{id_}"]


def _use_of(predicate: str, site: str) -> tuple[str, str]:
    """Returns the use of a predicate, and its property if it belongs to a statement."""
    match = _PROPERTY.fullmatch(predicate)
    if match and match["site"] == site:
        place = match["place"] or "link"
        return (place, match["id"]) if place in _KEPT or place in _FULL else (_LEFT_OUT.get(place, _DESCRIPTION), "")
    return next((kind for begin, kind in _METADATA.items() if predicate.startswith(begin)), OTHER), ""


def _kind_of_value(text: str, site: str) -> str:
    """Returns the kind of a value that is not an entity; empty for an entity, and for a literal, which is counted later."""
    if text.startswith((f"{site}{ENTITY}", '"')):
        return ""
    return "an unknown value" if text.startswith("_:") or "/.well-known/genid/" in text else "a file or web address"

"""Wikidata's own RDF, and that of other Wikibase sites: statement nodes become statements with qualifiers.

    wd:Q8413 p:P26 wds:1 .                       the statement node of an entity
    wds:1 ps:P26 wd:Q233483 ;                    its value
          pq:P580 "0307"^^xsd:dateTime ;         qualifiers
          wikibase:rank wikibase:NormalRank .
    wd:Q8413 wdt:P26 wd:Q233483 .                the same without the node: "truthy"

A property is one relation, ``wdt:P26``, in all three places. Full values (``psv:``, ``pqv:``) give precision and calendar, unit and bounds
to the literals of their statement. Files and web addresses become literals, as they are in Wikidata's JSON. Statements of other ranks,
unknown and no values, references, normalised values, and descriptions of pages and properties are left out and counted.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from starqe.kg.iris import TYPE
from starqe.kg.rdf.numbered_terms import Terms
from starqe.kg.rdf.wikibase_values import FULL, ONTOLOGY, details_of_values, plain_values, with_simple_values
from starqe.kg.reading.import_options import NO_VALUE, WikidataOptions
from starqe.ragged import BoolArray, IntArray

RANK = ONTOLOGY + "rank"
_RANKS = {ONTOLOGY + f"{name.capitalize()}Rank": name for name in ("preferred", "normal", "deprecated")}
ENTITY, DIRECT, WITHOUT = "entity/", "prop/direct/", "prop/novalue/"

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


@dataclass(frozen=True)
class Converted:
    """The triples of a Wikibase site as statements. T triples · R statement nodes."""

    triples: IntArray  # (T, 4) the rest: truthy triples, the qualifiers of statement nodes, and triples of other kinds
    reified: IntArray  # (R, 6) statement node, subject, relation, value, split, 1
    relations: dict[int, int]
    """The number of a property as an entity (``wd:P26``) -> its number as a relation."""
    records: Counter[str]
    """Triples that are no facts, by kind."""
    left_out: Counter[tuple[str, int]]
    """Facts and qualifiers that were left out, by reason and relation."""


def site_of(predicates: Sequence[str]) -> str | None:
    """Returns the common prefix of the IRIs of a Wikibase site, found by predicates such as ``…/prop/statement/P31``, or None."""
    found = (_PROPERTY.fullmatch(predicate) for predicate in predicates)
    return next((match["site"] for match in found if match and match["place"] in ("statement", "direct")), None)


def convert(triples: IntArray, terms: Terms, site: str, options: WikidataOptions) -> Converted:
    """Converts statement nodes to statements.

    Args:
        triples: (T, 4) subject, predicate, object, split.
        terms: The numbers of terms; relations and literals that do not occur yet are added.
        site: The common prefix of the site's IRIs.
        options: Which ranks are read, and whether unknown and no values are kept.
    """
    ids = terms.ids
    texts = list(ids)
    predicates, which = np.unique(triples[:, 1], return_inverse=True)
    uses = [_use_of(texts[predicate], site) for predicate in predicates.tolist()]
    use = np.array([kind for kind, _ in uses], object)[which.reshape(-1)]
    relation = np.array([ids[f"{site}{DIRECT}{id_}"] if id_ else -1 for _, id_ in uses], np.int32)[which.reshape(-1)]
    rows = {kind: np.column_stack([triples[:, 0], relation, triples[:, 2:]])[use == kind] for kind in (*_KEPT, *FULL)}
    records = Counter(str(kind) for kind in use if kind not in _KEPT and kind not in FULL and kind != OTHER)
    with_simple_values(rows, triples, terms)
    _with_no_values(rows, triples, ids, texts, site)
    for kind in ("statement", "qualifier", "direct"):
        rows[kind] = plain_values(rows[kind], terms, site + ENTITY)

    node, facts = _facts(rows)
    special = _Special(list(ids), ids.get(f"{site}{ENTITY}{NO_VALUE}", -1), options.special_values == "keep")
    rank = _ranks(triples, ids, texts)
    chosen = _chosen(node, facts, rank, options)
    left_out = Counter(
        (f"rank {rank.get(number, 'normal')}", relation)
        for number, relation in zip(node[~chosen].tolist(), facts[~chosen, 1].tolist(), strict=True)
    )
    chosen[chosen] = special.fine(facts[chosen], left_out)
    qualifiers = rows["qualifier"][np.isin(rows["qualifier"][:, 0], node[chosen])]
    truthy = _only_truthy(rows["direct"], facts, special)
    details = details_of_values(triples, rows, ids)
    records["statements without a value"] += len(rows["link"]) - len(np.unique(node))
    return Converted(
        np.concatenate(
            [
                triples[use == OTHER],
                truthy[special.fine(truthy, left_out)],
                qualifiers[special.fine(qualifiers, left_out)],
                details[np.isin(details[:, 0], node[chosen])],
            ]
        ),
        np.column_stack([node, facts, np.ones(len(facts), np.int32)])[chosen],
        {ids[name]: number for name, number in _as_entities(site, uses, ids) if name in ids},
        +records,
        left_out,
    )


def _with_no_values(rows: dict[str, IntArray], triples: IntArray, ids: dict[str, int], texts: list[str], site: str) -> None:
    """Adds what has no value, as a class of the statement node says: ``wds:1 a wdno:P26``, its property or that of a qualifier."""
    typed = triples[triples[:, 1] == ids.get(TYPE, -1)]
    classes = {number: texts[number].removeprefix(site + WITHOUT) for number in np.unique(typed[:, 2]).tolist()}
    classes = {number: id_ for number, id_ in classes.items() if id_ != texts[number]}
    links = {(node, relation) for _, relation, node, _ in rows["link"].tolist()}
    nodes = {node for node, _ in links}
    found: dict[str, list[tuple[int, int, int, int]]] = {"statement": [], "qualifier": []}
    for node, _, number, split in typed[np.isin(typed[:, 2], list(classes))].tolist():
        if node in nodes:
            relation = ids[f"{site}{DIRECT}{classes[number]}"]
            value = ids[f"{site}{ENTITY}{NO_VALUE}"]
            found["statement" if (node, relation) in links else "qualifier"].append((node, relation, value, split))
    for kind, more in found.items():
        rows[kind] = np.concatenate([rows[kind], np.array(more, np.int32).reshape(-1, 4)])


def _facts(rows: dict[str, IntArray]) -> tuple[IntArray, IntArray]:
    """Returns the statement nodes with a value, and their facts: (S, 4) head, relation, value, split."""
    owner = {(node, relation, split): head for head, relation, node, split in rows["link"].tolist()}
    values = [row for row in rows["statement"].tolist() if (row[0], row[1], row[3]) in owner]
    facts = [(owner[node, relation, split], relation, value, split) for node, relation, value, split in values]
    return np.array([row[0] for row in values], np.int32), np.array(facts, np.int32).reshape(-1, 4)


def _ranks(triples: IntArray, ids: dict[str, int], texts: list[str]) -> dict[int, str]:
    """Returns the rank of each statement node that has one."""
    ranked = triples[triples[:, 1] == ids.get(RANK, -1)]
    return {node: _RANKS[texts[rank]] for node, _, rank, _ in ranked.tolist() if texts[rank] in _RANKS}


def _chosen(node: IntArray, facts: IntArray, rank: dict[int, str], options: WikidataOptions) -> BoolArray:
    """Returns which facts have a rank that is read."""
    ranks = [rank.get(number, "normal") for number in node.tolist()]
    places = list(map(tuple, facts[:, [0, 1, 3]].tolist()))
    preferred = {place for place, one in zip(places, ranks, strict=True) if one == "preferred"}
    best = (one == ("preferred" if place in preferred else "normal") for place, one in zip(places, ranks, strict=True))
    usual = (one in options.ranks for one in ranks)
    return np.fromiter(best if options.ranks == ("best",) else usual, bool, len(ranks))


@dataclass(frozen=True)
class _Special:
    """Unknown values (blank nodes) and no values."""

    texts: list[str]
    no_value: int
    are_kept: bool

    def is_unknown(self, numbers: IntArray) -> BoolArray:
        """Returns which terms are unknown values."""
        different, place = np.unique(numbers, return_inverse=True)
        texts = (self.texts[number] for number in different.tolist())
        unknown = np.fromiter((text.startswith("_:") or "/.well-known/genid/" in text for text in texts), bool, len(different))
        found: BoolArray = unknown[place.reshape(-1)]
        return found

    def fine(self, rows: IntArray, left_out: Counter[tuple[str, int]]) -> BoolArray:
        """Returns which rows are kept, and counts the others by reason and relation."""
        unknown, none = self.is_unknown(rows[:, 2]), rows[:, 2] == self.no_value
        if self.are_kept:
            return np.ones(len(rows), bool)
        left_out.update(("unknown value", relation) for relation in rows[unknown, 1].tolist())
        left_out.update(("no value", relation) for relation in rows[none, 1].tolist())
        fine: BoolArray = ~(unknown | none)
        return fine


def _only_truthy(direct: IntArray, facts: IntArray, special: _Special) -> IntArray:
    """Returns the truthy triples that no statement node repeats.

    An unknown value is a different blank node in each of the two places, so it is recognised by head and relation.
    """
    own, stated = {*map(tuple, facts.tolist())}, {(head, relation, split) for head, relation, _, split in facts.tolist()}
    rows = zip(direct.tolist(), special.is_unknown(direct[:, 2]).tolist(), strict=True)
    alone = [row for row, unknown in rows if tuple(row) not in own and not (unknown and (row[0], row[1], row[3]) in stated)]
    return np.array(alone, np.int32).reshape(-1, 4)


def _as_entities(site: str, uses: list[tuple[str, str]], ids: dict[str, int]) -> Iterator[tuple[str, int]]:
    for _, id_ in uses:
        if id_:
            yield f"{site}{ENTITY}{id_}", ids[f"{site}{DIRECT}{id_}"]


def _use_of(predicate: str, site: str) -> tuple[str, str]:
    """Returns the use of a predicate, and its property if it belongs to a statement."""
    match = _PROPERTY.fullmatch(predicate)
    if match and match["site"] == site:
        place = match["place"] or "link"
        return (place, match["id"]) if place in _KEPT or place in FULL else (_LEFT_OUT.get(place, _DESCRIPTION), "")
    return next((kind for begin, kind in _METADATA.items() if predicate.startswith(begin)), OTHER), ""

"""Details of a literal that RDF has no place for (unit, precision, bounds, calendar), as triples of the reifier of its statement.

    _:r1 <urn:starqe:literal:;precision=9> "1949-01-01T00:00:00Z"^^xsd:dateTime          the tail of the statement has this precision
    _:r1 <urn:starqe:literal:RELATION;unit=km2> "73.32"^^xsd:decimal                     the qualifier value of this relation has this unit

The relation is its IRI in percent-encoding. So literals in RDF are plain typed literals, and an export can be read back without loss.
"""

from collections.abc import Callable, Iterator
from urllib.parse import quote, unquote

import numpy as np

from starqe.kg.literal import Literal, details_of, details_text, with_details
from starqe.ragged import IntArray

PREFIX = "urn:starqe:literal:"
Use = tuple[str, Literal]
"""A literal of a statement, with the IRI of the relation that it is the qualifier value of; empty for the tail."""


def detail_predicates(tail: Literal | None, pairs: list[Use]) -> Iterator[tuple[str, Literal]]:
    """Yields predicate and object of each triple that a reifier needs, given the literals of its statement.

    A literal without details needs one too if the same pair occurs with details.
    """
    if tail is not None and (details := details_text(details_of(tail))):
        yield f"{PREFIX};{details}", tail
    uses = [(relation, literal.term) for relation, literal in pairs]
    for relation, literal in pairs:
        if (details := details_text(details_of(literal))) or uses.count((relation, literal.term)) > 1:
            yield f"{PREFIX}{quote(relation, safe='')};{details}", literal


def apply_details(
    facts: IntArray, pairs: IntArray, reified: IntArray, texts: list[str], number_of: Callable[[int, Callable[[Literal], Literal]], int]
) -> tuple[IntArray, IntArray, IntArray]:
    """Replaces plain literals by those that the triples of this module describe, and removes these triples.

    Args:
        facts: (T, 4) subject, predicate, object, split of the asserted triples.
        pairs: (P, 4) reifier, relation, value, split.
        reified: (R, 6) reifier, subject, predicate, object, split, and whether it needs no assertion.
        texts: The terms by number.
        number_of: Applies a function to the literal with a number, and returns the number of the result.

    Raises:
        ValueError: A triple of this module is malformed.
    """
    found = {number: texts[number] for number in np.unique(pairs[:, 1]).tolist() if texts[number].startswith(PREFIX)}
    if not found:
        return facts, pairs, reified
    of_details = np.isin(pairs[:, 1], list(found))
    numbers = {text: number for number, text in enumerate(texts)}
    new: dict[tuple[int, int, int, int], list[int]] = {}  # reifier, relation (-1: the tail), plain value, split -> values
    for reifier, predicate, value, split in pairs[of_details].tolist():
        relation, _, details = found[predicate].removeprefix(PREFIX).partition(";")
        place = numbers.get(unquote(relation), -2) if relation else -1
        detailed = number_of(value, lambda literal, details=details: with_details(literal, details))  # type: ignore[misc]
        new.setdefault((reifier, place, value, split), []).append(detailed)
    facts, reified = _detailed_tails(facts, reified, new)
    return facts, _detailed_pairs(pairs[~of_details], new), reified


def _detailed_pairs(pairs: IntArray, new: dict[tuple[int, int, int, int], list[int]]) -> IntArray:
    concerned = np.isin(pairs[:, 0], [key[0] for key in new])
    made = [
        (reifier, relation, one, split)
        for reifier, relation, value, split in pairs[concerned].tolist()
        for one in new.get((reifier, relation, value, split), [value])
    ]
    return np.unique(np.concatenate([pairs[~concerned], np.array(made, np.int32).reshape(-1, 4)]), axis=0)


def _detailed_tails(facts: IntArray, reified: IntArray, new: dict[tuple[int, int, int, int], list[int]]) -> tuple[IntArray, IntArray]:
    """Gives the tails of reified triples their details.

    Such a reifier counts as asserted if the plain triple is asserted, and the plain triple then makes no statement of its own.
    """
    concerned = np.isin(reified[:, 0], [key[0] for key in new if key[1] == -1])
    plain = {tuple(row) for row in facts[np.isin(facts[:, 0], reified[concerned, 1])].tolist()}
    made, used = [], set()
    for reifier, head, relation, tail, split, asserted in reified[concerned].tolist():
        if (values := new.get((reifier, -1, tail, split))) is None:
            made.append((reifier, head, relation, tail, split, asserted))
            continue
        used.add((head, relation, tail, split))
        made += [(reifier, head, relation, one, split, asserted or (head, relation, tail, split) in plain) for one in values]
    reified = np.concatenate([reified[~concerned], np.array(made, np.int32).reshape(-1, 6)])
    used -= {tuple(row) for row in reified[:, 1:5].tolist()}
    is_used = np.array([tuple(row) in used for row in facts.tolist()], bool) if used else np.zeros(len(facts), bool)
    return facts[~is_used], reified

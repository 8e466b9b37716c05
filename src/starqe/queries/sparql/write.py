"""A query as SPARQL 1.2 text, one annotated triple pattern per atom.

``?s :p ?o {| :q1 :v1 ; :q2 :v2 |}`` asks for the base triple and for one reifier of it (one statement) that has all of the
pairs: the meaning of an atom.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pyoxigraph import BlankNode

from starqe.errors import UnsupportedError
from starqe.kg.iris import DEFAULT_NAMES, Names
from starqe.queries.formula import And, Atom, Formula, Not, Or, Same, Term, Variable
from starqe.queries.text import atom_text

if TYPE_CHECKING:
    from starqe.kg.graph import Graph
    from starqe.queries.query import Query


def write_sparql(query: "Query", names: Names = DEFAULT_NAMES, form: Literal["SELECT", "ASK"] = "SELECT") -> str:
    """Writes a query; an identifier becomes the RDF term that the names give it.

    Raises:
        UnsupportedError: A relation or a qualifier relation is a variable, an entity is a blank node, or a negation stands inside a
            disjunction.
    """
    head = "ASK" if form == "ASK" else "SELECT DISTINCT " + " ".join(map(str, query.answers))
    return _text(
        f"{head} WHERE", query.formula, _Terms(lambda entity: _iri(entity, names), lambda relation: str(names.relations.term(relation)))
    )


def readable_sparql(query: "Query", graph: "Graph") -> str:
    """Writes a query for people: entities and relations by their labels, if these are unique.

    Raises:
        UnsupportedError: A relation or a qualifier relation is a variable, or a negation stands inside a disjunction.
    """
    entities, relations = graph.entities, graph.relations
    terms = _Terms(
        lambda entity: quoted(entities.name(entities.id(entity))), lambda relation: quoted(relations.name(relations.id(relation)))
    )
    return _text("SELECT " + " ".join(map(str, query.answers)), query.formula, terms).rstrip()


def quoted(name: str) -> str:
    """Writes a name as a string of SPARQL."""
    return json.dumps(name, ensure_ascii=False)


@dataclass(frozen=True)
class _Terms:
    """How entities and relations are written."""

    entity: Callable[[str], str]
    relation: Callable[[str], str]


def _text(head: str, formula: Formula, terms: _Terms) -> str:
    body = "\n".join("  " + line for line in _group(formula, terms))
    return f"{head} {{\n{body}\n}}\n"


def _group(formula: Formula, terms: _Terms) -> list[str]:
    """Returns the lines of a group graph pattern."""
    match formula:
        case Atom():
            return [_triple(formula, terms)]
        case Same():
            return [f"FILTER ({' = '.join(str(term) if isinstance(term, Variable) else terms.entity(term) for term in formula.terms)})"]
        case Not():
            return ["FILTER NOT EXISTS {", *_indented(formula.part, terms), "}"]
        case And():
            # A filter holds for its whole group; what binds the variables comes first for the reader only.
            parts = sorted(formula.parts, key=lambda part: isinstance(part, Not | Same))
            return [line for part in parts for line in _group(part, terms)]
        case Or():
            lines = ["{"]
            for number, part in enumerate(formula.parts):
                if _denies(part):
                    raise UnsupportedError(
                        "SPARQL text has no negation inside a disjunction: it would see only the variables of its branch"
                    )
                lines += ["} UNION {"] * (number > 0) + _indented(part, terms)
            return [*lines, "}"]


def _denies(formula: Formula) -> bool:
    match formula:
        case Atom() | Same():
            return False
        case Not():
            return True
        case And() | Or():
            return any(map(_denies, formula.parts))


def _indented(formula: Formula, terms: _Terms) -> list[str]:
    return ["  " + line for line in _group(formula, terms)]


def _triple(atom: Atom, terms: _Terms) -> str:
    plain = atom.plain  # SPARQL writes an inverse relation as a path, which no annotation may follow

    def entity(term: Term) -> str:
        return str(term) if isinstance(term, Variable) else terms.entity(term)

    def relation(term: Term) -> str:
        # In a store, a variable there would also match the triples by which statements are annotated.
        if isinstance(term, Variable):
            raise UnsupportedError(f"SPARQL text has constants as relations, found the variable {term}: {atom_text(atom)}")
        return terms.relation(term)

    pairs = " ; ".join(f"{relation(key)} {entity(value)}" for key, value in plain.qualifiers)
    triple = f"{entity(plain.head)} {relation(plain.relation)} {entity(plain.tail)}"
    return triple + (f" {{| {pairs} |}}" if pairs else "") + " ."


def _iri(entity: str, names: Names) -> str:
    written = names.entities.term(entity)
    if isinstance(written, BlankNode):
        raise UnsupportedError(f"SPARQL cannot name a blank node, found the entity '{entity}'")
    return str(written)

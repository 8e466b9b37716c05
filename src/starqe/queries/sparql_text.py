"""A query as SPARQL 1.2 text, one annotated triple pattern an atom.

``?s :p ?o {| :q1 :v1 ; :q2 :v2 |}`` asks for the base triple and for one reifier of it (one statement) that has all of the
pairs: the meaning of an atom.
"""

from typing import TYPE_CHECKING, Literal

from pyoxigraph import BlankNode

from starqe.errors import UnsupportedError
from starqe.kg.names import Names
from starqe.queries.formula import And, Atom, Formula, Not, Or, Term, Variable
from starqe.queries.text import atom_text

if TYPE_CHECKING:
    from starqe.queries.query import Query


def sparql(query: "Query", names: Names, form: Literal["SELECT", "ASK"] = "SELECT") -> str:
    """Writes a query; an identifier becomes the RDF term that the names give it.

    Raises:
        UnsupportedError: A relation or a qualifier relation is a variable, an entity is a blank node, or a negation stands inside a
            disjunction.
    """
    head = "ASK" if form == "ASK" else "SELECT DISTINCT " + " ".join(map(str, query.answers))
    body = "\n".join("  " + line for line in _group(query.formula, names))
    return f"{head} WHERE {{\n{body}\n}}\n"


def _group(formula: Formula, names: Names) -> list[str]:
    """Gives the lines of a group graph pattern."""
    match formula:
        case Atom():
            return [_triple(formula, names)]
        case Not():
            return ["FILTER NOT EXISTS {", *_indented(formula.part, names), "}"]
        case And():
            # A filter holds for its whole group; what binds the variables comes first for the reader only.
            parts = sorted(formula.parts, key=lambda part: isinstance(part, Not))
            return [line for part in parts for line in _group(part, names)]
        case Or():
            lines = ["{"]
            for number, part in enumerate(formula.parts):
                if _denies(part):
                    raise UnsupportedError(
                        "SPARQL text has no negation inside a disjunction: it would see the variables of its branch only"
                    )
                lines += ["} UNION {"] * (number > 0) + _indented(part, names)
            return [*lines, "}"]


def _denies(formula: Formula) -> bool:
    match formula:
        case Atom():
            return False
        case Not():
            return True
        case And() | Or():
            return any(map(_denies, formula.parts))


def _indented(formula: Formula, names: Names) -> list[str]:
    return ["  " + line for line in _group(formula, names)]


def _triple(atom: Atom, names: Names) -> str:
    plain = atom.plain  # SPARQL writes an inverse relation as a path, which no annotation may follow
    pairs = " ; ".join(f"{_relation(key, atom, names)} {_entity(value, names)}" for key, value in plain.qualifiers)
    triple = f"{_entity(plain.head, names)} {_relation(plain.relation, atom, names)} {_entity(plain.tail, names)}"
    return triple + (f" {{| {pairs} |}}" if pairs else "") + " ."


def _entity(term: Term, names: Names) -> str:
    if isinstance(term, Variable):
        return str(term)
    written = names.entities.term(term)
    if isinstance(written, BlankNode):
        raise UnsupportedError(f"SPARQL cannot name a blank node, found the entity '{term}'")
    return str(written)


def _relation(term: Term, atom: Atom, names: Names) -> str:
    # In a store, a variable there would also match the triples by which statements are annotated.
    if isinstance(term, Variable):
        raise UnsupportedError(f"SPARQL text has constants as relations, found the variable {term}: {atom_text(atom)}")
    return str(names.relations.term(term))

"""Patterns with literal values: a store of known facts answers them, next to the predicted part of a query."""

from dataclasses import dataclass

from starqe.queries.formula import Term, Variable
from starqe.queries.sparql.patterns import Patterns, Triple, Written, triple_text
from starqe.queries.sparql.syntax import Node, known_only
from starqe.queries.sparql.triples import NodeReader


@dataclass(frozen=True)
class LiteralFact:
    """A pattern whose value is a literal, or a condition on such values; it has to be a known fact."""

    text: str
    """The pattern or condition, written for a store."""
    subject: Term | None = None
    """The entity that has the value; None for a condition."""
    relation: str = ""
    value: Variable | None = None
    """The variable of the literal; None if the literal is given, and for a condition."""


def literal_fact(triple: Triple, patterns: Patterns, reader: NodeReader, text: str, written: Written) -> LiteralFact:
    """Reads a triple pattern whose relation has literal values.

    Raises:
        KnownOnlyError: Its subject or value is a blank node, its subject is a literal, or its value is an entity elsewhere.
    """
    subject_kind, value_kind = patterns.key(triple.subject)[0], patterns.key(triple.object)[0]
    if subject_kind not in ("iri", "variable", "literal") or value_kind not in ("iri", "variable", "literal"):
        raise known_only(triple.relation, "literal")
    subject = reader.entity(triple.subject, patterns)
    relation = reader.literal_relation(triple.relation)
    value = Variable(triple.object[1:]) if value_kind == "variable" else None
    if value is not None and value.name in reader.entities:
        raise known_only(triple.object, "two kinds")
    return LiteralFact(f"{triple_text(triple, text, written)} .", subject, relation, value)


def literal_condition(node: Node, text: str) -> LiteralFact:
    """Reads a condition on literals."""
    return LiteralFact(f"FILTER ({text[node.start_pos : node.end_pos]})")

"""A statement: a main triple and its qualifier pairs."""

import re
from dataclasses import dataclass

from starqe.errors import InputError
from starqe.kg.literal import Literal

SPLITS = ("train", "valid", "test")
"""The parts of a graph, in the order of their codes in the split column."""

CONTROL = r"[\x00-\x1f\x7f\x{85}\x{2028}\x{2029}\x{feff}]"
"""Characters that no identifier contains, in RE2 syntax (Arrow); a byte order mark (feff) would be lost at the start of a file."""
_CONTROL = re.compile("[\x00-\x1f\x7f\x85\u2028\u2029\ufeff]")
_HALF = re.compile("[\ud800-\udfff]")


def identifier_problem(identifier: str) -> str | None:
    """Returns why a text cannot be an identifier, or None: identifiers are one line, not empty, without surrounding white space."""
    if not identifier:
        return "it is empty"
    if _CONTROL.search(identifier):
        return "it contains a control character or a line break"
    if _HALF.search(identifier):
        return "it contains half a surrogate pair"
    if identifier != identifier.strip():
        return "it begins or ends with white space"
    return None


def field_text(field: str | Literal) -> str:
    """Returns the text of a field in a draft: the identifier, or the key of a literal."""
    return field if isinstance(field, str) else field.key


@dataclass(frozen=True)
class Statement:
    """A statement ``(head, relation, tail, {(relation, value), ...})`` by identifiers; tail and values may be literals.

    The qualifier pairs are a set: kept sorted and unique, so equal statements compare equal.

    Raises:
        InputError: An identifier is empty, spans lines, or has surrounding white space; or a literal is not Unicode text.
    """

    head: str
    relation: str
    tail: str | Literal
    qualifiers: tuple[tuple[str, str | Literal], ...] = ()

    def __post_init__(self) -> None:
        pairs = sorted(set(self.qualifiers), key=lambda pair: (pair[0], isinstance(pair[1], Literal), field_text(pair[1])))
        object.__setattr__(self, "qualifiers", tuple(pairs))
        for identifier in self.fields():
            if isinstance(identifier, Literal):
                if _HALF.search(identifier.key):
                    raise InputError(f"a literal is Unicode text, found {identifier.lexical!r} with half a surrogate pair")
            elif problem := identifier_problem(identifier):
                raise InputError(f"an identifier is one line of text without space around it, found {identifier!r}: {problem}")

    def fields(self) -> list[str | Literal]:
        """Returns the statement as one flat row: head, relation, tail, then relation and value of each pair."""
        return [self.head, self.relation, self.tail, *(part for pair in self.qualifiers for part in pair)]

    def entails(self, other: "Statement") -> bool:
        """Returns whether the other statement follows from this one: any subset of the qualifier pairs also holds."""
        same = (self.head, self.relation, self.tail) == (other.head, other.relation, other.tail)
        return same and set(other.qualifiers) <= set(self.qualifiers)

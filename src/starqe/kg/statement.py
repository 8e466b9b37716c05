"""A statement: a main triple and its qualifier pairs."""

import re
from dataclasses import dataclass

from starqe.errors import InputError

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


@dataclass(frozen=True)
class Statement:
    """A statement ``(head, relation, tail, {(relation, value), ...})`` by identifiers.

    The qualifier pairs are a set: kept sorted and unique, so equal statements compare equal.

    Raises:
        InputError: An identifier is empty, spans lines, or has surrounding white space.
    """

    head: str
    relation: str
    tail: str
    qualifiers: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "qualifiers", tuple(sorted(set(self.qualifiers))))
        for identifier in self.fields():
            if problem := identifier_problem(identifier):
                raise InputError(f"an identifier is one line of text without space around it, found {identifier!r}: {problem}")

    def fields(self) -> list[str]:
        """Returns the statement as one flat row: head, relation, tail, then relation and value of each pair."""
        return [self.head, self.relation, self.tail, *(part for pair in self.qualifiers for part in pair)]

    def entails(self, other: "Statement") -> bool:
        """Returns whether the other statement follows from this one: any subset of the qualifier pairs also holds."""
        same = (self.head, self.relation, self.tail) == (other.head, other.relation, other.tail)
        return same and set(other.qualifiers) <= set(self.qualifiers)

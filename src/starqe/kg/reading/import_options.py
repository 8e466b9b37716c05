"""Import options, other than the file and its form."""

import re
from dataclasses import dataclass
from typing import Literal

from starqe.errors import InputError

RANKS = ("preferred", "normal", "deprecated", "best")
"""The ranks of Wikidata's statements; ``best`` selects the preferred ones of a property, or the normal ones if there are none."""

NO_VALUE = "novalue"
"""The entity that stands for no value, if such facts are kept."""

LiteralChoice = Literal["keep", "bucket", "drop"]
"""Whether literals are kept as values, numbers and dates become entities for ranges of values, or literals are left out."""


@dataclass(frozen=True)
class Columns:
    """Which columns of a table make a statement; a column may be named with a type, as in ``since:date``.

    Raises:
        InputError: A column is named twice, or has no name.
    """

    head: str
    relation: str
    tail: str
    qualifiers: tuple[str, ...] = ()
    """The columns with qualifier values; the name of the column is the relation."""

    def __post_init__(self) -> None:
        names = (self.head, self.relation, self.tail, *self.qualifiers)
        if not all(names) or len(set(names)) < len(names):
            raise InputError(f"each column of a table is named once, found {', '.join(map(repr, names))}")


@dataclass(frozen=True)
class WikidataOptions:
    """Which part of a Wikidata dump becomes the graph.

    Raises:
        InputError: A rank is unknown, a class or property is not an identifier of Wikidata, or the minimum number is negative.
    """

    ranks: tuple[str, ...] = ("preferred", "normal")
    languages: tuple[str, ...] = ("en",)
    """Languages of labels; an entity without a label in any of them gets the multilingual one, or any other."""
    classes: frozenset[str] = frozenset()
    """Only instances (P31) of these classes are read; all entities if empty."""
    properties: frozenset[str] = frozenset()
    """Only statements with these properties are read, with all their qualifiers; all statements if empty."""
    min_statements: int = 0
    """Entities with fewer statements, after the selections above, are left out."""
    special_values: Literal["leave", "keep"] = "leave"
    """Whether an unknown value becomes a blank node, and no value the entity ``novalue``, or both are left out."""

    def __post_init__(self) -> None:
        if unknown := [rank for rank in self.ranks if rank not in RANKS]:
            raise InputError(f"a rank is one of {', '.join(RANKS)}, found {unknown[0]!r}")
        if not self.ranks or ("best" in self.ranks and len(self.ranks) > 1):
            raise InputError(f"ranks are one or more of preferred, normal and deprecated, or best alone, found {','.join(self.ranks)!r}")
        for letter, what, identifiers in (("Q", "class", self.classes), ("P", "property", self.properties)):
            if wrong := sorted(identifier for identifier in identifiers if not re.fullmatch(rf"{letter}[1-9]\d*", identifier)):
                raise InputError(f"a {what} of Wikidata is written like {letter}31, found {wrong[0]!r}")
        if self.min_statements < 0:
            raise InputError(f"the minimum number of statements is 0 or more, found {self.min_statements}")

    @property
    def is_slice(self) -> bool:
        """Whether some entities or properties are left out."""
        return bool(self.classes or self.properties or self.min_statements > 1)

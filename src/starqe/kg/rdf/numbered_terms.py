"""The terms of the documents of one graph, numbered in order of appearance."""

from collections.abc import Callable

import numpy as np
from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from starqe.kg.iris import Namespace
from starqe.kg.literal import Literal as Value
from starqe.kg.literal import short_datatype
from starqe.kg.statement import identifier_problem
from starqe.ragged import IntArray

Generated = Callable[[str], bool] | None
"""Returns whether the parser generated the label of a blank node; None if it generated none."""


class Terms:
    """Numbers for terms, and what is known about some of them."""

    def __init__(self, drop_literals: bool) -> None:
        self._drop_literals = drop_literals
        self.ids: dict[str, int] = {}
        """IRI, _:label, or the text of a literal or triple term after a quote -> number."""
        self.anonymous: set[int] = set()
        """Blank nodes without a label of their own."""
        self.unfit: dict[int, str] = {}
        """IRIs that cannot be identifiers -> why."""
        self.literals: dict[int, Value] = {}
        self.values: dict[int, str] = {}
        """What is left out: the number of a literal or triple term -> its kind."""

    def number(self, term: NamedNode | BlankNode | Literal | Triple, generated: Generated) -> int:
        """Returns the number of a term; ``generated`` says which labels of blank nodes the parser made."""
        kind = type(term)
        if kind is NamedNode:
            text = term.value  # type: ignore[union-attr]
        elif kind is BlankNode:
            text = f"_:{term.value}"  # type: ignore[union-attr]
        else:
            text = f'"{term}'  # no IRI and no blank node begins with a quote
        number = self.ids.get(text)
        if number is None:
            number = self.ids[text] = len(self.ids)
            self._describe(term, text, number, generated)
        return number

    def add(self, texts: list[str], generated: Generated) -> IntArray:
        """Returns the numbers of new terms: IRIs that can be identifiers, and blank nodes as ``_:label``; each occurs once."""
        first = len(self.ids)
        self.ids.update(zip(texts, range(first, first + len(texts)), strict=True))
        if generated:
            self.anonymous.update(number for number, text in enumerate(texts, first) if text[0] == "_" and generated(text[2:]))
        return np.arange(first, first + len(texts), dtype=np.int32)

    def add_unnamed(self, count: int) -> IntArray:
        """Returns the numbers of new blank nodes without a label."""
        first = len(self.ids)
        numbers = range(first, first + count)
        self.ids.update(zip(map("_: {}".format, numbers), numbers, strict=True))  # no label has a space
        self.anonymous.update(numbers)
        return np.arange(first, first + count, dtype=np.int32)

    def _describe(self, term: NamedNode | BlankNode | Literal | Triple, text: str, number: int, generated: Generated) -> None:
        if isinstance(term, NamedNode):
            if problem := identifier_problem(text):
                self.unfit[number] = f"an identifier is one line of text without space around it, found <{text}>: {problem}"
        elif isinstance(term, BlankNode):
            if generated and generated(term.value):
                self.anonymous.add(number)
        elif isinstance(term, Literal):
            language = f"{term.language}--{term.direction}" if term.direction else term.language or ""
            self.literals[number] = Value(term.value, term.datatype.value, language)
            if self._drop_literals:
                self.values[number] = short_datatype(term.datatype.value)
        else:
            self.values[number] = "triple term"

    def entity_names(self, numbers: list[int], texts: list[str], namespace: Namespace) -> list[str]:
        """Returns the names of terms as entities (or literals), given the texts of all terms by number."""
        names = namespace.identifiers(map(texts.__getitem__, numbers))
        unnamed = [place for place, number in enumerate(numbers) if number in self.anonymous]
        prefix = "_:anon"
        while unnamed and any(text.startswith(prefix) for text in texts):
            prefix += "_"
        for order, place in enumerate(unnamed):
            names[place] = f"{prefix}{order}"
        if self.literals:
            names = [self.literals[number].key if number in self.literals else name for number, name in zip(numbers, names, strict=True)]
        return names

    def detailed(self, number: int, change: Callable[[Value], Value]) -> int:
        """Returns the number of what a function makes of a literal; the same number if literals are left out."""
        if number not in self.literals or self._drop_literals:
            return number
        changed = change(self.literals[number])
        new = self.ids.setdefault(f'"{changed.key}', len(self.ids))
        self.literals[new] = changed
        return new

"""The terms of the documents of one graph, numbered in order of appearance."""

import itertools
from collections import defaultdict
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


_SHORT = len("_:0123456789")
"""Labels of at most this length are written by people: a parser makes longer ones."""


class Terms:
    """Numbers for terms, and what is known about some of them."""

    def __init__(self, drop_literals: bool) -> None:
        self._drop_literals = drop_literals
        self.ids: defaultdict[str, int] = defaultdict(itertools.count().__next__)
        """IRI, _:label, or the text of a literal or triple term after a quote -> number; a new text gets the next number."""
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
        first = len(self.ids)
        number = self.ids[text]
        if number == first:
            self._describe(term, text, number, generated)
        return number

    def numbers(self, texts: list[str], generated: Generated) -> IntArray:
        """Returns the numbers of terms: IRIs that can be identifiers, and blank nodes as ``_:label``."""
        first = len(self.ids)
        numbers = np.fromiter(map(self.ids.__getitem__, texts), np.int32, len(texts))
        if generated:
            new = zip(numbers.tolist(), texts, strict=True)
            self.anonymous.update(
                number for number, text in new if len(text) > _SHORT and number >= first and text[0] == "_" and generated(text[2:])
            )
        return numbers

    def add_unnamed(self, count: int) -> IntArray:
        """Returns the numbers of new blank nodes without a label."""
        first = len(self.ids)
        labels = map("_: {}".format, range(first, first + count))  # no label has a space
        numbers = np.fromiter(map(self.ids.__getitem__, labels), np.int32, count)
        self.anonymous.update(numbers.tolist())
        return numbers

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
        new = self.ids[f'"{changed.key}']
        self.literals[new] = changed
        return new

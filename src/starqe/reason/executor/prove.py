"""Proofs: values of the variables for which known statements alone make a formula true.

A depth-first search: the part with the fewest matches comes first, and failed states are not tried again. A negation holds
if its part has no proof; it waits until the variables that it shares with other parts are bound.
"""

from collections.abc import Iterator
from itertools import product
from math import inf

import numpy as np

from starqe.deadline import Deadline
from starqe.kg.known import Known
from starqe.queries.formula import And, Not, Or
from starqe.ragged import IntArray
from starqe.reason.executor.pattern import Edge, Equal, Questions, Tree

Values = dict[str, int]
"""The ids of the nodes of a pattern."""


class Prover:
    """Finds proofs of the only question of a batch."""

    def __init__(self, known: Known, questions: Questions, deadline: Deadline) -> None:
        self._known, self._pattern, self._deadline = known, questions.pattern, deadline
        self._labels, self._pair_relations = questions.labels[0], questions.pair_relations[0]
        self._failed: set[tuple[tuple[Tree, ...], frozenset[tuple[str, int]], frozenset[str]]] = set()

    def first(self, tree: Tree, values: Values) -> Values | None:
        """Returns values that prove a part, given some of them, or None where there is no proof.

        Raises:
            DeadlineError: The time is up.
        """
        return next(self._prove(conjuncts(tree), values, self._scope(conjuncts(tree))), None)

    def _scope(self, parts: tuple[Tree, ...]) -> frozenset[str]:
        """Returns the variables that have one value in all of some parts: those of branches only if other parts mention them too."""
        found: set[str] = set()
        for part in parts:
            others = frozenset().union(*(self._pattern.mentioned(other) for other in parts if other is not part))
            found |= self._pattern.positive(part) & others if isinstance(part, Or) else self._pattern.positive(part)
        return frozenset(found)

    def _prove(self, parts: tuple[Tree, ...], values: Values, scope: frozenset[str]) -> Iterator[Values]:
        """Yields values that prove all parts; a variable of the scope has one value in all of them, and maybe in others."""
        if not parts:
            yield values
            return
        self._deadline.check()
        mentioned = frozenset().union(*map(self._pattern.mentioned, parts))
        state = parts, frozenset((node, id_) for node, id_ in values.items() if node in mentioned), scope & mentioned
        if state in self._failed:
            return
        place = min(range(len(parts)), key=lambda place: self._cost(parts[place], values, scope))
        rest, found = parts[:place] + parts[place + 1 :], False
        for extended in self._extend(parts[place], values, scope):
            for proof in self._prove(rest, extended, scope):
                found = True
                yield proof
        if not found:
            self._failed.add(state)

    def _cost(self, part: Tree, values: Values, scope: frozenset[str]) -> float:
        """Estimates the number of ways in which a part may hold; infinite while other parts may still bind its variables."""
        match part:
            case int():
                return len(self._candidates(part, values))
            case Equal():
                return 0 if part.left in values or part.right in values else len(self._domain(part.left))
            case Not():
                return inf if self._waiting(part, values, scope) else 0
        cost = 1.0
        for branch in map(conjuncts, part.parts):
            inner = scope | self._scope(branch)
            cost += min(self._cost(one, values, inner) for one in branch)
        return cost

    def _waiting(self, part: Tree, values: Values, scope: frozenset[str]) -> list[str]:
        """Returns the variables of a negation that other parts bind, and that have no value yet."""
        return sorted((self._pattern.mentioned(part) & scope) - values.keys())

    def _extend(self, part: Tree, values: Values, scope: frozenset[str]) -> Iterator[Values]:
        """Yields the values together with each of the ways in which a part holds."""
        match part:
            case int():
                yield from self._matches(part, values)
            case Equal():
                yield from self._equal(part, values)
            case Not():
                names = self._waiting(part, values, scope)  # nothing else binds these: any value will do
                for ids in product(*map(self._domain, names)):
                    chosen = values | dict(zip(names, ids, strict=True))
                    if self.first(part.part, chosen) is None:
                        yield chosen
            case Or():
                for branch in map(conjuncts, part.parts):
                    yield from self._prove(branch, values, scope | self._scope(branch))
            case And():
                yield from self._prove(conjuncts(part), values, scope)

    def _equal(self, part: Equal, values: Values) -> Iterator[Values]:
        left, right = values.get(part.left), values.get(part.right)
        if left is None and right is None:
            yield from (values | {part.left: id_, part.right: id_} for id_ in self._domain(part.left))
        elif left is None or right is None or left == right:
            id_ = left if left is not None else right
            assert id_ is not None
            yield values | {part.left: id_, part.right: id_}

    def _domain(self, node: str) -> range:
        """Returns the ids that a variable can have."""
        graph = self._known.graph
        return range(len(graph.relations if node in self._pattern.relations else graph.entities))

    def _matches(self, number: int, values: Values) -> Iterator[Values]:
        edge, graph, seen = self._pattern.edges[number], self._known.graph, set()
        given = self._labels[number][1]
        rows = self._candidates(number, values)
        for node, column in ((edge.head, graph.head), (edge.tail, graph.tail)):
            if node in values:
                rows = rows[column[rows] == values[node]]
        if (wanted := self._relation(edge, number, values)) is not None:
            rows = rows[graph.relation[rows] == wanted]
        for row in rows[self._known.with_pairs(rows, given)].tolist():
            self._deadline.check()
            ends = [(edge.head, int(graph.head[row])), (edge.tail, int(graph.tail[row]))]
            ends += [] if edge.relation is None else [(edge.relation, int(graph.relation[row]))]
            for pairs in product(*(self._pairs(number, place, row) for place in range(len(edge.values)))):
                bound = [*ends, *(binding for pair in pairs for binding in pair)]
                found = dict(bound)
                key = tuple(found.values())
                if key not in seen and all(found[node] == id_ and values.get(node, id_) == id_ for node, id_ in bound):
                    seen.add(key)
                    yield values | found

    def _pairs(self, number: int, place: int, row: int) -> list[list[tuple[str, int]]]:
        """Returns the bindings for each pair of a statement that matches a pair with a variable."""
        variable, node = self._pattern.edges[number].values[place]
        wanted = self._pair_relations[number][place]
        return [
            [(node, value), *([] if variable is None else [(variable, key)])]
            for key, value in self._known.graph.pairs_of(row)
            if variable is not None or key == wanted
        ]

    def _candidates(self, number: int, values: Values) -> IntArray:
        """Returns the statements that may match an edge, from the index that has the fewest."""
        known, edge = self._known, self._pattern.edges[number]
        relation, given = self._relation(edge, number, values), self._labels[number][1]
        found = [known.by_qualifier(*pair) for pair in given]
        for place, (variable, node) in enumerate(edge.values):
            key = self._pair_relations[number][place] if variable is None else values.get(variable)
            if key is not None and node in values:
                found.append(known.by_qualifier(key, values[node]))
        found += [known.by_head(values[edge.head], relation)] if edge.head in values else []
        found += [known.by_tail(values[edge.tail], relation)] if edge.tail in values else []
        found.append(known.rows if relation is None else known.by_relation(relation))
        return np.asarray(min(found, key=len))

    def _relation(self, edge: Edge, number: int, values: Values) -> int | None:
        return self._labels[number][0] if edge.relation is None else values.get(edge.relation)


def conjuncts(tree: Tree) -> tuple[Tree, ...]:
    """Returns the parts of a conjunction, with nested conjunctions merged."""
    return tuple(part for inner in tree.parts for part in conjuncts(inner)) if isinstance(tree, And) else (tree,)

"""Random SPARQL texts over a graph: what starqe predicts for, and the rest of SPARQL.

A text grows from real statements: each pattern has a *witness*, the entities for which it holds, and further patterns are drawn
where a witness of an earlier one stands. So most texts have rows, and most patterns have a constant to start from.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from starqe.kg import Graph, Statement

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
KNOWN = "SERVICE <urn:starqe:known> "
"""A group that only facts may match: where nothing is predicted, it is a group like any other, and a store is asked without it."""
MOST_PATTERNS = 6
"""A text that has this many triple patterns gets no further groups."""
FAN = 12
"""The most statements of one relation that a pattern may find at the entity where it begins."""
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"


@dataclass(frozen=True)
class Text:
    """A SPARQL text, and what of its rows is determined."""

    sparql: str
    ordered: tuple[str, ...] = ()
    """The variables of ORDER BY."""
    reduced: bool = False


@dataclass
class _Scope:
    """The variables of a group, with the entity of each at which the group holds, and those that stand for something else."""

    witness: dict[str, str] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)
    local: list[str] = field(default_factory=list)
    """The variables that the innermost group has so far: its next pattern shares one of them, since a store would else form all pairs."""

    def held(self) -> dict[str, str]:
        """The variables that the next pattern may share."""
        return {name: self.witness[name] for name in self.local if name in self.witness} or self.witness


class SparqlTexts:
    """Draws texts over a graph, from a seed.

    Args:
        graph: The graph, whose statements patterns are made of.
        seed: Two writers with the same seed draw the same texts.
    """

    def __init__(self, graph: Graph, seed: int) -> None:
        self._random, self._graph = random.Random(seed), graph
        self._statements = list(graph.statements("train"))
        self._at: dict[str, list[Statement]] = {}
        for statement in self._statements:
            self._at.setdefault(statement.head, []).append(statement)
            self._at.setdefault(statement.tail, []).append(statement)
        self._fans = Counter((one.relation, side, entity) for one in self._statements for side, entity in enumerate((one.head, one.tail)))
        self._keys = {relation for statement in self._statements for relation, _ in statement.qualifiers}
        self._count, self._patterns = 0, 0

    def draw(self) -> Text:
        """Draws a text."""
        self._count, self._patterns = 0, 0
        form = self._one(
            (self._select, 40), (self._aggregate, 14), (self._ordered, 12), (self._ask, 8), (self._construct, 6), (self._describe, 2)
        )
        return form()

    # The forms of queries.

    def _select(self) -> Text:
        scope = _Scope()
        group = self._group(scope, depth=2)
        modifier = self._one(("", 6), ("DISTINCT ", 3), ("REDUCED ", 1))
        names = [*scope.witness, *scope.others]
        columns = "*" if self._chance(0.3) else self._listed(self._some(names, 3))
        if columns != "*" and self._chance(0.08):
            columns += f" (STRLEN(STR({names[0]})) AS {self._new()})"
        return Text(f"SELECT {modifier}{columns} WHERE {group}", reduced=modifier == "REDUCED ")

    def _ordered(self) -> Text:
        scope = _Scope()
        group = self._group(scope, depth=1)
        names = self._some([*scope.witness, *scope.others], 3)
        keys = " ".join(self._one((name, 2), (f"DESC({name})", 1)) for name in names)
        limit = self._one(("", 1), (f" LIMIT {self._random.randint(0, 5)}", 2), (f" LIMIT 3 OFFSET {self._random.randint(0, 3)}", 1))
        distinct = self._one(("", 2), ("DISTINCT ", 1))
        return Text(f"SELECT {distinct}{self._listed(names)} WHERE {group} ORDER BY {keys}{limit}", tuple(names))

    def _aggregate(self) -> Text:
        scope = _Scope()
        group = self._group(scope, depth=1)
        names = [*scope.witness, *scope.others]
        key, counted = self._random.choice(names), self._random.choice(names)
        total = self._new()
        function = self._one(
            (f"COUNT({counted})", 3), (f"COUNT(DISTINCT {counted})", 3), ("COUNT(*)", 2), (f"MIN(STR({counted}))", 1),
            (f"MAX(STRLEN(STR({counted})))", 1), (f"SUM(STRLEN(STR({counted})))", 1),
        )  # fmt: skip
        if self._chance(0.3):
            return Text(f"SELECT ({function} AS {total}) WHERE {group}")
        having = f" HAVING ({function} > 1)" if self._chance(0.3) and "MIN" not in function else ""
        return Text(f"SELECT {key} ({function} AS {total}) WHERE {group} GROUP BY {key}{having}")

    def _ask(self) -> Text:
        return Text(f"ASK {self._group(_Scope(), depth=2)}")

    def _construct(self) -> Text:
        scope = _Scope()
        group = self._group(scope, depth=1)
        names = self._some(list(scope.witness), 2)
        subject, value = names[0], names[-1]
        return Text(f"CONSTRUCT {{ {subject} <urn:related> {value} . {value} <urn:back> {subject} }} WHERE {group}")

    def _describe(self) -> Text:
        return Text(f"DESCRIBE {self._entity(self._random.choice(self._statements).head)}")

    # The parts of groups.

    def _group(self, scope: _Scope, depth: int) -> str:
        outer, scope.local = scope.local, []
        parts = [self._pattern(scope) for _ in range(self._one((1, 3), (2, 4), (3, 1)))]
        if depth and self._patterns < MOST_PATTERNS:
            further: list[tuple[Callable[[_Scope, int], str], int]] = [
                (self._filter, 5), (self._optional, 3), (self._union, 4), (self._minus, 2), (self._exists, 3), (self._values, 3),
                (self._bind, 1), (self._subselect, 1), (self._labels, 1), (self._nested, 2), (self._path, 4),
            ]  # fmt: skip
            parts += [self._one(*further)(scope, depth - 1) for _ in range(self._one((0, 3), (1, 5), (2, 3)))]
        scope.local = [*outer, *scope.local]
        return "{ " + " ".join(parts) + " }"

    def _pattern(self, scope: _Scope) -> str:
        """A triple pattern from a statement that shares a witness with the group, as plain triple or with qualifiers."""
        self._patterns += 1
        statement = self._statement(scope)
        head, tail = self._terms(scope, statement)
        relation = self._relation(statement.relation)
        if self._chance(0.15) and not (head.startswith("?") and tail.startswith("?")):
            relation = self._other(scope)
        pairs = list(statement.qualifiers)
        if not pairs or self._chance(0.3):
            return f"{head} {relation} {tail} ."
        written = self._pairs(scope, self._some(pairs, 2))
        match self._random.randrange(10):
            case 0 | 1 | 2 | 3:
                return f"{head} {relation} {tail} {{| {written} |}} ."
            case 4 | 5 | 6:
                return f"<< {head} {relation} {tail} >> {written} . {head} {relation} {tail} ."
            case 7 if self._patterns < 3:  # without the triple itself, which is slow in a store
                return f"<< {head} {relation} {tail} >> {written} ."
            case _:
                reifier = self._new()
                return f"{head} {relation} {tail} . {reifier} <{RDF}reifies> <<( {head} {relation} {tail} )>> . {reifier} {written} ."

    def _pairs(self, scope: _Scope, pairs: Iterable[tuple[str, str]]) -> str:
        written = []
        for key, value in pairs:
            term = self._entity(value)
            if self._chance(0.35):
                term = self._variable(scope, value)
            written.append(f"{self._relation(key)} {term}")
        return " ; ".join(written)

    def _path(self, scope: _Scope, depth: int) -> str:
        """A property path from a witness along real statements."""
        self._patterns += 1
        start, place = self._random.choice(list(scope.held().items()))
        steps: list[str] = []
        for _ in range(self._random.randint(1, 2)):
            found = [one for one in self._at.get(place, []) if one.relation not in self._keys]
            if not found:
                break
            one = self._random.choice(found)
            relation = self._relation(one.relation)
            forward = one.head == place
            steps.append(relation if forward else f"^{relation}")
            place = one.tail if forward else one.head
        if not steps:
            return self._pattern(scope)
        other = self._relation(self._random.choice([one.relation for one in self._statements[:200] if one.relation not in self._keys]))
        path = self._one(
            ("/".join(steps), 4), (f"{steps[0]}|{other}", 3), (f"({steps[0]}|^{other})", 2), (f"{'/'.join(steps)}?", 2),
            (f"({'/'.join(steps)})?", 1), (f"^({'/'.join(steps)})", 1), (f"{steps[0]}+", 1), (f"{steps[0]}*", 1), (f"!({other})", 1),
        )  # fmt: skip
        end = self._entity(place) if self._chance(0.3) else self._variable(scope, place)
        if not start.startswith("?") and not end.startswith("?"):
            end = self._variable(scope, place)
        return f"{start} {path} {end} ."

    def _filter(self, scope: _Scope, depth: int) -> str:
        return f"FILTER ({self._condition(scope, depth)})"

    def _condition(self, scope: _Scope, depth: int) -> str:
        name, other = (self._random.choice(list(scope.witness)) for _ in range(2))
        near = self._near(scope.witness[name])
        listed = ", ".join(map(self._entity, near))
        simple = self._one(
            (f"{name} = {self._entity(near[0])}", 2), (f"{name} != {self._entity(near[0])}", 3), (f"{name} != {other}", 2),
            (f"{name} IN ({listed})", 2), (f"{name} NOT IN ({listed})", 2), (f"STRLEN(STR({name})) > 42", 1),
            (f'CONTAINS(STR({name}), "a")', 1), (f'REGEX(STR({name}), "e.$")', 1), (f"isIRI({name})", 1), (f"BOUND({name})", 1),
            (f"STR({name}) < STR({other})", 1), (f"COALESCE({other}, {name}) = {name}", 1), (f"IF({name} = {other}, true, false)", 1),
        )  # fmt: skip
        if depth < 1 or self._chance(0.6):
            return simple
        sign = self._random.choice(["&&", "||"])
        return self._one((f"{simple} {sign} {self._condition(scope, depth - 1)}", 3), (f"!({simple})", 1))

    def _optional(self, scope: _Scope, depth: int) -> str:
        return f"OPTIONAL {self._group(scope, depth)}"

    def _minus(self, scope: _Scope, depth: int) -> str:
        return f"MINUS {self._group(_Scope(dict(scope.witness), local=list(scope.local)), depth)}"

    def _exists(self, scope: _Scope, depth: int) -> str:
        word = self._one(("FILTER NOT EXISTS", 2), ("FILTER EXISTS", 1))
        return f"{word} {self._group(_Scope(dict(scope.witness), local=list(scope.local)), depth)}"

    def _nested(self, scope: _Scope, depth: int) -> str:
        return f"{self._one(('', 2), (KNOWN, 1))}{self._group(scope, depth)}"

    def _union(self, scope: _Scope, depth: int) -> str:
        groups = [self._group(scope, depth) for _ in range(self._one((2, 4), (3, 1)))]
        return " UNION ".join(groups)

    def _values(self, scope: _Scope, depth: int) -> str:
        names = self._some(list(scope.witness), 2)
        rows = []
        for _ in range(self._random.randint(1, 3)):
            cells = [self._entity(self._random.choice(self._near(scope.witness[name]))) for name in names]
            rows.append(" ".join("UNDEF" if self._chance(0.1) else cell for cell in cells))
        if len(names) == 1 and "UNDEF" not in rows:
            return f"VALUES {names[0]} {{ {' '.join(rows)} }}"
        return f"VALUES ({self._listed(names)}) {{ {' '.join(f'({row})' for row in rows)} }}"

    def _bind(self, scope: _Scope, depth: int) -> str:
        name, new = self._random.choice(list(scope.witness)), self._new()
        scope.others.append(new)
        return self._one((f"BIND (STR({name}) AS {new})", 1), (f"BIND ({name} AS {new})", 1))

    def _subselect(self, scope: _Scope, depth: int) -> str:
        inner = _Scope(dict(scope.witness), local=list(scope.local))
        group = self._group(inner, depth)
        names = self._some(list(inner.witness), 2)
        for name in names:
            scope.witness.setdefault(name, inner.witness[name])
        return f"{{ SELECT DISTINCT {self._listed(names)} {group} }}"

    def _labels(self, scope: _Scope, depth: int) -> str:
        name, label = self._random.choice(list(scope.witness)), self._other(scope)
        language = self._one(("", 1), (f' FILTER (LANG({label}) = "en")', 2), (f' FILTER (LANGMATCHES(LANG({label}), "de"))', 1))
        return f"{name} {LABEL} {label} .{language}"

    # Terms.

    def _statement(self, scope: _Scope) -> Statement:
        """A statement about a witness, with few others of its relation there."""
        near = [
            one
            for entity in scope.held().values()
            for one in self._at.get(entity, [])
            if self._fans[one.relation, int(entity != one.head), entity] <= FAN
        ]
        return self._random.choice(near) if near else self._random.choice(self._statements)

    def _terms(self, scope: _Scope, statement: Statement) -> tuple[str, str]:
        """Head and tail of a pattern: a variable at least, and if it can be, a constant or a variable that the group has already."""
        held = {entity: name for name, entity in scope.held().items()}
        if statement.head in held or statement.tail in held:
            known = self._random.choice([entity for entity in (statement.head, statement.tail) if entity in held])
            scope.local.append(held[known])
            terms = [
                held[entity] if entity == known else self._entity(entity) if self._chance(0.3) else self._variable(scope, entity)
                for entity in (statement.head, statement.tail)
            ]
            return terms[0], terms[1]
        head = self._chance(0.5)
        both = self._chance(0.05)
        return (
            self._variable(scope, statement.head) if head or both else self._entity(statement.head),
            self._variable(scope, statement.tail) if not head or both else self._entity(statement.tail),
        )

    def _variable(self, scope: _Scope, entity: str) -> str:
        for name, witness in scope.witness.items():
            if witness == entity and self._chance(0.7):
                scope.local.append(name)
                return name
        name = self._new()
        scope.witness[name] = entity
        scope.local.append(name)
        return name

    def _new(self) -> str:
        self._count += 1
        return f"?v{self._count}"

    def _other(self, scope: _Scope) -> str:
        name = self._new()
        scope.others.append(name)
        return name

    def _near(self, entity: str) -> list[str]:
        """The entity and some others, in random order; one of them may be unknown to the graph."""
        found = [entity, *(self._random.choice(self._statements).tail for _ in range(2))]
        self._random.shuffle(found)
        return found

    def _entity(self, entity: str) -> str:
        return str(self._graph.names.entities.term(entity))

    def _relation(self, relation: str) -> str:
        return str(self._graph.names.relations.term(relation))

    # Chance.

    def _one(self, *weighted: tuple[object, int]):  # type: ignore[no-untyped-def]
        return self._random.choices([value for value, _ in weighted], [weight for _, weight in weighted])[0]

    def _some(self, items: list, most: int) -> list:  # type: ignore[type-arg]
        return self._random.sample(items, min(len(items), self._random.randint(1, most)))

    def _chance(self, probability: float) -> bool:
        return self._random.random() < probability

    def _listed(self, names: Iterable[str]) -> str:
        return " ".join(names)

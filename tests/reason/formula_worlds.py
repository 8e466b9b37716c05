"""Random formulas, a predictor of random numbers for every gap, and the truth of a formula by trying every assignment."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

import numpy as np
import torch
from hypothesis import strategies as st

from starqe.kg import Known, Statement, graph_of
from starqe.kg.known import Side
from starqe.queries.formula import And, Atom, Formula, Not, Or, Same, Term, Variable
from starqe.queries.gaps import MISSING, Gaps
from starqe.ragged import Ragged
from starqe.reason.executor.pattern import Equal, Questions, Tree
from tests.queries.strategies import random_statements

ENTITIES, RELATIONS, QUALIFIER_RELATIONS = "abcd", "rs", "pq"
ALWAYS = [Statement("a", "r", "b", (("p", "a"),)), Statement("c", "s", "d", (("q", "b"),))]
CONJUNCTION = {"product": lambda a, b: a * b, "goedel": min, "lukasiewicz": lambda a, b: max(a + b - 1, 0)}
DISJUNCTION = {"product": lambda a, b: a + b - a * b, "goedel": max, "lukasiewicz": lambda a, b: min(a + b, 1)}
T, X, Y = map(Variable, "txy")


@dataclass(frozen=True)
class RandomPredictor:
    """A probability for everything that may stand in a gap, drawn by all that the statement says; many are equal, zero or one."""

    seed: int
    steps: int

    def of(self, gaps: Gaps, place: int, entities: int) -> np.ndarray:
        pairs = sum(7 * relation + 3 * value + 5 for relation, value in gaps.pairs[place].tolist())
        said = [gaps.position[place], gaps.head[place], gaps.relation[place], gaps.tail[place], pairs]
        random = np.random.default_rng([self.seed, *(int(number) + 2 for number in said)])
        return (random.integers(0, self.steps + 1, entities) / self.steps).astype(np.float32)

    def probabilities(self, gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
        for place in range(len(gaps)):
            out[place] = torch.from_numpy(self.of(gaps, place, out.shape[1]))
        return out


@dataclass(frozen=True)
class BruteForce:
    """The truth of a question by its definition."""

    known: Known
    predictor: RandomPredictor
    norm: str
    cap: float
    questions: Questions
    sides: Mapping[int, Side]

    def truths(self) -> dict[tuple[int, ...], float]:
        """The truth of every choice of the answer variables."""
        pattern = self.questions.pattern
        constants = {node: int(ids[0]) for node, ids in self.questions.constants.items()}
        choices = itertools.product(*map(self._domain, pattern.answers))
        return {ids: self._best(pattern.tree, constants | dict(zip(pattern.answers, ids, strict=True))) for ids in choices}

    def _domain(self, node: str) -> range:
        graph = self.known.graph
        return range(len(graph.relations if node in self.questions.pattern.relations else graph.entities))

    def _best(self, tree: Tree, values: dict[str, int]) -> float:
        """The best truth over all choices of the variables that are bound here; those of a disjunction's branch are bound inside."""
        pattern, parts = self.questions.pattern, tree.parts if isinstance(tree, And) else (tree,)
        free: set[str] = set()
        for place, part in enumerate(parts):
            mentioned = frozenset().union(*(pattern.mentioned(other) for number, other in enumerate(parts) if number != place))
            free |= pattern.positive(part) & mentioned if isinstance(part, Or) else pattern.positive(part)
        names = sorted(free - values.keys())
        choices = itertools.product(*map(self._domain, names))
        return max(self._truth(tree, values | dict(zip(names, ids, strict=True))) for ids in choices)

    def _truth(self, tree: Tree, values: dict[str, int]) -> float:
        match tree:
            case And():
                return reduce(CONJUNCTION[self.norm], [self._truth(part, values) for part in tree.parts])
            case Or():
                return reduce(DISJUNCTION[self.norm], [self._best(part, values) for part in tree.parts])
            case Not():
                return 1 - self._best(tree.part, values)
            case Equal():
                return float(values[tree.left] == values[tree.right])
        return self._edge(tree, values)

    def _edge(self, number: int, values: dict[str, int]) -> float:
        edge, (relation, given) = self.questions.pattern.edges[number], self.questions.labels[0][number]
        head, tail, pairs = values[edge.head], values[edge.tail], set(given)
        relation = relation if edge.relation is None else values[edge.relation]
        if edge.fact or self._holds(head, relation, tail, pairs):
            truth = float(self._holds(head, relation, tail, pairs))
        elif self.sides[number] == "head":
            truth = self._probability(head, relation, MISSING, pairs, tail)
        else:
            truth = self._probability(MISSING, relation, tail, pairs, head)
        for place, (variable, node) in enumerate(edge.values):
            key = self.questions.pair_relations[0][number][place] if variable is None else values[variable]
            pair = (key, values[node])
            known = self._holds(head, relation, tail, pairs | {pair})
            of_value = float(known) if known or edge.fact else self._probability(head, relation, tail, pairs | {(key, MISSING)}, pair[1])
            truth = CONJUNCTION[self.norm](truth, of_value)
            pairs |= {pair}
        return truth

    def _holds(self, head: int, relation: int, tail: int, pairs: set[tuple[int, int]]) -> bool:
        graph = self.known.graph
        return any(
            (graph.head[row], graph.relation[row], graph.tail[row]) == (head, relation, tail) and pairs <= set(graph.pairs_of(row))
            for row in self.known.rows
        )

    def _probability(self, head: int, relation: int, tail: int, pairs: set[tuple[int, int]], entity: int) -> float:
        flat = np.array(sorted(pairs), np.int32).reshape(-1, 2)
        gaps = Gaps(np.array([head]), np.array([relation]), np.array([tail]), Ragged.of_counts([len(flat)], flat), Ragged.empty(1))
        return min(self.cap, float(self.predictor.of(gaps, 0, len(self.known.graph.entities))[entity]))


statements = random_statements(ENTITIES, RELATIONS, 1)
graphs = st.lists(statements, max_size=5).map(lambda more: graph_of(ALWAYS + more))
predictors = st.builds(RandomPredictor, st.integers(0, 10**6), st.sampled_from([3, 1000]))


@st.composite
def atoms(draw: st.DrawFn, variables: list[Variable], anywhere: bool) -> Atom:
    """Statements over some variables; with ``anywhere`` variables also stand for relations and in qualifiers."""
    ends = st.sampled_from([*variables, *variables, *ENTITIES])
    relation: Term = Variable("p") if anywhere and not draw(st.integers(0, 4)) else draw(st.sampled_from(RELATIONS))
    value = st.sampled_from([*ENTITIES[:2], *([Variable("v"), X] if anywhere else [])])
    key = st.sampled_from([*QUALIFIER_RELATIONS, *([Variable("k")] if anywhere else [])])
    pairs = [(one, draw(value)) for one in draw(st.lists(key, max_size=1 if anywhere else 2))]  # brute force tries every variable
    return Atom(draw(ends), relation, draw(ends), tuple(pairs), fact=not draw(st.integers(0, 5)))


@st.composite
def formulas(draw: st.DrawFn, variables: list[Variable], depth: int, anywhere: bool) -> Formula:
    """Formulas with everything in them, up to a depth."""
    kind = draw(st.sampled_from(["atom", "atom", "and", "or", "not", "same", "optional"])) if depth else "atom"
    match kind:
        case "atom":
            return draw(atoms(variables, anywhere))
        case "same":
            return Same(draw(st.sampled_from(variables)), draw(st.sampled_from([*variables, *ENTITIES])))
        case "not":
            return Not(draw(formulas(variables, depth - 1, anywhere)))
        case "optional":  # it holds, or it does not
            part = draw(st.just(Same(draw(st.sampled_from(variables)), "a")) | formulas(variables, depth - 1, anywhere))
            return Or((part, Not(part)))
    parts = draw(st.lists(formulas(variables, depth - 1, anywhere), min_size=2, max_size=3 if kind == "and" else 2))
    return And(tuple(parts)) if kind == "and" else Or(tuple(parts))


@st.composite
def questions(draw: st.DrawFn) -> Formula:
    """Formulas that speak of ?t; most of them connect it with an entity."""
    variables = [T, X, Y][: draw(st.integers(2, 3))]
    start: Term = draw(st.sampled_from(["a", "a", X]))
    return And((Atom(start, "r", T), *draw(st.lists(formulas(variables, 2, draw(st.booleans())), max_size=2))))


CONSTRUCTS = (
    "and",
    "or",
    "not",
    "equation",
    "variable as relation",
    "variable as qualifier value",
    "variable as qualifier relation",
    "must be a fact",
    "two pairs",
)
"""What occurs in formulas."""


def constructs(formula: Formula) -> Iterator[str]:
    """What a formula is made of, by the names of `CONSTRUCTS`."""
    match formula:
        case And() | Or():
            yield "and" if isinstance(formula, And) else "or"
            for part in formula.parts:
                yield from constructs(part)
        case Not():
            yield "not"
            yield from constructs(formula.part)
        case Same():
            yield "equation"
        case Atom():
            pairs = formula.qualifiers
            found = (
                isinstance(formula.relation, Variable),
                any(isinstance(value, Variable) for _, value in pairs),
                any(isinstance(key, Variable) for key, _ in pairs),
                formula.fact,
                len(pairs) > 1,
            )
            yield from (name for name, occurs in zip(CONSTRUCTS[4:], found, strict=True) if occurs)

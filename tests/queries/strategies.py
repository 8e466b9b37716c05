"""Random small graphs, and random connected conjunctive queries over them."""

from collections.abc import Sequence
from itertools import product

from hypothesis import strategies as st

from starqe.kg import Graph, Statement, graph_of
from starqe.queries.formula import Atom, Term, Variable
from starqe.queries.query import Query

ENTITIES, RELATIONS, QUALIFIER_RELATIONS = "abcde", "rs", "pq"
VARIABLES = [Variable(name) for name in ("t", "x", "y")]


def random_statements(
    entities: Sequence[str], relations: Sequence[str], most_pairs: int, qualifier_relations: Sequence[str] = "pq"
) -> st.SearchStrategy[Statement]:
    """Statements over some names; the values of qualifiers are among the first two entities."""
    some, pair = st.sampled_from(entities), st.tuples(st.sampled_from(qualifier_relations), st.sampled_from(entities[:2]))
    return st.builds(Statement, some, st.sampled_from(relations), some, st.lists(pair, max_size=most_pairs).map(tuple))


statements = random_statements(ENTITIES, RELATIONS, 3)


def graphs() -> st.SearchStrategy[Graph]:
    """Graphs of a few statements over five entities and two relations; every split has some."""
    some = st.lists(statements, min_size=1, max_size=4)
    return st.builds(graph_of, st.lists(statements, min_size=3, max_size=10), some, some)


@st.composite
def queries(draw: st.DrawFn, graph: Graph) -> Query:
    """Connected conjunctive queries with the target ``?t``: cycles, inverse relations and several pairs on an edge included.

    Every variable has a witness, and most atoms are true of the witnesses, so that many queries have answers.
    """
    known = list(graph.statements("train", "valid", "test"))
    pairs = sorted({pair for statement in known for pair in statement.qualifiers})
    target = VARIABLES[0]
    witness = {target: draw(st.sampled_from([statement.tail for statement in known]))}
    atoms: list[Atom] = []

    def add(constant: bool) -> None:
        node = target if constant else draw(st.sampled_from(list(witness)))
        near = [statement for statement in known if witness[node] in (statement.head, statement.tail)]
        statement = draw(st.sampled_from(near if near and draw(st.integers(0, 3)) else known))
        leaves = statement.head == witness[node]
        end = statement.tail if leaves else statement.head
        fitting = [variable for variable in VARIABLES if witness.get(variable, end) == end]
        other: Term = end if constant else draw(st.sampled_from([end, *fitting]))
        if isinstance(other, Variable):
            witness[other] = end
        choice = statement.qualifiers if draw(st.integers(0, 3)) else pairs
        some = st.lists(st.sampled_from(choice), max_size=2) if choice else st.just([])
        head, tail = (node, other) if leaves else (other, node)
        atom = Atom(head, statement.relation, tail, tuple(draw(some)))
        atoms.append(atom.turned if draw(st.booleans()) else atom)

    for _ in range(draw(st.integers(0, 4))):
        add(constant=False)
    add(constant=True)
    return Query.conjunction(atoms, "t")


def brute_force(graph: Graph, splits: tuple[str, ...], query: Query) -> set[tuple[str, ...]]:
    """All assignments of ``query.variables``, found by trying every entity for every variable."""
    known = list(graph.statements(*splits))

    def holds(atom: Atom, chosen: dict[Term, str]) -> bool:
        head, tail = (chosen.get(term, term) for term in (atom.head, atom.tail))
        if atom.inverted:
            head, tail = tail, head
        asked = Statement(head, atom.relation, tail, atom.qualifiers)
        return any(statement.entails(asked) for statement in known)

    found = set()
    for values in product(graph.entities, repeat=len(query.variables)):
        chosen = dict(zip(query.variables, values, strict=True))
        if all(holds(atom, chosen) for atom in query.all_atoms):
            found.add(values)
    return found

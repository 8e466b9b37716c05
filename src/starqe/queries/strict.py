"""The paper's strict definition of a query, and how inverse relations make a query strict.

A query is strict if its graph (1) has no directed cycle, (2) has a topological order with all entities before all
variables, and (3) has its target last in every such order: the target is the only node that no edge leaves.
"""

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter

from starqe.errors import QueryError
from starqe.queries.formula import And, Atom, Term, Variable, term_key
from starqe.queries.query import Query


def strictness_problem(query: Query) -> str | None:
    """Returns which of the three rules a query breaks as it is written, or None if it is strict.

    Raises:
        UnsupportedError: The query is not conjunctive over head and tail variables, or has several answer variables.
    """
    atoms, target = query.conjuncts("the paper's definition"), query.target
    order: TopologicalSorter[Term] = TopologicalSorter()
    for atom in atoms:
        order.add(atom.tail, atom.head)
    try:
        order.prepare()
    except CycleError as error:
        return "its edges form a directed cycle through " + ", ".join(map(str, error.args[1][:-1]))
    for atom in atoms:
        if isinstance(atom.head, Variable) and not isinstance(atom.tail, Variable):
            return f"the entity '{atom.tail}' comes after the variable {atom.head}"
    leaves = {atom.head for atom in atoms}
    ends = sorted({atom.tail for atom in atoms} - leaves, key=term_key)
    if ends != [target]:
        return f"the target {target} is not the only node that no edge leaves: {', '.join(map(str, ends))}"
    return None


def strict_form(query: Query) -> Query:
    """Returns a strict query with the same answers, with some atoms inverted; the query itself if it is strict already.

    Raises:
        QueryError: No choice of directions makes the query strict.
        UnsupportedError: The query is not conjunctive over head and tail variables, or has several answer variables.
    """
    if strictness_problem(query) is None:
        return query
    atoms, target = query.conjuncts("the paper's definition"), query.target
    for atom in atoms:
        if atom.head == atom.tail:
            raise QueryError(f"a strict query has no cycle, and no inverse relation removes the edge from {atom.head} to itself")
    far = _distances([atom for atom in atoms if isinstance(atom.head, Variable) and isinstance(atom.tail, Variable)], target)
    far |= {term: steps for term, steps in _distances(atoms, target).items() if not isinstance(term, Variable)}
    for atom in atoms:
        for term in (atom.head, atom.tail):
            if term not in far:
                raise QueryError(f"in a strict query every variable leads to the target, and {term} hangs on entities only")

    def place(term: Term) -> tuple[bool, int, tuple[int, str]]:
        return isinstance(term, Variable), -far[term], term_key(term)

    # Every atom leads towards the target and away from the entities.
    return Query(And(tuple(atom if place(atom.head) < place(atom.tail) else atom.turned for atom in atoms)), query.answers)


def _distances(atoms: Sequence[Atom], start: Term) -> dict[Term, int]:
    """The number of atoms, walked in either direction, from a term to each that can be reached."""
    found, steps, frontier = {start: 0}, 0, {start}
    while frontier:
        steps += 1
        reached = {atom.tail for atom in atoms if atom.head in frontier} | {atom.head for atom in atoms if atom.tail in frontier}
        frontier = reached - found.keys()
        found |= dict.fromkeys(frontier, steps)
    return found

"""Queries with other names for their variables, and equality whatever the names."""

from collections.abc import Mapping
from itertools import permutations

from starqe.queries.formula import Variable, substitute
from starqe.queries.query import Query


def renamed(query: Query, names: Mapping[str, str]) -> Query:
    new = {variable: Variable(names.get(variable.name, variable.name)) for variable in query.variables}
    assert len(set(new.values())) == len(new), "different variables keep different names"
    formula = substitute(query.formula, lambda term: new[term] if isinstance(term, Variable) else term)
    return Query(formula, tuple(new[variable] for variable in query.answers))


def equal_but_for_names(one: Query, other: Query) -> bool:
    """Tries every way to name the variables of one as those of the other."""
    theirs = [variable.name for variable in other.variables]
    own = [variable.name for variable in one.variables]
    return len(own) == len(theirs) and any(renamed(one, dict(zip(own, names, strict=True))) == other for names in permutations(theirs))

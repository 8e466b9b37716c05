"""A query as JSON: versioned, and refused with a reason where it is not understood.

    {"format": "starqe query", "version": 1, "answers": ["x"],
     "formula": {"and": [{"head": "Einstein", "relation": "educatedAt", "tail": {"variable": "x"},
                          "qualifiers": [["degree", "BSc"]]}]}}

A formula is an atom (``head``, ``relation``, ``tail``, and maybe ``qualifiers``, ``inverted`` and ``fact``), ``{"and": […]}``,
``{"or": […]}``, ``{"not": …}``, or ``{"same": [one, other]}``, which holds where two entities are the same. A
constant is its identifier, a variable ``{"variable": name}``.
"""

import json
from collections.abc import Iterable
from typing import Any

from starqe.errors import QueryError
from starqe.queries.formula import And, Atom, Formula, Not, Or, Same, Term, Variable
from starqe.queries.query import Query

FORMAT, VERSION = "starqe query", 1
_COMPOSED: dict[str, type[And[Any]] | type[Or[Any]]] = {"and": And, "or": Or}
_DEPTH = 100


def query_to_json(query: Query) -> str:
    """Writes a query as JSON text that `query_from_json` reads back to an equal query."""
    answers = [variable.name for variable in query.answers]
    return json.dumps({"format": FORMAT, "version": VERSION, "answers": answers, "formula": _plain(query.formula)}, ensure_ascii=False)


def _plain(formula: Formula) -> dict[str, Any]:
    match formula:
        case Not():
            return {"not": _plain(formula.part)}
        case And() | Or():
            return {"and" if isinstance(formula, And) else "or": [_plain(part) for part in formula.parts]}
        case Same():
            return {"same": [_plain_term(term) for term in formula.terms]}
    values: dict[str, Any] = {
        "head": _plain_term(formula.head),
        "relation": _plain_term(formula.relation),
        "tail": _plain_term(formula.tail),
    }
    if formula.qualifiers:
        values["qualifiers"] = [[_plain_term(relation), _plain_term(value)] for relation, value in formula.qualifiers]
    return values | ({"inverted": True} if formula.inverted else {}) | ({"fact": True} if formula.fact else {})


def _plain_term(term: Term) -> str | dict[str, str]:
    return {"variable": term.name} if isinstance(term, Variable) else term


def query_from_json(content: str | bytes) -> Query:
    """Reads a query from JSON text.

    Raises:
        QueryError: It is not JSON, not a query, of a newer version, or a query that breaks a rule.
    """
    try:
        values = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise QueryError(f"a query file is JSON, and this is not: {error}") from None
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise QueryError(f'a query is a JSON object with "format": "{FORMAT}", found {_short(values)}')
    if not isinstance(values.get("version"), int) or not 1 <= values["version"] <= VERSION:
        raise QueryError(
            f"this starqe reads query format {VERSION}, found {_short(values.get('version'))}. Was it written by a newer starqe?"
        )
    _only(values, {"format", "version", "answers", "formula"}, needed={"answers", "formula"})
    answers = values["answers"]
    if not isinstance(answers, list):
        raise QueryError(f'"answers" is a list of names of variables, found {_short(answers)}')
    return Query(_formula(values["formula"], 0), tuple(map(Variable, answers)))


def _formula(values: Any, depth: int) -> Formula:
    if not isinstance(values, dict):
        raise QueryError(f"a formula is a JSON object, found {_short(values)}")
    if depth > _DEPTH:
        raise QueryError(f"a formula is nested at most {_DEPTH} deep, found more")
    for key, kind in _COMPOSED.items():
        if key in values:
            _only(values, {key})
            if not isinstance(values[key], list):
                raise QueryError(f'"{key}" has a list of formulas, found {_short(values[key])}')
            return kind(tuple(_formula(part, depth + 1) for part in values[key]))
    if "not" in values:
        _only(values, {"not"})
        return Not(_formula(values["not"], depth + 1))
    if "same" in values:
        _only(values, {"same"})
        if not isinstance(values["same"], list) or len(values["same"]) != 2:
            raise QueryError(f'"same" has a list of two terms, found {_short(values["same"])}')
        left, right = map(_term, values["same"])
        return Same(left, right)
    _only(values, {"head", "relation", "tail", "qualifiers", "inverted", "fact"}, needed={"head", "relation", "tail"})
    pairs, inverted = values.get("qualifiers", []), values.get("inverted", False)
    if not isinstance(pairs, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
        raise QueryError(f'"qualifiers" is a list of [relation, value] pairs, found {_short(pairs)}')
    fact = values.get("fact", False)
    for key, flag in (("inverted", inverted), ("fact", fact)):
        if not isinstance(flag, bool):
            raise QueryError(f'"{key}" is true or false, found {_short(flag)}')
    head, relation, tail = (_term(values[key]) for key in ("head", "relation", "tail"))
    return Atom(head, relation, tail, tuple((_term(key), _term(value)) for key, value in pairs), inverted, fact)


def _term(value: Any) -> Term:
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and value.keys() == {"variable"}:
        return Variable(value["variable"])
    raise QueryError(f'a position of an atom is an identifier or {{"variable": name}}, found {_short(value)}')


def _only(values: dict[str, Any], known: set[str], needed: Iterable[str] = ()) -> None:
    for key in values:
        if key not in known:
            raise QueryError(f"unknown key {key!r} in a query. Known here: {', '.join(sorted(known))}")
    if missing := set(needed) - values.keys():
        raise QueryError(f"a query has the key {min(missing)!r}, found {_short(values)}")


def _short(value: Any) -> str:
    shown = json.dumps(value, ensure_ascii=False)
    return shown if len(shown) <= 80 else f"{shown[:77]}..."

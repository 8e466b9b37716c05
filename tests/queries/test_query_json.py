import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import QueryError
from starqe.queries.formula import And, Atom, Not, Or, Variable
from starqe.queries.query import Query
from starqe.queries.query_json import query_from_json, query_to_json
from tests.queries.strategies import graphs, queries

X = Variable("x")
EXAMPLE = {
    "format": "starqe query",
    "version": 1,
    "answers": ["x"],
    "formula": {"head": "Einstein", "relation": "educatedAt", "tail": {"variable": "x"}, "qualifiers": [["degree", "BSc"]]},
}


def test_json_is_what_the_documentation_says():
    query = Query.conjunction([Atom("Einstein", "educatedAt", X, (("degree", "BSc"),))], "x")
    assert json.loads(query_to_json(query)) == EXAMPLE
    assert query_from_json(json.dumps(EXAMPLE)) == query


def test_every_kind_of_formula_comes_back():
    one, other = Atom("a", X, Variable("y"), ((Variable("q"), Variable("v")), ("p", "w"))), Atom("ü?", "r", X, inverted=True)
    query = Query(And((one, Or((other, Not(one))))), (X, Variable("y")))
    assert query_from_json(query_to_json(query)) == query


@given(st.data())
def test_reading_undoes_writing(data):
    query = data.draw(queries(data.draw(graphs())))
    assert query_from_json(query_to_json(query)) == query


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, 'a JSON object with "format": "starqe query"'),
        ({"version": 2}, "reads query format 1, found 2. Was it written by a newer starqe"),
        ({"version": "1"}, "reads query format 1"),
        ({"answers": "x"}, '"answers" is a list'),
        ({"answers": [1]}, "a variable's name"),
        ({"answers": ["x", "x"]}, "the answer variables of a query are different ones"),
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"formula": []}, r"a formula is a JSON object, found \[\]"),
        ({"formula": {"and": {}}}, '"and" has a list'),
        ({"formula": {"and": [], "or": []}}, "unknown key 'or'"),
        ({"formula": {"head": "a", "relation": "r"}}, "a query has the key 'tail'"),
        ({"formula": {**EXAMPLE["formula"], "qualifiers": [["q"]]}}, r"list of \[relation, value\] pairs"),
        ({"formula": {**EXAMPLE["formula"], "inverted": 1}}, '"inverted" is true or false'),
        ({"formula": {**EXAMPLE["formula"], "tail": {"name": "x"}}}, 'an identifier or {"variable": name}, found {"name": "x"}'),
    ],
)
def test_what_is_not_understood_is_refused_with_a_reason(change, message):
    with pytest.raises(QueryError, match=message):
        query_from_json(json.dumps(EXAMPLE | change))


@pytest.mark.parametrize("content", ["{", b"\xff", "[1]", '"x"', "[" * 100_000])
def test_what_is_not_a_query_at_all_is_refused(content):
    with pytest.raises(QueryError):
        query_from_json(content)


def test_a_formula_nested_without_end_is_refused():
    formula = EXAMPLE["formula"]
    for _ in range(150):
        formula = {"not": formula}
    with pytest.raises(QueryError, match="nested at most 100 deep"):
        query_from_json(json.dumps(EXAMPLE | {"formula": formula}))

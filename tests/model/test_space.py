import pytest

from starqe.errors import InputError
from starqe.model import Space


def test_input_rows_are_entities_then_symbols():
    space = Space(entities=10, relations=4)
    assert [space.symbol(kind) for kind in ("variable", "target", "blank")] == [10, 11, 12]
    assert (space.nodes, space.input_rows, space.directed, space.relation_rows) == (10, 13, 4, 8)


def test_a_reified_space_has_relation_nodes_and_three_more_relations():
    space = Space(entities=10, relations=4, reified=True)
    assert space.symbol("variable") == 14
    assert (space.nodes, space.input_rows, space.directed, space.relation_rows) == (14, 17, 7, 14)


def test_an_empty_vocabulary_is_refused():
    with pytest.raises(InputError, match="at least one entity and one relation, found 0 and 2"):
        Space(entities=0, relations=2)

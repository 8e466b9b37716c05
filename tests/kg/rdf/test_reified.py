import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from starqe.kg.rdf.reified import Numbered, standard_reification, statements_of, unique_rows

A, P, B, C, Q, V, W, R1, R2 = range(9)
TRAIN, VALID, TEST = range(3)


def table(rows: list[tuple[int, ...]], width: int) -> np.ndarray:
    return np.array(rows, np.int32).reshape(-1, width)


def found(asserted=(), pairs=(), reified=()) -> tuple[list[tuple], int]:
    """Returns the statements as (split, triple, pairs) in order, and the count of those that nothing asserts."""
    result: Numbered = statements_of(table(list(asserted), 4), table(list(pairs), 4), table(list(reified), 6))
    rows = zip(result.split.tolist(), result.triples.tolist(), result.first.tolist(), result.count.tolist(), strict=True)
    statements = [
        (split, tuple(triple), sorted(map(tuple, result.pairs[first : first + count].tolist()))) for split, triple, first, count in rows
    ]
    return sorted(statements), result.unasserted


def test_a_triple_gives_a_statement_or_one_for_each_reifier():
    statements, unasserted = found(
        asserted=[(A, P, B, TRAIN), (A, P, B, TRAIN), (A, P, C, TRAIN)],
        pairs=[(R1, Q, V, TRAIN), (R1, Q, W, TRAIN)],
        reified=[(R1, A, P, B, TRAIN, 0), (R2, A, P, B, TRAIN, 0)],
    )
    assert statements == [(TRAIN, (A, P, B), []), (TRAIN, (A, P, B), [(Q, V), (Q, W)]), (TRAIN, (A, P, C), [])]
    assert unasserted == 0


def test_a_reifier_of_two_triples_gives_its_pairs_to_both():
    statements, _ = found(
        asserted=[(A, P, B, TEST), (A, P, C, TEST)],
        pairs=[(R1, Q, V, TEST)],
        reified=[(R1, A, P, B, TEST, 0), (R1, A, P, C, TEST, 0)],
    )
    assert statements == [(TEST, (A, P, B), [(Q, V)]), (TEST, (A, P, C), [(Q, V)])]


def test_a_split_is_complete_in_itself_before_others_are_asked():
    statements, _ = found(
        asserted=[(A, P, B, TRAIN), (A, P, B, VALID), (A, P, C, VALID)],
        pairs=[(R1, Q, V, TRAIN), (R2, Q, W, TEST)],
        reified=[(R1, A, P, B, TRAIN, 0), (R2, A, P, C, TRAIN, 0)],
    )
    assert statements == [(TRAIN, (A, P, B), [(Q, V)]), (VALID, (A, P, B), []), (VALID, (A, P, C), [(Q, W)])]


def test_what_nothing_asserts_is_counted_unless_it_holds_by_itself():
    reified = [(R1, A, P, B, VALID, 0), (R2, A, P, C, VALID, 1)]
    assert found(reified=reified) == ([(VALID, (A, P, C), [])], 1)
    assert found() == ([], 0)


def test_standard_reification_is_taken_out_of_the_triples():
    subject, predicate, value, type_, statement = range(10, 15)
    complete = [(R1, subject, A, TRAIN), (R1, predicate, P, TRAIN), (R1, value, B, TRAIN), (R1, type_, statement, TRAIN)]
    pair = (R1, Q, V, TRAIN)
    partial = (R2, subject, A, TRAIN)
    several = [(C, subject, A, TRAIN), (C, subject, B, TRAIN), (C, predicate, P, TRAIN), (C, value, B, TRAIN), (C, Q, V, TRAIN)]
    result = standard_reification(table([*complete, pair, partial, *several], 4), (subject, predicate, value), type_, statement)
    assert result.rest.tolist() == [list(pair), list(partial)]
    assert result.reified.tolist() == [[R1, A, P, B, TRAIN]]
    assert result.incomplete.tolist() == [R2]
    assert result.ambiguous.tolist() == [C]


numbers = st.integers(0, 3) | st.integers(0, 2**31 - 1)


@given(st.lists(st.tuples(numbers, numbers, numbers, numbers), max_size=20))
def test_different_rows_are_those_of_numpy(rows):
    given_rows = table(rows, 4)
    expected, places = np.unique(given_rows, axis=0, return_inverse=True)
    found, found_places = unique_rows(given_rows)
    assert found.tolist() == expected.tolist()
    assert found_places.tolist() == places.reshape(-1).tolist()

import duckdb
import pytest

from starqe.queries.generate.keys import key_names, pack, unpack
from starqe.queries.generate.sql import solutions_sql
from starqe.queries.shape import SHAPES, Shape


@pytest.mark.parametrize("radix", [[3], [7, 1, 5], [2**31 - 1, 2**31 - 1], [2**31 - 1] * 9])
def test_a_key_gives_back_the_numbers_it_was_packed_from(radix):
    with duckdb.connect() as database:
        for numbers in ([0] * len(radix), [size - 1 for size in radix], [size // 2 for size in radix]):
            key = pack([str(number) for number in numbers], radix)
            found = database.sql(f"SELECT {', '.join(unpack(radix))} FROM (SELECT {key})").fetchall()[0]
            assert list(found) == numbers


def test_the_first_edge_is_lowest_in_a_key():
    with duckdb.connect() as database:
        assert database.sql(f"SELECT {pack(['2', '3'], [10, 10])}").fetchall() == [(32,)]


def test_a_key_has_as_many_integers_as_it_needs():
    assert key_names([10, 10]) == ["key_0"]
    assert key_names([2**20] * 9) == ["key_0", "key_1", "key_2"]
    assert pack("abcd", [2**20] * 4) == (
        "a::BIGINT * 1::BIGINT + b::BIGINT * 1048576::BIGINT + c::BIGINT * 1099511627776::BIGINT AS key_0, d::BIGINT * 1::BIGINT AS key_1"
    )


def solved(shape: Shape, rows: list[tuple[int, ...]], split: str) -> list[tuple[int, ...]]:
    """Runs the SQL of a shape over edge rows (s, p, o, k_head, mask); a key is a number with a decimal digit an edge."""
    with duckdb.connect() as database:
        database.execute("CREATE TABLE edge (s INT, p INT, o INT, k_head INT, k_none INT, mask INT, size INT, s_hub BOOL, o_hub BOOL)")
        for s, p, o, k, mask in rows:
            database.execute(f"INSERT INTO edge VALUES ({s}, {p}, {o}, {k}, {k}, {mask}, 1, false, {o == 99})")
        edges = len(shape.edges)
        return sorted(database.sql(solutions_sql(shape, [(1, 1)] * edges, ["edge"] * edges, [10] * edges, split)).fetchall())


TRAIN, VALID, BOTH, TEST = 1, 2, 3, 4


def test_solutions_count_a_combination_once_for_each_of_its_new_edges():
    rows = [(0, 0, 5, 1, BOTH), (5, 0, 6, 2, VALID), (0, 0, 7, 1, TRAIN), (7, 0, 6, 2, VALID), (7, 0, 8, 2, TRAIN)]
    # To 6: by 5 with both edges new, by 7 with one. To 8: no edge is new.
    assert solved(SHAPES["2p"], rows, "valid") == [(21, 6, 3)]
    # In train a way counts once.
    assert solved(SHAPES["2p"], rows, "train") == [(21, 8, 1)]
    assert solved(SHAPES["2p"], rows, "test") == []


def test_of_two_equal_queries_the_one_with_the_smaller_numbers_first_is_kept():
    rows = [(0, 0, 5, 3, TRAIN), (1, 0, 5, 4, TRAIN)]
    assert solved(SHAPES["2i"], rows, "train") == [(43, 5, 1)]


def test_edges_that_would_collapse_and_hubs_are_left_out():
    assert solved(SHAPES["2i"], [(0, 0, 5, 3, TRAIN), (0, 0, 5, 4, TRAIN)], "train") == []
    assert solved(SHAPES["2i"], [(0, 0, 5, 3, TRAIN), (0, 1, 5, 4, TRAIN)], "train") == [(43, 5, 1)]
    assert solved(SHAPES["2i"], [(0, 0, 99, 3, TRAIN), (1, 0, 99, 4, TRAIN)], "train") == []


def test_a_later_split_is_never_seen():
    rows = [(0, 0, 5, 1, VALID), (5, 0, 6, 2, TEST)]
    assert solved(SHAPES["2p"], rows, "valid") == []
    assert solved(SHAPES["2p"], rows, "test") == [(21, 6, 1)]

import pytest

from starqe.errors import MismatchError, StorageError
from starqe.kg import Statement, graph_of
from starqe.queries import SHAPES, QuerySettings, generate
from starqe.queries.query_set import table_path
from starqe.queries.stats import query_set_stats

PAIR = (("q", "v"),)
# Heads a, b, c, d with 1, 2, 3 and 8 tails: these are the numbers of answers of the 1p queries.
GRAPH = graph_of(
    train=[Statement(head, "r", f"{head}{i}", PAIR) for head, count in zip("abcd", (1, 2, 3, 8), strict=True) for i in range(count)]
)
OTHER = graph_of(train=[Statement("a", "r", "x", PAIR)])


@pytest.fixture
def folder(tmp_path):
    generate(GRAPH, tmp_path, [SHAPES["1p"], SHAPES["2p"]], QuerySettings(hub_threshold=14), threads=1)
    return tmp_path


def test_a_set_is_counted_and_its_answers_described(folder):
    found = query_set_stats(folder)
    assert found["counts"] == {"train": {"1p": 4, "2p": 0}, "valid": {"1p": 0, "2p": 0}, "test": {"1p": 0, "2p": 0}}
    described = {"min": 1, "lower_quartile": 1.75, "median": 2.5, "upper_quartile": 4.25, "max": 8, "mean": 3.5}
    assert found["answers"] == {"train": {"1p": described}, "valid": {}, "test": {}}
    assert found["settings"]["hub_threshold"] == 14
    assert found["fingerprint"] == GRAPH.fingerprint
    assert found["hubs"] is None


def test_with_its_graph_the_hubs_are_counted_by_the_threshold_of_the_set(folder):
    hubs = query_set_stats(folder, GRAPH)["hubs"]
    assert (hubs["threshold"], hubs["hubs"], hubs["largest_in_degree"]) == (14, 1, 14)  # v, the value of 14 annotations


def test_another_graph_is_refused(folder):
    with pytest.raises(MismatchError, match="queries of another graph"):
        query_set_stats(folder, OTHER)


def test_a_damaged_table_is_named(folder):
    table_path(folder, "train", "1p").write_bytes(b"PAR1")
    with pytest.raises(StorageError, match=r"1p\.parquet: cannot read"):
        query_set_stats(folder)

import pytest

from starqe.errors import InputError, MismatchError, StorageError
from starqe.kg import Statement, graph_of, save_graph
from starqe.queries import SHAPES, QuerySettings, Shape, generate
from starqe.queries.query_set import HEADER, load_queries, read_query_set, table_path, tables_of

PAIR = (("q", "v"),)
GRAPH = graph_of(
    train=[Statement("a", "r", "x", PAIR), Statement("b", "r", "x", PAIR), Statement("x", "s", "y", PAIR)], valid=[Statement("a", "r", "y")]
)
OTHER = graph_of(train=[Statement("a", "r", "x", PAIR)])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("queries")
    generate(GRAPH, folder, [Shape.parse("0own", "A>? ?>B"), SHAPES["2i"], SHAPES["1p"]], splits=["train", "valid"], threads=1)
    return folder


def test_a_set_says_which_tables_it_has_with_the_shapes_of_the_paper_first(folder):
    assert tables_of(folder) == {"train": {"1p": 3, "2i": 1, "0own": 2}, "valid": {"1p": 0, "2i": 0, "0own": 0}}
    assert list(tables_of(folder)["train"]) == ["1p", "2i", "0own"]


def test_half_written_files_are_not_tables(folder):
    beside = table_path(folder, "train", ".3i.parquet.7.part.parquet")
    beside.write_bytes(b"")
    assert set(tables_of(folder)["train"]) == {"1p", "2i", "0own"}
    beside.unlink()


def test_queries_are_read_for_a_split_whole_or_in_part(folder):
    assert {shape: len(table) for shape, table in load_queries(folder, "train").items()} == {"1p": 3, "2i": 1, "0own": 2}
    assert {shape: len(table) for shape, table in load_queries(folder, "train", ["0own", "1p"], limit=1).items()} == {"0own": 1, "1p": 1}
    assert load_queries(folder, "train", ["1p"], graph=GRAPH)["1p"].header["fingerprint"] == GRAPH.fingerprint


def test_a_shape_or_split_that_a_set_lacks_is_named_with_what_it_has(folder):
    with pytest.raises(InputError, match="train queries of the shapes 1p, 2i, 0own, and not of 3p, 4p"):
        load_queries(folder, "train", ["1p", "3p", "4p"])
    with pytest.raises(InputError, match="has queries for train, valid, and not for 'test'"):
        load_queries(folder, "test")


def test_queries_of_another_graph_are_refused(folder):
    with pytest.raises(MismatchError, match=f"{GRAPH.fingerprint[:12]}, this graph {OTHER.fingerprint[:12]}"):
        load_queries(folder, "train", graph=OTHER)


def test_a_folder_of_something_else_is_refused(tmp_path):
    save_graph(GRAPH, tmp_path / "graph")
    for function in (tables_of, read_query_set, lambda folder: load_queries(folder, "train")):
        with pytest.raises(StorageError, match="not a query set folder"):
            function(tmp_path / "graph")
        with pytest.raises(StorageError, match="not a query set folder"):
            function(tmp_path / "none")


def test_a_header_without_settings_is_refused(tmp_path):
    (tmp_path / HEADER).write_text('{"format": "starqe query set", "version": 1}')
    with pytest.raises(StorageError, match="has a fingerprint and settings"):
        read_query_set(tmp_path)


def test_the_header_says_how_the_set_was_made(folder):
    header = read_query_set(folder)
    assert header["fingerprint"] == GRAPH.fingerprint
    assert QuerySettings.parse(header["settings"]) == QuerySettings()

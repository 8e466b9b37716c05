import pytest

from starqe.errors import StorageError
from starqe.kg.draft import graph_of
from starqe.kg.formats.hypergraph import write_hypergraph
from starqe.kg.statement import Statement


def test_a_hyperedge_is_a_split_a_type_and_the_entities_without_roles(tmp_path):
    graph = graph_of(
        train=[Statement("Z", "p", "a", (("q", "m"), ("q", "n"), ("o", "Z"))), Statement("a", "p", "a")],
        test=[Statement("a", "p|q%", "Z")],
    )
    (path,) = write_hypergraph(graph, tmp_path / "edges.tsv")
    assert path.read_text().splitlines() == ["train\tp|o|q\tZ\ta\tm\tn", "train\tp\ta", "test\tp%7Cq%25\tZ\ta"]


def test_who_is_head_and_who_is_tail_does_not_show(tmp_path):
    (one,) = write_hypergraph(graph_of(train=[Statement("a", "p", "b", (("q", "c"),))]), tmp_path / "1")
    (two,) = write_hypergraph(graph_of(train=[Statement("c", "p", "a", (("q", "b"),))]), tmp_path / "2")
    assert one.read_bytes() == two.read_bytes()


def test_an_existing_file_is_replaced_only_on_demand(tmp_path):
    place = tmp_path / "edges.tsv"
    write_hypergraph(graph_of(train=[Statement("a", "p", "b")]), place)
    with pytest.raises(StorageError, match="exists already"):
        write_hypergraph(graph_of(train=[Statement("a", "p", "c")]), place)
    write_hypergraph(graph_of(train=[Statement("a", "p", "c")]), place, overwrite=True)
    assert place.read_text() == "train\tp\ta\tc\n"


def test_a_place_that_cannot_be_written_is_a_storage_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot write"):
        write_hypergraph(graph_of(train=[Statement("a", "p", "b")]), tmp_path / "file" / "edges.tsv")

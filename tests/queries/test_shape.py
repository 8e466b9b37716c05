import pytest

from starqe.errors import QueryError
from starqe.queries.shape import SHAPES, Shape, node_kind, read_shapes


@pytest.mark.parametrize(
    ("name", "anchors", "joins", "diameter"),
    [
        ("1p", "A", "", 1),
        ("2p", "A", "", 2),
        ("3p", "A", "", 3),
        ("2i", "AB", "?", 2),
        ("3i", "ABC", "?", 2),
        ("2i-1p", "AB", "x", 2),
        ("1p-2i", "AB", "?", 3),
    ],
)
def test_the_seven_shapes_have_the_anchors_joins_and_diameter_of_the_paper(name, anchors, joins, diameter):
    shape = SHAPES[name]
    assert (shape.anchors, shape.joins, shape.diameter) == (tuple(anchors), tuple(joins), diameter)


def test_the_way_a_node_is_written_says_what_it_is():
    assert [node_kind(node) for node in ("A", "Bob", "x", "y2", "?", "_0")] == [
        "anchor", "anchor", "variable", "variable", "target", "blank",
    ]  # fmt: skip


def test_a_shape_reads_back_from_its_text():
    for shape in SHAPES.values():
        assert Shape.parse(shape.name, shape.text) == shape


def test_edges_collapse_where_they_meet_on_one_side_of_the_arrow():
    assert SHAPES["1p-2i"].collapses == ((1, 2),)
    assert SHAPES["2p"].collapses == ()
    assert Shape.parse("fork", "A>x x>? x>y").collapses == ((1, 2),)


@pytest.mark.parametrize(
    ("name", "edges", "message"),
    [
        ("a/b", "A>?", "becomes a file name"),
        ("..", "A>?", "becomes a file name"),
        ("bad", "A>? B", "written node>node, .*found 'B'"),
        ("bad", "A>?>x", "a node is '\\?', or letters and digits"),
        ("bad", "A>x", "has a target"),
        ("bad", "x>?", "has an anchor"),
        ("bad", "A>? x>x", "two different nodes"),
        ("bad", "A>? B>x", "connected with the target"),
        ("bad", "", "has a target"),
    ],
)
def test_what_is_not_a_shape_is_refused(name, edges, message):
    with pytest.raises(QueryError, match=message):
        Shape.parse(name, edges)


def test_shapes_of_a_user_are_lines_of_a_toml_table(tmp_path):
    path = tmp_path / "shapes.toml"
    path.write_text('[shapes]\n"4i" = "A>? B>? C>? D>?"\ntriangle = "A>x A>? x>?"\n')
    assert read_shapes(path) == {"4i": Shape.parse("4i", "A>? B>? C>? D>?"), "triangle": Shape.parse("triangle", "A>x A>? x>?")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[shapes", "not a TOML file"),
        ("a = 1", r"table \[shapes\]"),
        ("[shapes]\na = 3", r"table \[shapes\]"),
        ("[shapes]", r"table \[shapes\]"),
    ],
)
def test_a_file_without_shapes_is_refused(tmp_path, text, message):
    path = tmp_path / "shapes.toml"
    path.write_text(text)
    with pytest.raises(QueryError, match=message):
        read_shapes(path)
    with pytest.raises(QueryError, match="cannot read the shapes"):
        read_shapes(tmp_path / "none.toml")

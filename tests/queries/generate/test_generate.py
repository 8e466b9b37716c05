"""Hand-worked tables of every shape, and the rules of generation one by one."""

import pytest

from starqe.kg import graph_of
from starqe.queries import SHAPES, QuerySettings, Shape, generate, load_table, read_shapes
from starqe.queries.query_set import table_path
from tests.queries.generate.by_hand import GRAPH, QV, QW, asked, fact

TRAIN = {
    "1p": {
        ("a", "r q v"): "x",
        ("b", "r q v"): "x",
        ("b", "r q w"): "x",
        ("m", "u q v"): "x",
        ("x", "s q v"): "c d",
        ("n", "s q v"): "d",
        ("c", "t q v"): "e",
    },
    "2p": {
        ("a", "r q v", "s q v"): "c d",
        ("b", "r q v", "s q v"): "c d",
        ("b", "r q w", "s q v"): "c d",
        ("m", "u q v", "s q v"): "c d",
        ("x", "s q v", "t q v"): "e",
    },
    "3p": {
        ("a", "r q v", "s q v", "t q v"): "e",
        ("b", "r q v", "s q v", "t q v"): "e",
        ("b", "r q w", "s q v", "t q v"): "e",
        ("m", "u q v", "s q v", "t q v"): "e",
    },
    # b with q v and b with q w are the same head and relation: they would collapse to one edge.
    "2i": {
        ("a b", "r q v", "r q v"): "x",
        ("a b", "r q v", "r q w"): "x",
        ("a m", "r q v", "u q v"): "x",
        ("b m", "r q v", "u q v"): "x",
        ("b m", "r q w", "u q v"): "x",
        ("n x", "s q v", "s q v"): "d",
    },
    "3i": {("a b m", "r q v", "r q v", "u q v"): "x", ("a b m", "r q v", "r q w", "u q v"): "x"},
    "2i-1p": {
        ("a b", "r q v", "r q v", "s q v"): "c d",
        ("a b", "r q v", "r q w", "s q v"): "c d",
        ("a m", "r q v", "u q v", "s q v"): "c d",
        ("b m", "r q v", "u q v", "s q v"): "c d",
        ("b m", "r q w", "u q v", "s q v"): "c d",
    },
    # The third edge comes from n: from x itself it would be the second one again.
    "1p-2i": {
        ("a n", "r q v", "s q v", "s q v"): "d",
        ("b n", "r q v", "s q v", "s q v"): "d",
        ("b n", "r q w", "s q v", "s q v"): "d",
        ("m n", "u q v", "s q v", "s q v"): "d",
    },
}
VALID = {
    "1p": {("d", "t q v"): "e"},
    "2p": {("x", "s q v", "t q v"): "e", ("n", "s q v", "t q v"): "e"},
    "3p": TRAIN["3p"],  # by way of d now
    "2i": {("c d", "t q v", "t q v"): "e"},
    "3i": {},
    "2i-1p": {("n x", "s q v", "s q v", "t q v"): "e"},
    "1p-2i": {("x d", "s q v", "t q v", "t q v"): "e", ("x c", "s q v", "t q v", "t q v"): "e", ("n c", "s q v", "t q v", "t q v"): "e"},
}


@pytest.mark.parametrize("shape", SHAPES)
def test_train_queries_are_those_worked_out_by_hand(folder, shape):
    assert asked(folder, GRAPH, "train", shape) == TRAIN[shape]


@pytest.mark.parametrize("shape", SHAPES)
def test_valid_queries_have_a_new_edge_and_the_rest_from_train_and_valid(folder, shape):
    assert asked(folder, GRAPH, "valid", shape) == VALID[shape]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_statement_without_qualifiers_makes_no_query_that_asks_for_one(folder, shape):
    assert asked(folder, GRAPH, "test", shape) == {}


def test_no_join_happens_at_a_hub(tmp_path):
    # x has in-degree 3 (a, b and m), d has 2; only the nodes that two edges end in count.
    generate(GRAPH, tmp_path, settings=QuerySettings(hub_threshold=3), threads=1)
    assert asked(tmp_path, GRAPH, "train", "2i") == {("n x", "s q v", "s q v"): "d"}
    assert asked(tmp_path, GRAPH, "train", "2i-1p") == {}
    for shape in ("1p", "2p", "3p", "1p-2i"):
        assert asked(tmp_path, GRAPH, "train", shape) == TRAIN[shape]


def test_without_a_threshold_there_are_no_hubs(tmp_path):
    crowd = graph_of(train=[fact(f"a{i:02} r x", QV) for i in range(60)])
    for threshold, count in ((50, 0), (None, 60 * 59 // 2)):
        folder = tmp_path / str(threshold)
        generate(crowd, folder, [SHAPES["2i"]], QuerySettings(hub_threshold=threshold), ["train"], threads=1)
        assert len(load_table(table_path(folder, "train", "2i"))) == count


def test_an_edge_row_that_is_in_train_and_valid_is_new_in_valid(tmp_path):
    graph = graph_of(train=[fact("a r x", QV), fact("b r y", QV)], valid=[fact("a r x", QV)], test=[fact("c r x", QV)])
    generate(graph, tmp_path, [SHAPES["1p"], SHAPES["2i"]], threads=1)
    assert asked(tmp_path, graph, "train", "1p") == {("a", "r q v"): "x", ("b", "r q v"): "y"}
    assert asked(tmp_path, graph, "valid", "1p") == {("a", "r q v"): "x"}
    assert asked(tmp_path, graph, "test", "1p") == {("c", "r q v"): "x"}
    assert asked(tmp_path, graph, "test", "2i") == {("a c", "r q v", "r q v"): "x"}


def test_answers_that_follow_from_older_facts_only_are_not_listed(tmp_path):
    graph = graph_of(train=[fact("a r x", QV)], valid=[fact("a r y", QV)])
    generate(graph, tmp_path, [SHAPES["1p"]], threads=1)
    assert asked(tmp_path, graph, "valid", "1p") == {("a", "r q v"): "y"}


@pytest.mark.parametrize(("cap", "kept"), [(4, True), (3, False)])
def test_the_cap_counts_the_rows_of_the_bag_in_valid_and_test_only(tmp_path, cap, kept):
    # To c lead: x new in the second edge, y new in the second edge, and x new in the first: three rows, one answer.
    graph = graph_of(train=[fact("a r x", QV), fact("a r y", QV)], valid=[fact("a r x", QV), fact("x s c", QV), fact("y s c", QV)])
    generate(graph, tmp_path, [SHAPES["2p"]], QuerySettings(solutions_below={"2p": cap}), threads=1)
    assert asked(tmp_path, graph, "valid", "2p") == ({("a", "r q v", "s q v"): "c"} if kept else {})
    generate(GRAPH, tmp_path / "other", [SHAPES["2p"]], QuerySettings(solutions_below={"2p": 1}), ["train"], threads=1)
    assert asked(tmp_path / "other", GRAPH, "train", "2p") == TRAIN["2p"]


def test_shapes_of_a_user_come_from_a_toml_file(tmp_path):
    path = tmp_path / "shapes.toml"
    path.write_text('[shapes]\n"4i" = "A>? B>? C>? D>?"\n"2p-2i" = "A>x x>y y>? B>?"\ntriangle = "A>x A>? x>?"\nback = "?>A ?>B"\n')
    graph = graph_of(
        train=[*(fact(f"{head} r x", QV) for head in "abcd"), fact("x s y", QV), fact("y s z", QV), fact("a t z", QV), fact("a t y", QV)]
    )
    generate(graph, tmp_path / "queries", list(read_shapes(path).values()), splits=["train"], threads=1)
    answers = {shape: asked(tmp_path / "queries", graph, "train", shape) for shape in ("4i", "2p-2i", "triangle", "back")}
    assert answers["4i"] == {("a b c d", "r q v", "r q v", "r q v", "r q v"): "x"}
    assert answers["2p-2i"] == {(f"{head} a", "r q v", "s q v", "s q v", "t q v"): "z" for head in "abcd"}
    assert answers["triangle"] == {("a", "r q v", "t q v", "s q v"): "y", ("a", "t q v", "t q v", "s q v"): "z"}
    # Of the six pairs of edges that leave a, two are of one relation; ids of x, y and z ascend.
    assert answers["back"] == {("x y", "r q v", "t q v"): "a", ("x z", "r q v", "t q v"): "a", ("y z", "t q v", "t q v"): "a"}


def test_where_edges_share_an_anchor_two_anchors_may_still_be_one_entity(tmp_path):
    graph = graph_of(train=[fact(text, QV) for text in ("b r x", "b s x", "b t x", "a r x")])
    generate(graph, tmp_path, [Shape.parse("fork", "A>? A>? B>?")], splits=["train"], threads=1)
    assert asked(tmp_path, graph, "train", "fork") == {
        ("b b", "r q v", "s q v", "t q v"): "x",  # and not again with s or t as the edge of the second b
        ("b a", "r q v", "s q v", "r q v"): "x",
        ("b a", "r q v", "t q v", "r q v"): "x",
        ("b a", "s q v", "t q v", "r q v"): "x",
    }


RICH = graph_of(train=[fact("a r x", ("p", "u"), QV, QW), fact("a r x"), fact("b s x", QV)])


@pytest.mark.parametrize(
    ("qualifiers", "expected"),
    [
        ("0", {("a", "r"): "x", ("b", "s"): "x"}),
        ("1", {("a", "r p u"): "x", ("a", "r q v"): "x", ("a", "r q w"): "x", ("b", "s q v"): "x"}),
        ("2", {("a", "r p u q v"): "x", ("a", "r p u q w"): "x", ("a", "r q v q w"): "x"}),
        ("3", {("a", "r p u q v q w"): "x"}),
        ("4", {}),
        ("2-3", {("a", "r p u q v"): "x", ("a", "r p u q w"): "x", ("a", "r q v q w"): "x", ("a", "r p u q v q w"): "x"}),
    ],
)
def test_an_edge_has_any_subset_of_that_many_pairs_of_one_statement(tmp_path, qualifiers, expected):
    generate(RICH, tmp_path, [SHAPES["1p"]], QuerySettings(qualifiers=qualifiers), ["train"], threads=1)
    assert asked(tmp_path, RICH, "train", "1p") == expected


def test_two_statements_do_not_lend_each_other_their_pairs(tmp_path):
    graph = graph_of(train=[fact("a r x", QV), fact("a r x", QW)])
    generate(graph, tmp_path, [SHAPES["1p"]], QuerySettings(qualifiers="2"), ["train"], threads=1)
    assert asked(tmp_path, graph, "train", "1p") == {}


@pytest.mark.parametrize(
    ("qualifiers", "expected"),
    [
        ("0,1", {("a b", "r", "s q v"): "x", ("b a", "s", "r p u"): "x", ("b a", "s", "r q v"): "x", ("b a", "s", "r q w"): "x"}),
        # Both orders of the two edges fit where both have one pair: one of the two is kept.
        ("0-1,1", {("a b", f"r{pair}", "s q v"): "x" for pair in ("", " p u", " q v", " q w")}
                | {("b a", "s", f"r{pair}"): "x" for pair in (" p u", " q v", " q w")}),
    ],
)  # fmt: skip
def test_numbers_of_pairs_may_differ_from_edge_to_edge(tmp_path, qualifiers, expected):
    generate(RICH, tmp_path, [SHAPES["2i"]], QuerySettings(qualifiers=qualifiers), ["train"], threads=1)
    assert asked(tmp_path, RICH, "train", "2i") == expected


def test_a_graph_without_qualifiers_has_empty_tables(tmp_path):
    graph = graph_of(train=[fact("a r x"), fact("b r x")])
    generate(graph, tmp_path, splits=["train"], threads=1)
    assert all(asked(tmp_path, graph, "train", shape) == {} for shape in SHAPES)

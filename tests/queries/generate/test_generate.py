"""Hand-worked tables of every shape, the rules of generation one by one, and everything again by brute force."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from starqe.errors import ConfigError, InputError, MismatchError, QueryError, StorageError
from starqe.kg import SPLITS, Graph, Statement, graph_of
from starqe.queries import SHAPES, QuerySettings, Shape, easy_and_hard, generate, load_table, read_shapes
from starqe.queries.generate import database
from starqe.queries.generate.sql import SqlEngine
from starqe.queries.query_set import table_path
from tests.queries import brute_force
from tests.queries.strategies import graphs

QV, QW = ("q", "v"), ("q", "w")


def fact(text: str, *pairs: tuple[str, str]) -> Statement:
    return Statement(*text.split(), pairs)


# a, b and m point to x (b twice, with q v and with q w); x points to c and d, n to d; c points to e.
# New in valid: d points to e.
GRAPH = graph_of(
    train=[
        fact("a r x", QV),
        fact("b r x", QV),
        fact("b r x", QW),
        fact("m u x", QV),
        fact("x s c", QV),
        fact("x s d", QV),
        fact("n s d", QV),
        fact("c t e", QV),
    ],
    valid=[fact("d t e", QV)],
    test=[fact("a r c")],
)


def asked(folder: Path, graph: Graph, split: str, shape: str) -> dict[tuple[str, ...], str]:
    """Gives the queries of a table as literals: the anchors and then, for each edge, its relation and pairs; and the answers."""
    table = load_table(table_path(folder, split, shape))
    e, r = graph.entities.identifier, graph.relations.identifier
    found = {}
    for row in range(len(table)):
        edges = []
        for edge in range(len(table.shape.edges)):
            pairs = [word for key, value in table.pairs_of(row, edge) for word in (r(key), e(value))]
            edges.append(" ".join([r(table.relations[row, edge]), *pairs]))
        query = (" ".join(map(e, table.anchors[row])), *edges)
        assert query not in found
        found[query] = " ".join(map(e, table.answers[row]))
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("queries")
    generate(GRAPH, folder, threads=1)
    return folder


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


def test_an_edge_row_that_stands_in_train_and_valid_is_new_in_valid(tmp_path):
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
def test_an_edge_has_any_subset_of_so_many_pairs_of_one_statement(tmp_path, qualifiers, expected):
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


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


CROWD = graph_of(train=[fact(f"a{i} r x{i % 7}", ("q", f"v{j}")) for i in range(20) for j in range(3)])


@pytest.mark.full
def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads(tmp_path):
    for name, threads in (("one", 1), ("two", 2), ("again", 2)):
        generate(GRAPH, tmp_path / name, threads=threads)
    assert contents(tmp_path / "one") == contents(tmp_path / "two") == contents(tmp_path / "again")


def test_another_seed_gives_the_same_queries_in_another_order(tmp_path):
    tables = []
    for seed in (0, 1):
        generate(CROWD, tmp_path / str(seed), [SHAPES["2i"]], QuerySettings(seed=seed), ["train"], threads=1)
        tables.append(list(asked(tmp_path / str(seed), CROWD, "train", "2i").items()))
    assert sorted(tables[0]) == sorted(tables[1])
    assert tables[0] != tables[1]
    assert tables[0] != sorted(tables[0])


def test_a_limit_gives_the_first_queries_of_the_whole_table(tmp_path):
    generate(CROWD, tmp_path / "whole", [SHAPES["2i"]], splits=["train"], threads=1)
    generate(CROWD, tmp_path / "part", [SHAPES["2i"]], QuerySettings(limit=10), ["train"], threads=1)
    whole = list(asked(tmp_path / "whole", CROWD, "train", "2i").items())
    assert len(whole) > 10
    assert list(asked(tmp_path / "part", CROWD, "train", "2i").items()) == whole[:10]


def test_tables_leave_the_database_in_slices_without_a_seam(tmp_path, monkeypatch):
    generate(CROWD, tmp_path / "whole", [SHAPES["2i"]], splits=["train"], threads=1)
    monkeypatch.setattr(database, "SLICE", 7)
    for name, limit in (("slices", None), ("part", 30)):
        generate(CROWD, tmp_path / name, [SHAPES["2i"]], QuerySettings(limit=limit), ["train"], threads=1)
    whole, slices, part = (list(asked(tmp_path / name, CROWD, "train", "2i").items()) for name in ("whole", "slices", "part"))
    assert (slices, part) == (whole, whole[:30])


class Interrupted(SqlEngine):
    """Breaks off at the third table."""

    calls = 0

    def solve(self, shape, split, settings):
        Interrupted.calls += 1
        if Interrupted.calls == 3:
            raise KeyboardInterrupt
        return super().solve(shape, split, settings)


def test_an_interrupted_generation_keeps_what_was_finished_and_goes_on(tmp_path):
    shapes = [SHAPES[name] for name in ("1p", "2p", "2i", "3i")]
    generate(GRAPH, tmp_path / "whole", shapes, threads=1)
    with pytest.raises(KeyboardInterrupt):
        generate(GRAPH, tmp_path / "part", shapes, engine=Interrupted, threads=1)
    before = contents(tmp_path / "part")
    assert sorted(before) == ["queries.json", "train/1p.parquet", "train/2p.parquet"]
    times = {name: (tmp_path / "part" / name).stat().st_mtime_ns for name in before}

    told = []
    Interrupted.calls = 100
    generate(GRAPH, tmp_path / "part", shapes, engine=Interrupted, progress=lambda *table: told.append(table), threads=1)
    assert Interrupted.calls == 110  # twelve tables, two of them finished before
    assert contents(tmp_path / "part") == contents(tmp_path / "whole")
    assert {name: (tmp_path / "part" / name).stat().st_mtime_ns for name in before} == times
    assert told[:3] == [("train", "1p", 7), ("train", "2p", 5), ("train", "2i", 6)]


def test_another_graph_in_the_same_folder_is_refused(folder):
    before = contents(folder)
    with pytest.raises(MismatchError, match="holds queries of another graph"):
        generate(CROWD, folder)
    assert contents(folder) == before


def test_other_settings_in_the_same_folder_are_refused_by_name(folder):
    with pytest.raises(StorageError, match=r"other settings \(hub_threshold, seed\)"):
        generate(GRAPH, folder, settings=QuerySettings(seed=1, hub_threshold=None))


def test_another_shape_of_the_same_name_is_refused(folder):
    with pytest.raises(StorageError, match="another shape of the same name"):
        generate(GRAPH, folder, [Shape.parse("2p", "A>x ?>x")])


def test_a_damaged_table_is_named(tmp_path):
    generate(GRAPH, tmp_path, [SHAPES["1p"]], threads=1)
    table_path(tmp_path, "valid", "1p").write_bytes(b"PAR1 and no more")
    with pytest.raises(StorageError, match=r"1p\.parquet: cannot read the query table"):
        generate(GRAPH, tmp_path, [SHAPES["1p"]], threads=1)


def test_what_is_not_for_queries_is_left_alone(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(StorageError, match="not a query set folder"):
        generate(GRAPH, tmp_path)
    with pytest.raises(StorageError, match="is a file"):
        generate(GRAPH, tmp_path / "file")
    assert contents(tmp_path) == {"file": b"mine"}


def test_wrong_use_is_refused_before_anything_is_written(tmp_path):
    with pytest.raises(QueryError, match="has 2 edges"):
        generate(GRAPH, tmp_path / "queries", settings=QuerySettings(qualifiers="1,1"))
    with pytest.raises(InputError, match="splits are one or more of"):
        generate(GRAPH, tmp_path / "queries", splits=["dev"])
    with pytest.raises(InputError, match="engines are sql, sparql; found 'spark'"):
        generate(GRAPH, tmp_path / "queries", engine="spark")
    assert not (tmp_path / "queries").exists()


@pytest.mark.parametrize(("limits", "named"), [({"memory": "much"}, "all and 'much'"), ({"threads": -1}, "-1 and '4GB'")])
def test_limits_that_are_none_are_named(tmp_path, limits, named):
    with pytest.raises(ConfigError, match=rf"threads are at least 1 and memory is a size such as 4GB, found {named}"):
        generate(GRAPH, tmp_path / "queries", **limits)


def test_a_graph_without_qualifiers_has_empty_tables(tmp_path):
    graph = graph_of(train=[fact("a r x"), fact("b r x")])
    generate(graph, tmp_path, splits=["train"], threads=1)
    assert all(asked(tmp_path, graph, "train", shape) == {} for shape in SHAPES)


QUALIFIERS = st.sampled_from(["0", "1", "2", "0-1", "0-2"])


@st.composite
def cases(draw, max_edges=3):
    """Gives a graph, a shape, settings and a split."""
    shape = draw(brute_force.shapes(max_edges))
    edge_by_edge = st.lists(QUALIFIERS, min_size=len(shape.edges), max_size=len(shape.edges)).map(",".join)
    chosen = QuerySettings(
        qualifiers=draw(QUALIFIERS | edge_by_edge),
        hub_threshold=draw(st.sampled_from([None, 3, 6])),
        solutions_below=draw(st.sampled_from([{}, {"random": 2}, {"random": 5}])),
    )
    return draw(graphs()), shape, chosen, draw(st.sampled_from(SPLITS))


@pytest.mark.full
@given(cases())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_brute_force_finds_the_same_queries_and_answers_each_query_once(tmp_path_factory, case):
    graph, shape, chosen, split = case
    folder = tmp_path_factory.mktemp("queries")
    generate(graph, folder, [shape], chosen, [split], threads=1)
    found = brute_force.read(folder, split, shape)
    assert len({query for query, _ in found}) == len(found), "one query stands in two rows, up to the names of variables"
    cap = chosen.solutions_below.get("random")
    assert dict(found) == brute_force.generated(graph, shape, chosen.counts_for(shape), split, chosen.hub_threshold, cap)


@pytest.mark.full
@given(graphs(), st.sampled_from(["1p", "2p", "3p"]), st.sampled_from(["valid", "test"]), st.sampled_from(["0", "1", "0-2"]))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_listed_answers_are_exact_and_those_that_need_a_new_fact_are_all_listed(tmp_path_factory, graph, shape, split, qualifiers):
    folder = tmp_path_factory.mktemp("queries")
    generate(graph, folder, [SHAPES[shape]], QuerySettings(qualifiers=qualifiers, solutions_below={}), [split], threads=1)
    table = load_table(table_path(folder, split, shape))
    easy, hard = easy_and_hard(graph, table, None, split)
    for row in range(len(table)):
        old, new = (set(answers[row].tolist()) for answers in (easy, hard))
        assert new <= set(table.answers[row].tolist()) <= old | new


COUNTS = {
    "train": (24_819, 313_088, 5_950_990, 48_513, 318_735, 306_022, 1_088_539),
    "valid": (4_100, 100_706, 2_968_315, 15_648, 169_195, 169_438, 569_957),
    "test": (7_716, 202_045, 6_433_476, 38_207, 547_272, 445_007, 1_267_452),
}
"""The paper's table of counts, shapes in the order of SHAPES."""


def counted(graph: Graph, folder: Path, shapes: list[str]) -> dict[tuple[str, str], int]:
    found = {}
    generate(graph, folder, [SHAPES[name] for name in shapes], progress=lambda split, shape, count: found.update({(split, shape): count}))
    return found


def expected(shapes: list[str]) -> dict[tuple[str, str], int]:
    return {(split, shape): dict(zip(SHAPES, counts, strict=True))[shape] for split, counts in COUNTS.items() for shape in shapes}


@pytest.mark.full
def test_wd50k_has_as_many_queries_of_the_small_shapes_as_in_the_paper(wd50k, tmp_path):
    assert counted(wd50k, tmp_path, ["1p", "2p", "2i"]) == expected(["1p", "2p", "2i"])


@pytest.mark.slow
def test_wd50k_has_as_many_queries_as_in_the_paper_in_all_21_tables(wd50k, tmp_path):
    assert counted(wd50k, tmp_path, list(SHAPES)) == expected(list(SHAPES))

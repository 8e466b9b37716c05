import pytest
from hypothesis import assume, given

from starqe.errors import InputError
from starqe.kg import Statement, export_graph, graph_of, import_graph
from tests.kg.strategies import graphs

FACTS = (
    '{"N": 2, "P31_h": "Q937", "P31_t": "Q5"}\n'
    '{"N": 5, "P166_h": "Q937", "P166_t": "Q38104", "P585": ["y1921"], "P1706": ["Q1", "Q2"]}\n'
    '{"P69_t": "Q2", "P69_h": "Q1", "P812": "Q3"}\n'
)


def test_keys_with_h_and_t_are_the_main_triple_and_all_others_qualifiers(tmp_path):
    (tmp_path / "facts.json").write_text(FACTS)
    graph, report = import_graph(tmp_path / "facts.json")
    assert set(graph.statements("train")) == {
        Statement("Q937", "P31", "Q5"),
        Statement("Q937", "P166", "Q38104", (("P585", "y1921"), ("P1706", "Q1"), ("P1706", "Q2"))),
        Statement("Q1", "P69", "Q2", (("P812", "Q3"),)),
    }
    assert report.forms == {"nary": 1}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"N": 3, "P31_h": "a", "P31_t": "b"}', "N is the number of values, found 3 and 2 values"),
        ('{"N": 2, "P31_h": "a", "P30_t": "b"}', "a fact has a key that ends with _h and the same with _t, found N, P31_h, P30_t"),
        ('{"N": 2, "P31_h": "a", "P31_t": ""}', "a value is the text of an entity, found '': it is empty"),
        ('{"N": 2, "P31_h": "a", "P31_t": {}}', r"a value is the text of an entity, found \{\}"),
        ("[2]", r"a fact is an object, found \[2\]"),
    ],
)
def test_a_malformed_fact_is_refused_with_its_place_or_skipped(tmp_path, line, message):
    path = tmp_path / "facts.json"
    path.write_text(FACTS + line + "\n")
    with pytest.raises(InputError, match=rf"facts.json:4 \(byte {len(FACTS)}\): {message}"):
        import_graph(path)
    graph, report = import_graph(path, on_error="skip")
    assert (len(graph), report.skipped) == (3, 1)


def test_a_name_that_the_format_needs_is_refused_on_export(tmp_path):
    graph = graph_of([Statement("a", "r", "b", (("r_h", "c"),))])
    with pytest.raises(InputError, match="n-ary JSON reserves the key 'r_h'"):
        export_graph(graph, tmp_path / "out", "nary")
    assert not (tmp_path / "out").exists()


@given(graph=graphs(labels=False))
def test_facts_written_and_read_again_give_the_same_graph(tmp_path_factory, graph):
    relations = set(graph.relations)
    assume(not relations & {"N", *(relation + end for relation in relations for end in ("_h", "_t"))})
    folder = tmp_path_factory.mktemp("nary") / "out"
    export_graph(graph, folder, "nary")
    again, report = import_graph(folder, "nary")
    assert import_graph(folder)[0].fingerprint == graph.fingerprint  # each file is detected by its content
    assert again.fingerprint == graph.fingerprint
    assert report.skipped == 0

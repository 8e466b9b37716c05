"""The options of ``data import`` for the formats that need some."""

import json

import pytest

from starqe.kg import Statement, load_graph
from tests.kg.formats.test_wikidata import DUMP, write


def test_a_slice_of_a_dump_becomes_a_graph_in_one_command_and_what_is_left_out_is_said(starqe, tmp_path):
    dump = write(tmp_path, DUMP)
    options = ["--classes", "Q5", "--properties", "P166,P31", "--languages", "de", "--ranks", "preferred,normal,deprecated"]
    options += ["--literals", "drop"]
    code, out, _ = starqe("data", "import", dump, tmp_path / "graph", *options, "--min-statements", "2")
    assert code == 0
    assert out == (
        f"{tmp_path}/graph: 4 statements, 7 entities, 3 relations\n"
        "  read as wikidata: 1 file (--format reads them as another form)\n"
        "  literal values left out: xsd:dateTime 1\n"
        "  records left out: entity of another class 3\n"
        "  unknown value, left out by relation: P580 1\n"
        "  another property, left out by relation: P40 1, P26 1\n"
        "  xsd:dateTime, left out by relation: P585 1\n"
    )
    graph = load_graph(tmp_path / "graph")
    assert graph.entities.label(graph.entities.id("Q937")) == "Einstein"


def test_special_values_are_kept_and_several_files_are_one_graph(starqe, tmp_path):
    files = [write(tmp_path, [record], f"{record['id']}.json") for record in DUMP]
    code, out, _ = starqe("data", "import", *files, tmp_path / "graph", "--special-values", "keep", "--json")
    assert code == 0
    assert json.loads(out)["report"]["forms"] == {"wikidata": 4}
    assert Statement("Q937", "P26", "novalue") in set(load_graph(tmp_path / "graph").statements("train"))


def test_columns_of_a_table_are_named_by_options(starqe, tmp_path):
    (tmp_path / "a.csv").write_text("since,subject,object,predicate\n,a,b,r\ny1990,a,c,r\n")
    columns = ["--head", "subject", "--relation", "predicate", "--tail", "object", "--qualifier", "since"]
    assert starqe("data", "import", tmp_path / "a.csv", tmp_path / "graph", *columns)[0] == 0
    expected = {Statement("a", "r", "b"), Statement("a", "r", "c", (("since", "y1990"),))}
    assert set(load_graph(tmp_path / "graph").statements("train")) == expected


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--head", "h"], "a table needs --head, --relation and --tail together"),
        (["--head", "h", "--relation", "h", "--tail", "t"], "each column of a table is named once, found 'h', 'h', 't'"),
        (["--ranks", "good"], "a rank is one of preferred, normal, deprecated, best, found 'good'"),
        (["--classes", "Q5"], "choose from Wikidata's JSON, found statements"),
    ],
)
def test_options_that_do_not_fit_are_refused(starqe, tmp_path, options, message):
    (tmp_path / "a.txt").write_text("a,r,b\n")
    code, _, err = starqe("data", "import", tmp_path / "a.txt", tmp_path / "graph", *options)
    assert code in (1, 2)
    assert message in " ".join(err.replace("│", " ").split())
    assert not (tmp_path / "graph").exists()


def test_a_property_of_nodes_is_named_as_label(starqe, tmp_path):
    (tmp_path / "nodes.csv").write_text("~id,~label,code:string\n1,airport,ATL\n")
    assert starqe("data", "import", tmp_path / "nodes.csv", tmp_path / "graph", "--label", "code")[0] == 0
    graph = load_graph(tmp_path / "graph")
    assert graph.entities.label(graph.entities.id("1")) == "ATL"

import json
from pathlib import Path

import pytest

from starqe.kg import Statement, embedded_graph, graph_of, save_graph


@pytest.fixture(scope="module")
def science(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("queries")
    save_graph(embedded_graph(), folder / "graph")
    return folder


SHAPES = """
[shapes]
"4i" = "A>? B>? C>? D>?"
"2p-2i" = "A>x x>y y>? B>?"
triangle = "A>x x>? A>?"
"""


@pytest.mark.full
def test_custom_shapes_are_generated_shown_and_answered(starqe, science: Path, tmp_path: Path) -> None:
    (tmp_path / "shapes.toml").write_text(SHAPES)
    own = ("--shape-file", tmp_path / "shapes.toml", "--limit", 50, "--hub-threshold", 12)
    code, out, error = starqe("queries", "generate", science / "graph", tmp_path / "own", *own, "--json")
    assert code == 0, error
    assert dict(json.loads(out)["counts"]["test"].items()) == {"4i": 50, "2p-2i": 50, "triangle": 50}
    for shape in ("4i", "2p-2i", "triangle"):
        code, out, error = starqe("queries", "show", tmp_path / "own", "--graph", science / "graph", "--shape", shape, "--row", 3)
        assert code == 0, error
        assert "?target" in out
        assert "SELECT DISTINCT ?target WHERE {" in out
        assert "listed answer" in out
        assert "known on all splits: " in out


@pytest.mark.parametrize("option", [("--qualifiers", 0), ()], ids=["asked for", "left out"])
def test_a_graph_without_qualifiers_has_queries_without_them(starqe, tmp_path: Path, option: tuple[object, ...]) -> None:
    plain = [Statement("a", "r", "b"), Statement("b", "r", "c"), Statement("c", "s", "d"), Statement("e", "s", "d")]
    save_graph(graph_of(train=plain), tmp_path / "graph")
    code, out, error = starqe("queries", "generate", tmp_path / "graph", tmp_path / "q", *option, "--splits", "train", "--json")
    assert code == 0, error
    # By hand: 1p a-r, b-r, c-s, e-s; 2p a-r-r, b-r-s; 3p a-r-r-s; 2i c-s & e-s; 1p-2i b-r-s & e-s.
    assert json.loads(out)["counts"]["train"] == {"1p": 4, "2p": 2, "3p": 1, "2i": 1, "3i": 0, "2i-1p": 0, "1p-2i": 1}


def test_statistics_have_counts_answers_and_hubs(starqe, science: Path, tmp_path: Path) -> None:
    starqe("queries", "generate", science / "graph", tmp_path / "q", "--shapes", "1p,2p", "--splits", "valid,test")
    code, out, _ = starqe("queries", "stats", tmp_path / "q", "--graph", science / "graph", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["counts"].keys() == {"valid", "test"}
    assert found["answers"]["test"]["2p"].keys() == {"min", "lower_quartile", "median", "upper_quartile", "max", "mean"}
    assert found["hubs"]["threshold"] == 50
    code, out, _ = starqe("queries", "stats", tmp_path / "q")
    assert code == 0
    assert "answers per query" in out


SHOWN = {
    "logic": "∧",
    "sparql": "{|",
    "json": '"variable"',
    "picture": "◀─",
    "hypergraph": "{",
    "reified": "_:1 rdf:subject ",
    "formula": "?reifier_0 rdf:reifies <<( ?A ?relation_0 ?the_answer )>> ; ?key_0_0 ?value_0_0 .",
    "formula-star": "<< ?A ?relation_0 ?the_answer >> ?key_0_0 ?value_0_0 .",
}


@pytest.mark.parametrize("form", SHOWN)
def test_a_query_can_be_shown_in_each_form(starqe, science: Path, tmp_path: Path, form: str) -> None:
    starqe("queries", "generate", science / "graph", tmp_path / "q", "--shapes", "2i", "--splits", "test", "--limit", 5)
    code, out, error = starqe("queries", "show", tmp_path / "q", "--graph", science / "graph", "--shape", "2i", "--as", form)
    assert code == 0, error
    assert SHOWN[form] in out


def test_a_reified_set_is_written_and_its_queries_are_shown_as_they_were(starqe, science: Path, tmp_path: Path) -> None:
    shown = []
    for variant, shape in (("qualified", "2i"), ("reified", "2i-reified-1-1")):
        folder = tmp_path / variant
        code, _, error = starqe(
            "queries", "generate", science / "graph", folder, "--shapes", "2i", "--splits", "test", "--limit", 5, "--variant", variant
        )
        assert code == 0, error
        code, out, error = starqe("queries", "show", folder, "--graph", science / "graph", "--shape", shape)
        assert code == 0, error
        shown.append(out)
    assert shown[0] == shown[1]


def test_both_engines_write_the_same_table(starqe, science: Path, tmp_path: Path) -> None:
    for engine in ("sql", "sparql"):
        code, _, error = starqe(
            "queries", "generate", science / "graph", tmp_path / engine, "--shapes", "2p", "--splits", "test", "--engine", engine
        )
        assert code == 0, error
    assert (tmp_path / "sql/test/2p.parquet").read_bytes() == (tmp_path / "sparql/test/2p.parquet").read_bytes()


def test_union_negation_and_open_values_are_generated_shown_and_counted(starqe, science: Path, tmp_path: Path) -> None:
    named = ("--shapes", "2u,pni,2cp", "--splits", "test", "--limit", 40)
    code, _, error = starqe("queries", "generate", science / "graph", tmp_path / "q", *named)
    assert code == 0, error
    for shape, sign, keyword in (("2u", " ∨ ", "UNION"), ("pni", "¬∃x . (", "NOT EXISTS"), ("2cp", ": ?y}(?x, ?target)", "{|")):
        code, out, error = starqe("queries", "show", tmp_path / "q", "--graph", science / "graph", "--shape", shape)
        assert code == 0, error
        assert sign in out
        assert keyword in out
        assert "known on all splits: " in out
        _, out, _ = starqe("queries", "show", tmp_path / "q", "--graph", science / "graph", "--shape", shape, "--json")
        assert json.loads(out).keys() == {"query", "answers", "reductions"}
    code, out, error = starqe("queries", "stats", tmp_path / "q", "--graph", science / "graph", "--reductions", 30, "--json")
    assert code == 0, error
    counted = json.loads(out)["reductions"]["test"]
    assert counted.keys() == {"2u", "pni", "2cp"}
    assert all(sum(classes.values()) >= 30 for classes in counted.values())
    printed = starqe("queries", "stats", tmp_path / "q", "--graph", science / "graph", "--reductions", 5)[1]
    assert "answers of the first 5 queries, by the edges that train lacks" in " ".join(printed.split())
    assert "Give the graph" in starqe("queries", "stats", tmp_path / "q", "--reductions", 5)[2]


@pytest.mark.parametrize(("form", "text"), [("formula", "conjunctions over heads and tails"), ("reified", "")])
def test_forms_that_a_shape_does_not_have_are_refused(starqe, science: Path, tmp_path: Path, form: str, text: str) -> None:
    starqe("queries", "generate", science / "graph", tmp_path / "q", "--shapes", "2u", "--splits", "test", "--limit", 5)
    code, _, error = starqe("queries", "show", tmp_path / "q", "--graph", science / "graph", "--shape", "2u", "--as", form)
    assert code == 1
    assert text in error


@pytest.mark.parametrize("arguments", [("--engine", "sparql"), ("--variant", "reified")])
def test_the_papers_engine_and_forms_are_for_conjunctions(starqe, science: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    code, _, error = starqe("queries", "generate", science / "graph", tmp_path / "q", "--shapes", "2u", "--splits", "test", *arguments)
    assert code == 1
    assert "found shape '2u' ('A>? | B>?')" in error


def test_random_queries_are_drawn_and_resumed(starqe, science: Path, tmp_path: Path) -> None:
    arguments = ("queries", "sample", science / "graph", tmp_path / "drawn", "--shapes", "2p,3i", "--count", 20, "--turn", "--json")
    code, out, error = starqe(*arguments)
    assert code == 0, error
    assert json.loads(out)["counts"] == {"test": {"2p.11": 20, "3i.111": 20}}
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    assert starqe(*arguments)[1] == out
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == before


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--shapes", "1p,5p"), "2cp, 3cp, found '5p'"),
        (("--qualifiers", "many"), "qualifiers are a number up to 8 or a range"),
        (("--qualifiers", "1,1"), "has 2 edges, and shape '1p' has 1"),
        (("--shape-file", "no.toml"), "no.toml: cannot read the shapes"),
        (("--splits", "tets"), "tets"),
    ],
)
def test_wrong_wishes_are_named(starqe, science: Path, tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    code, _, error = starqe("queries", "generate", science / "graph", tmp_path / "q", *arguments)
    assert code == 1
    assert text in error


def test_showing_needs_the_graph_of_the_queries_and_a_row_that_exists(starqe, science: Path, tmp_path: Path) -> None:
    starqe("queries", "generate", science / "graph", tmp_path / "q", "--shapes", "1p", "--splits", "test", "--limit", 5)
    show = ("queries", "show", tmp_path / "q", "--shape", "1p")
    code, _, error = starqe(*show)
    assert (code, "--graph" in error) == (2, True)
    assert "the table has 5 queries (rows from 0), found 9" in starqe(*show, "--graph", science / "graph", "--row", 9)[2]
    save_graph(graph_of(train=[Statement("a", "r", "b")]), tmp_path / "other")
    assert "of another graph" in starqe(*show, "--graph", tmp_path / "other")[2]


def test_labels_in_a_query_never_command_the_terminal(starqe, tmp_path: Path) -> None:
    names = "\n".join(f'e:{name} rdfs:label "\\u001b[31m{name}\\u009b2J" .' for name in "abcr")
    prefixes = "@prefix e: <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
    (tmp_path / "facts.ttl").write_text(f"{prefixes}{names}\ne:a e:r e:b . e:c e:r e:b .\n")
    assert starqe("data", "import", tmp_path / "facts.ttl", tmp_path / "graph")[0] == 0
    made = ("queries", "generate", tmp_path / "graph", tmp_path / "q", "--splits", "train", "--shapes", "2i")
    assert starqe(*made)[0] == 0
    code, out, _ = starqe("queries", "show", tmp_path / "q", "--graph", tmp_path / "graph", "--shape", "2i", "--split", "train")
    assert (code, "\ufffd[31mb\ufffd2J" in out) == (0, True)
    assert not {"\x1b", "\x9b"} & set(out)


def test_sets_are_sampled_by_the_rules_of_benchmarks(starqe, science: Path, tmp_path: Path) -> None:
    sample = ("queries", "sample", science / "graph", tmp_path / "q", "--rules", "betae")
    code, out, error = starqe(*sample, "--count", 5, "--json")
    assert code == 0, error
    counts = json.loads(out)["counts"]["test"]
    assert list(counts) == ["1p", "2p", "3p", "2i", "3i", "1p-2i", "2i-1p", "2u", "up", "2in", "3in", "inp", "pin", "pni"]
    assert set(counts.values()) == {5}
    assert starqe(*sample, "--shapes", "2p", "--split", "valid")[0] == 0
    code, _, error = starqe(*sample, "--qualifiers", "0-2")
    assert code == 2
    assert "leave out --qualifiers and --turn" in error
    code, _, error = starqe(*sample, "--shapes", "2cp")
    assert code == 1
    assert "no qualifier value is open; found shape '2cp'" in error

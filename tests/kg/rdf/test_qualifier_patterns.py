"""Singleton properties, and declared nodes of n-ary relations."""

from pathlib import Path

from starqe.kg import Names, Statement, import_graph

NAMES = Names("http://e.org/", "http://e.org/")
PREFIXES = "@prefix : <http://e.org/> . @prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .\n"


def read(path: Path, text: str, **options: str) -> set[Statement]:
    path.write_text(PREFIXES + text)
    return set(import_graph(path, names=NAMES, **options)[0].statements("train"))  # type: ignore[arg-type]


def test_a_singleton_property_carries_the_qualifiers_of_its_statement(tmp_path):
    text = """
    :a :marriedTo1 :b . :marriedTo1 rdf:singletonPropertyOf :marriedTo ; :since :y1990 ; :in :Ulm .
    :a :marriedTo2 :c . :marriedTo2 rdf:singletonPropertyOf :marriedTo .
    :a :knows :b .
    """
    assert read(tmp_path / "g.ttl", text) == {
        Statement("a", "marriedTo", "b", (("since", "y1990"), ("in", "Ulm"))),
        Statement("a", "marriedTo", "c"),
        Statement("a", "knows", "b"),
    }


def test_a_declared_node_is_a_statement_with_qualifiers_and_others_stay_entities(tmp_path):
    text = """
    :a :diagnosis [ :value :flu ; :certainty :high ] .
    :b :diagnosis [ :value :cold , :cough ; :by :doctor ] .
    :c :address [ :city :Ulm ] .
    """
    found = read(tmp_path / "g.ttl", text, value_node="http://e.org/value")
    plain = {one for one in found if one.relation in ("address", "city")}
    assert len(plain) == 2
    assert found - plain == {
        Statement("a", "diagnosis", "flu", (("certainty", "high"),)),
        Statement("b", "diagnosis", "cold", (("by", "doctor"),)),
        Statement("b", "diagnosis", "cough", (("by", "doctor"),)),
    }


def test_without_the_declaration_nodes_are_entities(tmp_path):
    found = read(tmp_path / "g.ttl", ":a :diagnosis [ :value :flu ; :certainty :high ] .")
    assert {one.relation for one in found} == {"diagnosis", "value", "certainty"}

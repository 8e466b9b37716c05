"""Documents that another library wrote, in five syntaxes: every triple, every literal and a reified statement are kept."""

from dataclasses import replace

import pytest
import rdflib
from rdflib import RDF, XSD, BNode, Namespace

from starqe.kg import Statement, import_graph
from starqe.kg.literal import Literal

EX = Namespace("http://e.org/")
# Numbers in the forms that the library writes: it turns 007 into 7 in JSON-LD, and 1.5E3 into 1.5e+03 in Turtle.
DOUBLE = "1.5e+03"
VALUES = [
    rdflib.Literal('plain text, two\nlines, "quotes" and \\'),
    rdflib.Literal("grüße <&>", lang="de-AT"),
    rdflib.Literal("1949-12-25", datatype=XSD.date),
    rdflib.Literal("1949-12-25T10:00:00Z", datatype=XSD.dateTime, normalize=False),
    rdflib.Literal("7", datatype=XSD.integer),
    rdflib.Literal("-1.50", datatype=XSD.decimal, normalize=False),
    rdflib.Literal(DOUBLE, datatype=XSD.double, normalize=False),
    rdflib.Literal("true", datatype=XSD.boolean),
    rdflib.Literal("Point(1 2)", datatype=EX.point),
    rdflib.Literal(""),
]
SYNTAX = {"xml": "a.rdf", "json-ld": "a.jsonld", "n3": "a.n3", "turtle": "a.ttl", "nt": "a.nt"}


def statements(graph: rdflib.Graph) -> set[Statement]:
    def value(term):
        if isinstance(term, rdflib.Literal):
            kind = RDF.langString if term.language else term.datatype or XSD.string
            return Literal(str(term), str(kind), (term.language or "").lower())
        return f"_:{term}" if isinstance(term, BNode) else str(term)

    return {Statement(value(head), str(relation), value(tail)) for head, relation, tail in graph}


@pytest.mark.parametrize("syntax", SYNTAX)
def test_every_triple_and_literal_of_another_writer_is_kept(tmp_path, syntax):
    document = rdflib.Graph()
    for place, value in enumerate(VALUES):
        document.add((EX[f"s{place % 3}"], EX.says, value))
        document.add((EX[f"s{place}"], EX.knows, EX[f"s{place + 1}"]))
    reified = EX.statement
    for predicate, value in ((RDF.type, RDF.Statement), (RDF.subject, EX.s0), (RDF.predicate, EX.knows), (RDF.object, EX.s1)):
        document.add((reified, predicate, value))
    document.add((reified, EX.since, VALUES[2]))
    document.serialize(tmp_path / SYNTAX[syntax], format=syntax, encoding="utf-8")
    plain = rdflib.Graph()
    plain += (triple for triple in document if triple[0] != reified)
    expected = statements(plain) - {Statement(str(EX.s0), str(EX.knows), str(EX.s1))}
    expected |= {Statement(str(EX.s0), str(EX.knows), str(EX.s1), ((str(EX.since), Literal("1949-12-25", str(XSD.date))),))}
    if syntax == "json-ld":  # written as a number of JSON, for which JSON-LD defines the text
        wrong = next(one for one in expected if isinstance(one.tail, Literal) and one.tail.lexical == DOUBLE)
        expected = expected - {wrong} | {replace(wrong, tail=wrong.tail._replace(lexical="1.5E3"))}
    graph, report = import_graph(tmp_path / SYNTAX[syntax])
    assert set(graph.statements("train")) == expected
    assert len(expected) == 2 * len(VALUES)
    assert not report.literals

"""A sound file of every form that can be read, with one of each thing that the form has: what the fuzzer starts from."""

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from starqe.kg import FORMS

_VALUES: dict[str, Any] = {
    "wikibase-entityid": {"entity-type": "item", "numeric-id": 5, "id": "Q5"},
    "time": {"time": "+1921-00-00T00:00:00Z", "precision": 9, "timezone": 0, "calendarmodel": "http://www.wikidata.org/entity/Q1985727"},
    "quantity": {"amount": "+1.5", "unit": "http://www.wikidata.org/entity/Q11573", "upperBound": "+2", "lowerBound": "+1"},
    "globecoordinate": {"latitude": 48.4, "longitude": 10.0, "precision": 0.1, "globe": "http://www.wikidata.org/entity/Q2"},
    "monolingualtext": {"text": "Ulm", "language": "de"},
    "string": "118529579",
}
_SNAKS = [
    {"snaktype": "value", "property": f"P{i}", "datavalue": {"type": type_, "value": value}}
    for i, (type_, value) in enumerate(_VALUES.items())
]
_CLAIMS = {
    snak["property"]: [
        {"mainsnak": snak, "rank": "normal", "type": "statement", "qualifiers": {"P9": [{**_SNAKS[0], "property": "P9"}]}},
        {"mainsnak": {"snaktype": "novalue", "property": snak["property"]}, "rank": "preferred", "type": "statement"},
    ]
    for snak in _SNAKS
}
_WIKIDATA = {"type": "item", "id": "Q937", "labels": {"en": {"language": "en", "value": "Einstein"}}, "claims": _CLAIMS}
_PREFIX = '<?xml version="1.0"?>\n'
_XMLNS = 'xml:base="urn:d:" xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:r="urn:r:"'
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_TURTLE = (
    '@prefix : <urn:x:> .\n:a :r :b {| :q :c |} .\n:b :r [ :s :c ] , "text"@en , 1.5 .\n<< :a :r :c >> :q :b .\n:a :r <<( :a :r :b )>> .\n'
)
_LINES = "<urn:a> <urn:r> <urn:b> .\n_:x <urn:q> <urn:c> .\n" + f"_:x <{_RDF}reifies> <<( <urn:a> <urn:r> <urn:b> )>> .\n"
_QUOTED = "<< <urn:a> <urn:r> <urn:b> >> <urn:q> << << <urn:a> <urn:r> <urn:b> >> <urn:r> <urn:b> >> "
_TYPED = "<http://www.w3.org/2001/XMLSchema#integer>"
TEXTS: dict[str, dict[str, str]] = {
    "statements": {"a.txt": "a,r,b,q,c\nb,r,c\n", "b.tsv": "a\tr\tb\tq\tc\nb\tr\tc\n", "c.csv": '"a, b",r,"b ""x""",q,c\n'},
    "turtle": {"a.ttl": _TURTLE},
    "trig": {"a.trig": _TURTLE + ":g { :a :s :b . }\n"},
    "turtle-star": {"a.ttls": _TURTLE + "<< << :a :r :c >> :q :b >> :r << :a :r :b >> .\n"},
    "trig-star": {"a.trigs": _TURTLE + ":g { << :a :r :c >> :q :c . }\n"},
    "n3": {"a.n3": "@prefix : <urn:x:> .\n:a :r :b ; :s ( :b :c ) .\n"},
    "ntriples": {"a.nt": _LINES + _QUOTED + ".\n"},
    "nquads": {"a.nq": _LINES + _QUOTED + "<urn:g> .\n" + f'<urn:a> <urn:s> "7"^^{_TYPED} <urn:g> .\n'},
    "reification": {
        "a.reified.nq": "".join(f"_:s <{_RDF}{part}> <urn:{part}> .\n" for part in ("subject", "predicate", "object"))
        + "_:s <urn:q> <urn:c> .\n<urn:subject> <urn:predicate> <urn:object> .\n"
    },
    "rdfxml": {
        "a.rdf": f'{_PREFIX}<!DOCTYPE rdf:RDF [ <!ENTITY x "urn:x:"> ]>\n<rdf:RDF {_XMLNS}>\n<rdf:Description rdf:about="&x;a">'
        '<r:r rdf:ID="s" rdf:resource="urn:b"/><r:n rdf:datatype="urn:t">5</r:n><r:m rdf:parseType="Collection">'
        '<rdf:Description rdf:about="urn:c"/></r:m></rdf:Description>\n</rdf:RDF>\n'
    },
    "jsonld": {
        "a.jsonld": json.dumps(
            {"@context": {"r": {"@id": "urn:r", "@type": "@id"}}, "@graph": [{"@id": "urn:a", "r": ["urn:b", "urn:c"], "urn:n": 5}]}
        )
    },
    "wikidata": {
        "a.json": "[\n" + json.dumps(_WIKIDATA) + ",\n" + json.dumps({**_WIKIDATA, "id": "Q5"}) + "\n]\n",
        "b.json": json.dumps(_WIKIDATA),
    },
    "kgtk": {"a.tsv": "id\tnode1\tlabel\tnode2\ne1\tQ1\tP1\tQ2\nq1\te1\tP2\tQ3\ne2\tQ1\tP3\t5.5\ne3\tQ1\tlabel\t'Ulm'@de\n"},
    "neo4j": {
        "nodes.csv": "id:ID,name,age:int,:LABEL\n1,Ann,5,Person;Actor\n2,Bob,,Person\n",
        "edges.csv": ":START_ID,since:date,weights:double[],:END_ID,:TYPE\n1,2020-01-01,1.5;2,2,KNOWS\n",
    },
    "neptune": {
        "nodes.csv": "~id,~label,name:String,age:Int\n1,Person,Ann,5\n2,Person,Bob,\n",
        "edges.csv": "~id,~from,~to,~label,since:Date\ne1,1,2,KNOWS,2020-01-01\n",
    },
    "graphml": {
        "a.graphml": f'{_PREFIX}<graphml><key id="d0" for="edge" attr.name="weight" attr.type="double"/><graph edgedefault="directed">'
        '<node id="a" labels=":Person"><data key="name">Ann</data></node><node id="b"/>'
        '<edge source="a" target="b" label="KNOWS"><data key="d0">0.5</data></edge></graph></graphml>\n'
    },
    "graphson": {
        "one.json": json.dumps(
            {
                "vertices": [
                    {"id": 1, "label": "person", "type": "vertex", "properties": {"name": [{"id": 0, "value": "Ann"}]}},
                    {"id": 2},
                ],
                "edges": [{"id": 3, "label": "knows", "type": "edge", "inV": 2, "outV": 1, "properties": {"since": 2020}}],
            }
        ),
        "three.json": json.dumps(
            {
                "id": {"@type": "g:Int32", "@value": 1},
                "label": "person",
                "outE": {"knows": [{"id": {"@type": "g:Int64", "@value": 7}, "inV": {"@type": "g:Int32", "@value": 2}}]},
                "properties": {"name": [{"id": {"@type": "g:Int64", "@value": 0}, "value": "Ann"}]},
            }
        )
        + "\n"
        + json.dumps({"id": {"@type": "g:Int32", "@value": 2}, "label": "person"})
        + "\n",
    },
    "table": {
        "a.csv": "head,relation,tail,since\na,r,b,2020-01-01\nb,r,c,\n",
        "a.tsv": "head\trelation\ttail\tsince\na\tr\tb\t2020\n",
        "a.jsonl": '{"head": "a", "relation": "r", "tail": "b", "since": [1.5, true, null]}\n{"head": 1, "relation": "r", "tail": 2}\n',
    },
    "nary": {"a.json": '{"r_h": "a", "r_t": "b", "q": ["c", "d"], "N": 4}\n{"s_h": "b", "s_t": "c", "N": 2}\n'},
    "jsonl": {
        "a.jsonl": '{"head": "a", "relation": "r", "tail": "b", "qualifiers": {"q": ["c", 5]}, "split": "train"}\n'
        '{"id": "a", "labels": {"en": "A"}, "kind": "entity"}\n'
    },
    "typed-statements": {"a.txt": '3\na\tr\tb\tq\tc\na\ts\t"5.5"^^<km2>\nb\tt\t"1949-12-25"^^xsd:date\tq\t"x"@en\n'},
}


def _parquet() -> bytes:
    rows = [{"head": "a", "relation": "r", "tail": "b", "since": [1.5]}, {"head": "b", "relation": "r", "tail": "c", "since": None}]
    output = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows), output)
    return output.getvalue()


SOUND: dict[str, dict[str, bytes]] = {form: {name: text.encode() for name, text in files.items()} for form, files in TEXTS.items()}
"""Form -> file name -> content."""
SOUND["table"]["a.parquet"] = _parquet()
assert SOUND.keys() == {name for name, form in FORMS.items() if form.read}, "every form that can be read is fuzzed"

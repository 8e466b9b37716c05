"""Answers as SPARQL results: JSON, XML, CSV and TSV by the W3C's rules."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pyoxigraph import BlankNode, QueryResultsFormat, RdfFormat, parse, parse_query_results, serialize

from starqe.ask import Answers, Binding
from starqe.kg import Names

XSD = "http://www.w3.org/2001/XMLSchema#"


def write_results(answers: Answers, names: Names, form: QueryResultsFormat) -> bytes:
    """Writes a row for each answer, with the columns of the query; unbound columns are left out."""
    rows = []
    for answer in answers:
        row = {name: term(binding, names) for name, binding in answer.bindings.items() if binding is not None}
        if "score" in answers.columns:
            row["score"] = {"type": "literal", "value": repr(answer.probability), "datatype": XSD + "double"}
        if "known" in answers.columns:
            row["known"] = {"type": "literal", "value": str(answer.known).lower(), "datatype": XSD + "boolean"}
        rows.append(row)
    return write_rows(answers.columns, rows, form)


def term(binding: Binding, names: Names) -> Mapping[str, Any]:
    """Returns a binding as a term of SPARQL results in JSON."""
    if binding.term is not None:
        return binding.term
    written = (names.relations if binding.kind == "relation" else names.entities).term(binding.value)
    return {"type": "bnode" if isinstance(written, BlankNode) else "uri", "value": written.value}


def write_rows(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], form: QueryResultsFormat) -> bytes:
    """Writes rows of terms, which are given in the form of JSON results."""
    return _written({"head": {"vars": columns}, "results": {"bindings": rows}}, form)


def write_boolean(value: bool, form: QueryResultsFormat, probability: float | None = None) -> bytes:
    """Writes the result of ASK; the JSON form also has the probability that it is true in the complete graph."""
    more = {} if probability is None or form != QueryResultsFormat.JSON else {"probability": probability}
    return _written({"head": {}, "boolean": value, **more}, form)


def write_graph(lines: Sequence[str], form: RdfFormat) -> bytes:
    """Writes triples, which come as lines of N-Triples."""
    output = io.BytesIO()
    serialize(parse("\n".join(lines), format=RdfFormat.N_TRIPLES), output, format=form)
    return output.getvalue()


def _written(content: dict[str, Any], form: QueryResultsFormat) -> bytes:
    written = orjson.dumps(content)
    if form == QueryResultsFormat.JSON:
        return written
    # pyoxigraph writes the other forms from parsed JSON results; it cannot build results row by row.
    output = io.BytesIO()
    parse_query_results(written, format=QueryResultsFormat.JSON).serialize(output, format=form)
    return output.getvalue()


def iri(binding: Binding | None, names: Names) -> str:
    """Returns a binding in RDF notation: an IRI, a blank node with ``_:`` before it, or the text of a literal."""
    if binding is None:
        return ""
    found = term(binding, names)
    return f"_:{found['value']}" if found["type"] == "bnode" else binding.value if found["type"] == "triple" else str(found["value"])

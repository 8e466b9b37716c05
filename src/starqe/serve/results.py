"""Answers as SPARQL results: JSON, XML, CSV and TSV by the W3C's rules."""

import io
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from pyoxigraph import BlankNode, QueryResultsFormat, RdfFormat, parse, parse_query_results, serialize

from starqe.ask import Answer, Answers
from starqe.kg import Names
from starqe.queries.sparql.read import SparqlRequest

XSD = "http://www.w3.org/2001/XMLSchema#"


def write_results(request: SparqlRequest, answers: Answers, names: Names, form: QueryResultsFormat) -> bytes:
    """Writes a row for each answer, with the columns that were asked for."""

    def binding(answer: Answer, column: str) -> dict[str, str]:
        match column:
            case "score":
                return {"type": "literal", "value": repr(answer.probability), "datatype": XSD + "double"}
            case "known":
                return {"type": "literal", "value": str(answer.known).lower(), "datatype": XSD + "boolean"}
            case request.query.target.name:
                return _node(answer.entity, names)
        return _node(answer.support[column], names)

    rows = [{column: binding(answer, column) for column in request.columns} for answer in answers]
    return write_rows(request.columns, rows, form)


def write_rows(columns: Sequence[str], rows: Sequence[Mapping[str, Any]], form: QueryResultsFormat) -> bytes:
    """Writes rows of terms, each in the form that it has in JSON."""
    return _written({"head": {"vars": columns}, "results": {"bindings": rows}}, form)


def write_boolean(value: bool, form: QueryResultsFormat) -> bytes:
    """Writes the result of ASK."""
    return _written({"head": {}, "boolean": value}, form)


def write_graph(lines: Sequence[str], form: RdfFormat) -> bytes:
    """Writes triples, which come as lines of N-Triples."""
    output = io.BytesIO()
    serialize(parse("\n".join(lines), format=RdfFormat.N_TRIPLES), output, format=form)
    return output.getvalue()


def _written(content: dict[str, Any], form: QueryResultsFormat) -> bytes:
    written = orjson.dumps(content)
    if form == QueryResultsFormat.JSON:
        return written
    # pyoxigraph makes the other forms; results are something that it reads, but cannot build row by row.
    output = io.BytesIO()
    parse_query_results(written, format=QueryResultsFormat.JSON).serialize(output, format=form)
    return output.getvalue()


def iri(entity: str, names: Names) -> str:
    """Returns an entity as RDF writes it: an IRI, or a blank node with ``_:`` before it."""
    term = names.entities.term(entity)
    return str(term) if isinstance(term, BlankNode) else term.value


def _node(entity: str, names: Names) -> dict[str, str]:
    term = names.entities.term(entity)
    return {"type": "bnode" if isinstance(term, BlankNode) else "uri", "value": term.value}

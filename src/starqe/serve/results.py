"""Answers as SPARQL results: JSON, XML, CSV and TSV by the W3C's rules."""

import io
import json
from typing import Any

from pyoxigraph import BlankNode, QueryResultsFormat, parse_query_results

from starqe.ask import Answer, Answers
from starqe.kg import Names
from starqe.queries.sparql import SparqlRequest

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
    content: dict[str, Any] = {"head": {"vars": request.columns}, "results": {"bindings": rows}}
    written = json.dumps(content, ensure_ascii=False).encode()
    if form == QueryResultsFormat.JSON:
        return written
    # pyoxigraph makes the other forms; results are something that it reads, but cannot build row by row.
    output = io.BytesIO()
    parse_query_results(written, format=QueryResultsFormat.JSON).serialize(output, format=form)
    return output.getvalue()


def iri(entity: str, names: Names) -> str:
    """Gives an entity as RDF writes it: an IRI, or a blank node with ``_:`` before it."""
    term = names.entities.term(entity)
    return str(term) if isinstance(term, BlankNode) else term.value


def _node(entity: str, names: Names) -> dict[str, str]:
    term = names.entities.term(entity)
    return {"type": "bnode" if isinstance(term, BlankNode) else "uri", "value": term.value}

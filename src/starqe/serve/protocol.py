"""The SPARQL 1.1 Protocol: queries by GET, form and direct POST; results in the form that the client prefers."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from starqe.ask import THRESHOLD, Answers, constructed
from starqe.errors import KnownOnlyError
from starqe.kg import Names
from starqe.queries.sparql.request import SparqlRequest
from starqe.queries.store.known_store import Rows, Triples
from starqe.serve.api import documented
from starqe.serve.bodies import EXAMPLE
from starqe.serve.negotiation import BOOLEANS, FORMS, GRAPHS, choose
from starqe.serve.problems import HttpError
from starqe.serve.results import write_boolean, write_graph, write_results, write_rows
from starqe.serve.service import AskOptions, service_of

FORM, DIRECT = "application/x-www-form-urlencoded", "application/sparql-query"
REFUSED = {
    "update": "the graph is never changed here, found the parameter 'update'. Send a query",
    "default-graph-uri": "there is one graph here, found the parameter 'default-graph-uri'. Leave it out",
    "named-graph-uri": "there is one graph here, found the parameter 'named-graph-uri'. Leave it out",
}
"""Parameters of the protocol that are refused; unknown ones are ignored, as the protocol says."""
_MOST_FIELDS = 100
NOTE = "Starqe-Note"
"""The header with the notes on the answers, for which SPARQL results have no field."""
KNOWN_ONLY = "These are known facts only: nothing is predicted for a query of this form."
"""The note on a result of the store of known facts."""
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}

_PARAMETERS: list[dict[str, Any]] = [
    {"name": name, "in": "query", "required": False, "description": text, "schema": schema}
    for name, text, schema in (
        ("predicted", "Whether predicted rows follow the known ones.", {"type": "boolean"}),
        ("top", "At most this many known and this many predicted rows.", {"type": "integer", "minimum": 1}),
        ("threshold", "The minimum probability of a predicted row without top and LIMIT.", {"type": "number", "default": THRESHOLD}),
        ("known_only", "Leave the predictions out.", {"type": "boolean", "default": False}),
    )
]
_QUERY = {"name": "query", "in": "query", "required": True, "schema": {"type": "string"}, "example": EXAMPLE}
_BODY = {
    "required": True,
    "content": {
        DIRECT: {"schema": {"type": "string"}, "example": EXAMPLE},
        FORM: {"schema": {"type": "object", "properties": {"query": {"type": "string", "example": EXAMPLE}}, "required": ["query"]}},
    },
}


def sparql_routes() -> APIRouter:
    """Returns the route ``/sparql``."""
    errors = documented((406, "No form of results suits the Accept header."), (415, "The body is neither a form nor a query."))
    found = {"description": "SPARQL results.", "content": {form: {"schema": {}} for form in FORMS}}
    router = APIRouter(tags=["SPARQL"], responses={**errors, 200: found}, default_response_class=Response)

    @router.get("/sparql", openapi_extra={"parameters": [_QUERY, *_PARAMETERS]})
    async def sparql_by_get(client: Request) -> Response:
        """Answers a query in the URL."""
        return await respond(client, fields(client.url.query))

    @router.post("/sparql", openapi_extra={"parameters": _PARAMETERS, "requestBody": _BODY})
    async def sparql_by_post(client: Request) -> Response:
        """Answers a query in the body: as a form, or directly."""
        media_type, body = _media_type(client), await client.body()
        if media_type == FORM:
            return await respond(client, fields(client.url.query) + fields(_text(body)))
        return await respond(client, [*fields(client.url.query), ("query", _text(body))])

    async def respond(client: Request, given: list[tuple[str, str]]) -> Response:
        service = service_of(client)
        text, accept = _query(given), ",".join(client.headers.getlist("accept"))
        try:
            request = await service.read(text, client)
        except KnownOnlyError as error:
            return await respond_known(client, text, accept, f"{KNOWN_ONLY} {error}")
        media_type = _chosen(accept, {"SELECT": FORMS, "ASK": BOOLEANS, "CONSTRUCT": GRAPHS}[request.form])
        options = _options(given, request)
        answers = await service.ask(request, options, client)
        content = await service.write(lambda: _written(request, answers, options, media_type, service.answerer.graph.names), client)
        headers = {NOTE: _header(" ".join(answers.notes))} if answers.notes else {}
        return Response(content, media_type=media_type, headers={"Vary": "Accept", **headers})

    async def respond_known(client: Request, text: str, accept: str, note: str) -> Response:
        service = service_of(client)
        found = await service.ask_known(text, client)
        match found:
            case bool():
                media_type = _chosen(accept, BOOLEANS)
                content = write_boolean(found, FORMS[media_type])
            case Rows():
                media_type = _chosen(accept, FORMS)
                content = await service.write(lambda: write_rows(found.variables, found.rows, FORMS[media_type]), client)
            case Triples():
                media_type = _chosen(accept, GRAPHS)
                content = await service.write(lambda: write_graph(found.lines, GRAPHS[media_type]), client)
        if not isinstance(found, bool) and not found.complete:
            note = f"{note} Only the first {service.settings.known:,} rows are given."
        return Response(content, media_type=media_type, headers={"Vary": "Accept", NOTE: _header(note)})

    return router


def _written(request: SparqlRequest, answers: Answers, options: AskOptions, media_type: str, names: Names) -> bytes:
    match request.form:
        case "ASK":
            return write_boolean(answers.boolean, FORMS[media_type], None if options.known_only else answers.probability)
        case "CONSTRUCT":
            return write_graph(constructed(request.template, answers, names), GRAPHS[media_type])
    return write_results(answers, names, FORMS[media_type])


def _chosen(accept: str, offered: Iterable[str]) -> str:
    media_type = choose(accept, offered)
    if media_type is None:
        raise HttpError(406, f"results come as {', '.join(offered)}, found Accept: {accept}")
    return media_type


def fields(text: str) -> list[tuple[str, str]]:
    """Reads a form, or the query string of a URL.

    Raises:
        HttpError: It is not UTF-8 in percent-encoding, or has too many fields.
    """
    try:
        return parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except UnicodeDecodeError:
        raise HttpError(400, "parameters are UTF-8 in percent-encoding, found other bytes") from None
    except ValueError:
        raise HttpError(400, f"there are at most {_MOST_FIELDS} parameters, found more") from None


def _query(given: list[tuple[str, str]]) -> str:
    """Returns the one query, and refuses features of the protocol that this service does not have."""
    for name, value in given:
        if name in REFUSED and value:  # forms send what was left empty
            raise HttpError(400, REFUSED[name])
    texts = [value for name, value in given if name == "query"]
    if len(texts) != 1:
        raise HttpError(400, f"a request has one query, found {len(texts) or 'none'}. Give the parameter 'query' once")
    return texts[0]


def _options(given: list[tuple[str, str]], request: SparqlRequest) -> AskOptions:
    """Reads the parameters. Predictions are opt-in: a client that does not ask for them must not take a guess for a fact."""
    values = dict(given)
    wants_predicted = request.known or request.score or "top" in values or "threshold" in values
    try:
        top = int(values["top"]) if "top" in values else None
        threshold = float(values.get("threshold", THRESHOLD))
        predicted = _TRUTHS[values["predicted"].lower()] if "predicted" in values else wants_predicted
        known_only = _TRUTHS[values.get("known_only", "false").lower()]
    except (KeyError, ValueError):
        rule = "'top' is a number, 'threshold' a number from 0 to 1, and 'predicted' and 'known_only' are true or false"
        raise HttpError(400, f"{rule}. Correct the parameter") from None
    if (top is not None and top < 1) or not 0 <= threshold <= 1:
        raise HttpError(400, f"'top' is 1 or more, and 'threshold' from 0 to 1, found {top} and {threshold}")
    return AskOptions(top, threshold, known_only or not predicted)


def _media_type(client: Request) -> str:
    media_type, *parameters = (part.strip().lower() for part in client.headers.get("content-type", "").split(";"))
    charsets = [parameter.partition("=")[2].strip('" ') for parameter in parameters if parameter.startswith("charset")]
    if media_type not in (FORM, DIRECT) or any(charset not in ("utf-8", "utf8", "us-ascii") for charset in charsets):
        found = client.headers.get("content-type") or "no Content-Type"
        raise HttpError(415, f"a query is posted as {DIRECT} or {FORM}, in UTF-8, found {found}")
    return media_type


def _text(body: bytes) -> str:
    try:
        return body.decode()
    except UnicodeDecodeError as error:
        raise HttpError(400, f"a query is UTF-8, found other bytes at {error.start:,}") from None


def _header(text: str) -> str:
    """Writes a text as a header value: ASCII on one line, everything else escaped."""
    return text[:1_000].encode("unicode_escape").decode()

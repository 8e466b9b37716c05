"""The SPARQL 1.1 Protocol: queries by GET, form and direct POST; results in the form that the client likes best."""

from typing import Any
from urllib.parse import parse_qsl

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from starqe.serve.api import documented
from starqe.serve.bodies import EXAMPLE
from starqe.serve.negotiation import FORMS, choose
from starqe.serve.problems import HttpError
from starqe.serve.results import write_results
from starqe.serve.service import AskOptions, Service

FORM, DIRECT = "application/x-www-form-urlencoded", "application/sparql-query"
REFUSED = {
    "update": "the graph is never changed here, found the parameter 'update'. Send a query",
    "default-graph-uri": "there is one graph here, found the parameter 'default-graph-uri'. Leave it out",
    "named-graph-uri": "there is one graph here, found the parameter 'named-graph-uri'. Leave it out",
}
"""Parameters of the protocol that are refused; others that nobody knows are left aside, as the protocol has it."""
_MOST_FIELDS = 100
NOTE = "Starqe-Note"
"""The header that carries the notes to the answers, which SPARQL results have no place for."""
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}

_PARAMETERS: list[dict[str, Any]] = [
    {"name": name, "in": "query", "required": False, "description": text, "schema": schema}
    for name, text, schema in (
        ("top", "How many answers are wanted, known and predicted together.", {"type": "integer", "minimum": 1}),
        ("threshold", "How probable a predicted answer has to be where top and LIMIT are left out.", {"type": "number", "default": 0.5}),
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


def sparql_routes(service: Service) -> APIRouter:
    """Gives the route ``/sparql``."""
    errors = documented((406, "No form of results suits the Accept header."), (415, "The body is neither a form nor a query."))
    found = {"description": "SPARQL results.", "content": {form: {"schema": {}} for form in FORMS}}
    router = APIRouter(tags=["SPARQL"], responses={**errors, 200: found}, default_response_class=Response)

    @router.get("/sparql", openapi_extra={"parameters": [_QUERY, *_PARAMETERS]})
    async def sparql_by_get(client: Request) -> Response:
        """Answers a query that stands in the address."""
        return await respond(client, fields(client.url.query))

    @router.post("/sparql", openapi_extra={"parameters": _PARAMETERS, "requestBody": _BODY})
    async def sparql_by_post(client: Request) -> Response:
        """Answers a query that stands in the body: as a form, or by itself."""
        media_type, body = _media_type(client), await client.body()
        if media_type == FORM:
            return await respond(client, fields(client.url.query) + fields(_text(body)))
        return await respond(client, [*fields(client.url.query), ("query", _text(body))])

    async def respond(client: Request, given: list[tuple[str, str]]) -> Response:
        text, options = _query(given), _options(given)
        media_type = choose(",".join(client.headers.getlist("accept")))
        if media_type is None:
            raise HttpError(406, f"results come as {', '.join(FORMS)}, found Accept: {client.headers['accept']}")
        request = await service.read(text, client)
        answers = await service.ask(request, options, client)
        content = write_results(request, answers, service.answerer.graph.names, FORMS[media_type])
        headers = {NOTE: _header(" ".join(answers.notes))} if answers.notes else {}
        return Response(content, media_type=media_type, headers={"Vary": "Accept", **headers})

    return router


def fields(text: str) -> list[tuple[str, str]]:
    """Reads a form, or the part of an address after the question mark.

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
    """Gives the one query, and refuses what the protocol has and this service does not."""
    for name, _ in given:
        if name in REFUSED:
            raise HttpError(400, REFUSED[name])
    texts = [value for name, value in given if name == "query"]
    if len(texts) != 1:
        raise HttpError(400, f"a request has one query, found {len(texts) or 'none'}. Give the parameter 'query' once")
    return texts[0]


def _options(given: list[tuple[str, str]]) -> AskOptions:
    values = dict(given)
    try:
        top = int(values["top"]) if "top" in values else None
        threshold = float(values.get("threshold", AskOptions.threshold))
        known_only = _TRUTHS[values.get("known_only", "false").lower()]
    except (KeyError, ValueError):
        raise HttpError(400, "'top' is a number, 'threshold' a number from 0 to 1, and 'known_only' true or false") from None
    if (top is not None and top < 1) or not 0 <= threshold <= 1:
        raise HttpError(400, f"'top' is 1 or more, and 'threshold' from 0 to 1, found {top} and {threshold}")
    return AskOptions(top, threshold, known_only)


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
    """Writes a text as a header can carry it: ASCII on one line, everything else escaped."""
    return text[:1_000].encode("unicode_escape").decode()

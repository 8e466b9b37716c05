"""The JSON routes, which the page uses."""

import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

import numpy as np
import pyoxigraph as ox
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from starqe import __version__
from starqe.ask import Answer, Answers, Binding
from starqe.ask.known_rows import Binder
from starqe.errors import KnownOnlyError, UnknownNameError
from starqe.kg import Graph, Vocabulary
from starqe.queries.sparql.request import RESERVED, SparqlRequest
from starqe.queries.store.known_store import Rows, StoreResult, Triples
from starqe.serve import bodies, drawn
from starqe.serve.drawing import draw_request, explained, one_answer
from starqe.serve.results import iri
from starqe.serve.service import AskOptions, Service, service_of

ERRORS: Mapping[int, str] = {
    400: "The query breaks a rule, or is not supported; or the Host header is not one of this service.",
    401: "A token is needed.",
    408: "The client took too long to send its body.",
    413: "The body is too long.",
    422: "The body or a parameter is not as described.",
    500: "Internal error; the log has details under the id of the message.",
    503: "The service is overloaded. Retry-After says when to try again.",
}
"""Status -> meaning, for all routes that answer queries."""

TRIPLE = ("subject", "predicate", "object")
"""The columns of triples that are shown as rows."""

Prefix = Annotated[str, Query(max_length=200, description="The beginning of a label, a word of it, or an identifier; in any case.")]
COUNT = Query(ge=1, le=100, description="The largest number of results.")


def documented(*more: tuple[int, str]) -> dict[int | str, dict[str, Any]]:
    """Returns the errors of a route in OpenAPI form."""
    return {status: {"model": bodies.ErrorBody, "description": text} for status, text in sorted({**ERRORS, **dict(more)}.items())}


def answered(found: Answers, request: SparqlRequest, graph: Graph, began: float) -> bodies.AskAnswer:
    """Converts answers to the response body, with the time since the request."""
    columns = [name for name in found.columns if name not in RESERVED]
    rows = [_row(answer, graph) for answer in found]
    return bodies.AskAnswer(
        columns=columns,
        known_splits=list(found.known_splits),
        notes=list(found.notes),
        calibrated=found.calibrated,
        counts=bodies.Counts(**asdict(found.counts)),
        answers=rows,
        drawing=draw_request(request, graph),
        milliseconds=round(1000 * (time.perf_counter() - began), 1),
    )


def known_answered(found: StoreResult, top: int | None, notes: list[str], service: Service, began: float) -> bodies.AskAnswer:
    """Converts what the store of known facts found to the response body: triples have three columns, and a truth has none."""
    columns, rows, complete = list[str](), [dict[str, Any]()] * (found is True), True
    match found:
        case Rows():
            columns, rows, complete = list(found.variables), [dict(row) for row in found.rows], found.complete
        case Triples():
            columns, complete = list(TRIPLE), found.complete
            quads = ox.parse("\n".join(found.lines), format=ox.RdfFormat.N_TRIPLES)
            rows = [dict(zip(TRIPLE, map(_term, (quad.subject, quad.predicate, quad.object)), strict=True)) for quad in quads]
    graph, shown = service.answerer.graph, rows[:top]
    binder = Binder(graph)
    bound = [{name: binder.of_term(row[name], name == "predicate") if name in row else None for name in columns} for row in shown]
    return bodies.AskAnswer(
        columns=columns,
        known_splits=list(service.answerer.splits),
        notes=[f"these are known facts only, and {notes[0]}", *notes[1:]],
        calibrated=service.answerer.calibrated,
        counts=bodies.Counts(known=len(rows), known_exact=complete, known_shown=len(shown), predicted_shown=0),
        answers=[_row(Answer(bindings, True, 1.0), graph) for bindings in bound],
        drawing=drawn.Drawing(nodes=[], edges=[]),
        predictable=False,
        milliseconds=round(1000 * (time.perf_counter() - began), 1),
    )


def _term(term: Any) -> dict[str, Any]:
    """Returns a term of a triple as SPARQL results in JSON have it."""
    if isinstance(term, ox.Literal):
        tagged = {"xml:lang": term.language} if term.language else {"datatype": term.datatype.value}
        return {"type": "literal", "value": term.value, **tagged}
    if isinstance(term, ox.Triple):
        return {"type": "triple", "value": dict(zip(TRIPLE, map(_term, (term.subject, term.predicate, term.object)), strict=True))}
    return {"type": "bnode" if isinstance(term, ox.BlankNode) else "uri", "value": term.value}


def _row(answer: Answer, graph: Graph) -> bodies.Row:
    bindings = {name: None if one is None else _bound(one, graph) for name, one in answer.bindings.items()}
    support = {name: drawn.Named(entity=one.entity, label=one.label) for name, one in list(bindings.items())[1:] if one is not None}
    first = next(iter(answer.bindings.values()), None)
    return bodies.Row(**one_answer(answer).model_dump(), iri=iri(first, graph.names), support=support, bindings=bindings)


def _bound(one: Binding, graph: Graph) -> bodies.Bound:
    term = one.term or {}
    typed = {"datatype": term.get("datatype"), "language": term.get("xml:lang")}
    return bodies.Bound(entity=one.value, label=one.label, kind=one.kind, iri=iri(one, graph.names), interval=one.interval, **typed)


def found_name(vocabulary: Vocabulary, id_: int) -> bodies.FoundName:
    """Returns an entity or a relation with its label, and what to write for it in a query."""
    return bodies.FoundName(entity=vocabulary.identifier(id_), label=vocabulary.label(id_), name=vocabulary.name(id_))


def found_relations(graph: Graph, prefix: str, count: int) -> list[bodies.FoundRelation]:
    """Returns the relations that match a text, or without one the most frequent ones, with how often the graph uses them."""
    size = len(graph.relations)
    main, in_pairs = (np.bincount(column, minlength=size) for column in (graph.relation, graph.pair_relation))
    ids = graph.relations.find(prefix, count) if prefix else np.lexsort((-in_pairs, -main))[:count].tolist()
    return [
        bodies.FoundRelation(**found_name(graph.relations, id_).model_dump(), statements=int(main[id_]), qualifiers=int(in_pairs[id_]))
        for id_ in ids
    ]


def api_routes() -> APIRouter:
    """Returns the JSON routes."""
    router = APIRouter(prefix="/api", tags=["JSON"], responses=documented())
    _add_questions(router)
    _add_look_ups(router)
    return router


def _add_questions(router: APIRouter) -> None:
    """Adds the routes that take a query."""

    @router.post("/ask", response_model=bodies.AskAnswer)
    async def ask(body: bodies.AskBody, client: Request) -> Response:
        """Answers a query: what is known, and what is predicted. In a form that is not predicted, known facts alone answer it."""
        began, service = time.perf_counter(), service_of(client)
        graph = service.answerer.graph
        try:
            request = await service.read(body.query, client)
        except KnownOnlyError as reason:
            if isinstance(reason, UnknownNameError):
                raise
            by_facts, notes = await service.ask_known(body.query, client), service.answerer.known_notes(body.query, reason)
            written = await service.write(
                lambda: known_answered(by_facts, body.top, notes, service, began).model_dump_json(by_alias=True), client
            )
            return Response(written, media_type="application/json")
        found = await service.ask(request, AskOptions(body.top, body.threshold, body.known_only), client)
        content = await service.write(lambda: answered(found, request, graph, began).model_dump_json(by_alias=True), client)
        return Response(content, media_type="application/json")

    @router.post("/check")
    async def check(body: bodies.CheckBody, client: Request) -> bodies.CheckAnswer:
        """Parses a query without answering it. One in a form that is not predicted has an empty drawing."""
        service = service_of(client)
        try:
            return bodies.CheckAnswer(drawing=draw_request(await service.read(body.query, client), service.answerer.graph))
        except KnownOnlyError as reason:
            if isinstance(reason, UnknownNameError):
                raise
            return bodies.CheckAnswer(drawing=drawn.Drawing(nodes=[], edges=[]), predictable=False)

    @router.post("/explain")
    async def explain(body: bodies.ExplainBody, client: Request) -> bodies.ExplainAnswer:
        """Explains why a row answers a query, or how it could."""
        service = service_of(client)
        request = await service.read(body.query, client)
        row = body.entity if body.row is None else body.row
        assert row is not None, "the body has one of both"
        return explained(await service.explain(request, row, client), service.answerer.graph)


def _add_look_ups(router: APIRouter) -> None:
    """Adds the routes that describe the graph."""

    @router.get("/entities")
    async def entities(client: Request, prefix: Prefix = "", count: Annotated[int, COUNT] = 10) -> bodies.Entities:
        """Finds entities by their names."""
        service = service_of(client)
        names = service.answerer.graph.entities
        found = await service.look_up(lambda: [found_name(names, id_) for id_ in names.find(prefix, count)], client)
        return bodies.Entities(entities=found)

    @router.get("/relations")
    async def relations(client: Request, prefix: Prefix = "", count: Annotated[int, COUNT] = 100) -> bodies.Relations:
        """Finds relations by their names, or lists the most frequent ones."""
        service = service_of(client)
        found = await service.look_up(lambda: found_relations(service.answerer.graph, prefix, count), client)
        return bodies.Relations(relations=found)

    @router.get("/examples")
    async def some_examples(client: Request) -> bodies.Examples:
        """Returns example queries for this graph."""
        return bodies.Examples(examples=await service_of(client).examples(client))

    @router.get("/graph")
    async def about_graph(client: Request) -> bodies.GraphAnswer:
        """Describes the graph in numbers."""
        service = service_of(client)
        graph = service.answerer.graph
        return bodies.GraphAnswer(
            name=service.settings.name,
            statements=len(graph),
            entities=len(graph.entities),
            relations=len(graph.relations),
            known_splits=list(service.answerer.splits),
            version=__version__,
        )

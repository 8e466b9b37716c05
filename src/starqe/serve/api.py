"""The JSON routes: what the page asks."""

import time
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.requests import Request

from starqe import __version__
from starqe.ask import Answers
from starqe.kg import Graph
from starqe.queries.sparql import RESERVED
from starqe.serve import bodies
from starqe.serve.drawing import draw, explained, named, one_answer
from starqe.serve.results import iri
from starqe.serve.service import AskOptions, Service

ERRORS: Mapping[int, str] = {
    400: "The query breaks a rule, or goes beyond what is answered; or the Host header is not one of this service.",
    401: "A token is needed.",
    408: "The client took too long to send its body.",
    413: "The body is too long.",
    422: "The body or a parameter is not as described.",
    500: "Something went wrong here; the log has more under the id of the message.",
    503: "There is too much to do. Retry-After says when to try again.",
}
"""Status -> what it means, for all routes that answer queries."""


def documented(*more: tuple[int, str]) -> dict[int | str, dict[str, Any]]:
    """Gives the errors of a route as OpenAPI has them."""
    return {status: {"model": bodies.ErrorBody, "description": text} for status, text in sorted({**ERRORS, **dict(more)}.items())}


def answered(found: Answers, graph: Graph, began: float) -> bodies.AskAnswer:
    """Gives answers as the interface has them, with the time since they were asked for."""
    columns = [name for name in found.columns if name not in RESERVED]
    rows = [
        bodies.Row(
            **one_answer(answer).model_dump(),
            iri=iri(answer.entity, graph.names),
            support={name: named(graph.entities, entity) for name, entity in answer.support.items() if name in columns},
        )
        for answer in found
    ]
    return bodies.AskAnswer(
        columns=columns,
        known_splits=list(found.known_splits),
        notes=list(found.notes),
        answers=rows,
        drawing=draw(found.query, graph),
        milliseconds=round(1000 * (time.perf_counter() - began), 1),
    )


def api_routes(service: Service) -> APIRouter:
    """Gives the JSON routes."""
    router = APIRouter(prefix="/api", tags=["JSON"], responses=documented())
    graph = service.answerer.graph

    @router.post("/ask")
    async def ask(body: bodies.AskBody, client: Request) -> bodies.AskAnswer:
        """Answers a query: what is known, and what is predicted."""
        began = time.perf_counter()
        request = await service.read(body.query, client)
        found = await service.ask(request, AskOptions(body.top, body.threshold, body.known_only), client)
        return answered(found, graph, began)

    @router.post("/check")
    async def check(body: bodies.CheckBody, client: Request) -> bodies.CheckAnswer:
        """Reads a query without answering it."""
        return bodies.CheckAnswer(drawing=draw((await service.read(body.query, client)).query, graph))

    @router.post("/explain")
    async def explain(body: bodies.ExplainBody, client: Request) -> bodies.ExplainAnswer:
        """Says why an entity answers a query, or how it could."""
        request = await service.read(body.query, client)
        return explained(await service.explain(request, body.entity, client), graph)

    @router.get("/entities")
    async def entities(
        client: Request,
        prefix: Annotated[str, Query(max_length=200, description="How a label or an identifier begins, in upper or lower case.")] = "",
        count: Annotated[int, Query(ge=1, le=100, description="How many are wanted at most.")] = 10,
    ) -> bodies.Entities:
        """Finds entities by how their names begin."""
        found = await service.look_up(lambda: service.answerer.names.find(prefix, count), client)
        return bodies.Entities(entities=[bodies.Named(entity=entity, label=label) for entity, label in found])

    @router.get("/examples")
    async def some_examples(client: Request) -> bodies.Examples:
        """Gives some queries that this graph can be asked."""
        return bodies.Examples(examples=await service.examples(client))

    @router.get("/graph")
    async def about_graph() -> bodies.GraphAnswer:
        """Describes the graph in numbers."""
        return bodies.GraphAnswer(
            name=service.settings.name,
            statements=len(graph),
            entities=len(graph.entities),
            relations=len(graph.relations),
            known_splits=list(service.answerer.splits),
            version=__version__,
        )

    return router

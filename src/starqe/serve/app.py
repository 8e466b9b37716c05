"""The service as an application: routes, guards and error pages around an answerer."""

import contextlib
import functools
from collections.abc import AsyncIterator
from importlib import resources
from pathlib import Path

import orjson
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, Response

from starqe import __version__
from starqe.ask import Answerer
from starqe.errors import NotReadyError, StarqeError
from starqe.serve.api import api_routes, documented
from starqe.serve.bodies import Health
from starqe.serve.problems import BusyError, HttpError, refusal
from starqe.serve.protocol import NOTE, sparql_routes
from starqe.serve.running.guards import Bodies, Crowd, Hosts, Token, Watch
from starqe.serve.running.monitoring import CONTENT_TYPE
from starqe.serve.running.runs import Load, Loaded, Pinned, Runs
from starqe.serve.service import service_of
from starqe.serve.settings import ServeSettings


def create_app(answerer: Answerer | Loaded, settings: ServeSettings | None = None, load: Load | None = None) -> FastAPI:
    """Creates the service of an answerer: its routes, its limits and its page.

    Args:
        answerer: The answerer, or a run that was loaded with its settings.
        settings: Access and limits.
        load: Loads the run again, for a reload.
    """
    first = answerer if isinstance(answerer, Loaded) else Loaded(answerer, settings or ServeSettings())
    runs = Runs(first, load)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with runs.running():
            yield

    app = FastAPI(
        title="starqe",
        summary="Ask an incomplete knowledge graph.",
        version=__version__,
        lifespan=lifespan,
        openapi_url=None,  # see `_add_description`
        docs_url=None,  # these pages load their scripts from other sites
        redoc_url=None,
        middleware=_guards(runs, first.settings),
    )
    app.state.runs = runs
    app.include_router(sparql_routes())
    app.include_router(api_routes())
    _add_watching(app, runs)
    _add_reload(app, runs)
    _add_description(app)
    _add_page(app)
    _add_errors(app)
    return app


def page_files() -> dict[str, Path]:
    """Returns the files of the page by their paths: each by its name, and the page itself at the root."""
    folder = Path(str(resources.files(__package__).joinpath("page")))
    return {"/" if file.name == "index.html" else f"/{file.name}": file for file in sorted(folder.glob("*.*"))}


def _guards(runs: Runs, settings: ServeSettings) -> list[Middleware]:
    """Returns the middleware, the outermost first."""
    guards = [Middleware(Watch, metrics=runs.metrics), Middleware(Hosts, hosts=settings.hosts)]
    if settings.cors:
        allowed, exposed = ["Authorization", "Content-Type"], ["Retry-After", NOTE]
        guards.append(Middleware(CORSMiddleware, settings.cors, ["GET", "POST"], allow_headers=allowed, expose_headers=exposed))
    if settings.token is not None:
        guards.append(Middleware(Token, token=settings.token, open_paths={"/health", *page_files()}))
    return [*guards, Middleware(Crowd, settings=settings), Middleware(Bodies, settings=settings), Middleware(Pinned, runs=runs)]


def _add_watching(app: FastAPI, runs: Runs) -> None:
    @app.get("/health", tags=["watching"], response_model_exclude_none=True)
    async def health() -> Health:
        """Confirms that the service is running, and names the run that answers, and what is still being prepared."""
        preparing = runs.current.answerer.preparing
        if preparing is None:
            return Health(run=runs.fingerprint[:12])
        return Health(status="starting", run=runs.fingerprint[:12], preparing=[preparing])

    @app.get(
        "/metrics", tags=["watching"], response_class=Response, responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}}
    )
    async def metrics() -> Response:
        """Returns metrics in the text format of Prometheus."""
        return Response(runs.metrics.text(), headers={"Content-Type": CONTENT_TYPE})


def _add_reload(app: FastAPI, runs: Runs) -> None:
    more = (403, "The service has no token."), (409, "A run is being loaded already, or there is none to load.")

    @app.post("/reload", tags=["watching"], responses=documented(*more), response_model_exclude_none=True)
    async def reload(client: Request) -> Health:
        """Loads the run again and switches to it; no request is lost. Only for clients with a token."""
        if service_of(client).settings.token is None:
            raise HttpError(403, "only a service with a token can be reloaded over HTTP. Send the process SIGHUP instead", "NoToken")
        await runs.reload()
        return Health(run=runs.fingerprint[:12])


def _add_description(app: FastAPI) -> None:
    """Serves the OpenAPI description. It is generated once: the framework would generate it in the event loop for every request."""

    @functools.cache
    def written() -> bytes:
        return orjson.dumps(app.openapi())

    @app.get("/openapi.json", include_in_schema=False)
    async def description() -> Response:
        return Response(written(), media_type="application/json")


def _add_page(app: FastAPI) -> None:
    for path, file in page_files().items():

        async def page_file(_: Request, file: Path = file) -> FileResponse:
            return FileResponse(file, headers={"Cache-Control": "no-cache"})

        app.add_api_route(path, page_file, response_model=None, include_in_schema=False)


def _add_errors(app: FastAPI) -> None:
    @app.exception_handler(HttpError)
    async def problem(_: Request, error: HttpError) -> Response:
        return error.response()

    @app.exception_handler(NotReadyError)
    async def not_ready(client: Request, error: NotReadyError) -> Response:
        return BusyError(str(error), service_of(client).settings.retry_seconds, "NotReady").response()

    @app.exception_handler(StarqeError)
    async def starqe_error(_: Request, error: StarqeError) -> Response:
        if (response := refusal(error)) is None:
            raise error
        return response

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        return HttpError(422, _message(error), "InvalidRequest").response()

    @app.exception_handler(HTTPException)
    async def http_error(client: Request, error: HTTPException) -> Response:
        headers = dict(error.headers or {})
        if error.status_code == 405:  # the framework names the methods of one route only
            methods = [method.upper() for method in app.openapi()["paths"].get(client.url.path, ["get"])]
            headers["Allow"] = ", ".join([*methods, *(["HEAD"] if "GET" in methods else [])])
        return HttpError(error.status_code, str(error.detail), headers=headers).response()


def _message(error: RequestValidationError) -> str:
    """Describes in one line what is wrong with a body or with parameters, without repeating them."""
    parts = []
    for problem in error.errors():
        place = ".".join(str(part) for part in problem["loc"][1:])
        parts.append(f"'{place}': {problem['msg']}" if place else problem["msg"])
    return "; ".join(parts)

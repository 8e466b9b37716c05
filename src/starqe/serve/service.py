"""The service behind all routes: an answerer with its queues and limits."""

import asyncio
import contextlib
import json
import logging
import threading
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request

from starqe.ask import THRESHOLD, Answerer, Answers, Explanation
from starqe.deadline import Deadline
from starqe.queries import Variable
from starqe.queries.sparql.request import SparqlRequest
from starqe.queries.store.known_store import PARALLEL, StoreResult
from starqe.serve.bodies import Example
from starqe.serve.examples import examples
from starqe.serve.problems import HttpError
from starqe.serve.running.batches import Batches, Gone
from starqe.serve.running.monitoring import Metrics
from starqe.serve.running.processes import Processes
from starqe.serve.running.workers import Worker
from starqe.serve.settings import ServeSettings

T = TypeVar("T")
log = logging.getLogger("starqe.serve")
SHORT_BYTES = 2_048
"""Longer queries are parsed in the slow lane: parsing takes time in proportion to the length."""
QUICK_ATOMS, QUICK_JOINS = 4, 2
"""Queries with more triple patterns, or with more of them between two variables, are answered in the slow lane."""
SERVICE = "starqe_service"
"""The key of the service in the state of a request."""
SLOW_WORKERS = 2
"""Number of processes of the slow lane."""


@dataclass(frozen=True)
class AskOptions:
    """How many answers are wanted."""

    top: int | None = None
    threshold: float = THRESHOLD
    known_only: bool = False


@dataclass(frozen=True)
class _Ask:
    """The properties that all queries of a batch share."""

    options: AskOptions
    several: bool
    """Whether a row has several columns, so that there are more rows and each costs more."""


class Service:
    """Answers many clients concurrently.

    One thread parses queries and looks up names, several lanes answer (see `Batches`), and one thread writes responses. So a query
    that breaks a rule is refused before it waits, and the threads that answer never wait for the network or for JSON.
    """

    def __init__(self, answerer: Answerer, settings: ServeSettings, metrics: Metrics) -> None:
        self.answerer, self.settings = answerer, settings
        self.batches = Batches(self._work, settings, metrics)
        self._reading, self._writing = Worker("reading"), Worker("writing")
        self._processes: list[Processes] = []
        self._storing = ThreadPoolExecutor(PARALLEL, "storing")  # its threads only wait for the store's process
        self._examples: list[Example] = []

    @property
    def workers(self) -> Sequence[Worker]:
        """The threads that compute."""
        return (self._reading, self._writing, self.batches.quick.worker)

    def start_processes(self) -> None:
        """Moves the slow lane to processes of its own, and starts the helpers of the quick lane.

        Call it after the answerer has warmed up and while no thread computes, for a service that runs alone in its process.
        """
        slow = Processes(self._work, self.settings.slow_bytes)
        self._processes.append(slow)
        helpers = Processes(self._work, nice=0) if self.settings.helping else None
        if helpers is not None:
            self._processes.append(helpers)
        self.batches.use(slow, SLOW_WORKERS, helpers, self.settings.helping)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answers until the block ends."""
        async with self.batches.running():
            yield
        for worker in (self._reading, self._writing):
            worker.close()
        for processes in self._processes:
            processes.close()
        self.answerer.close()
        self._storing.shutdown(wait=False, cancel_futures=True)

    async def read(self, text: str, client: Request) -> SparqlRequest:
        """Reads a query.

        Raises:
            HttpError: The text is not Unicode, is too long, or too many long ones wait.
            SparqlError: The text is not valid, or the query is too large.
        """
        if self.settings.log_queries:
            log.info("query %s", json.dumps(text))
        try:
            size = len(text.encode())
        except UnicodeEncodeError:
            raise HttpError(400, "a query is Unicode text, found half a surrogate pair") from None
        if size > self.settings.query_bytes:
            message = f"a query has at most {self.settings.query_bytes:,} bytes here, found {size:,}. Ask several queries"
            raise HttpError(413, message, "QueryTooLong")
        if size <= SHORT_BYTES:
            return await self.look_up(lambda: self.answerer.read(text, self.settings.atoms), client)
        request: SparqlRequest = await self.batches.do("read", text, _gone(client), slow=True)
        return request

    async def look_up(self, function: Callable[[], T], client: Request) -> T:
        """Returns the result of a short function, which runs in the thread that reads queries."""
        return await self.batches.first(asyncio.wrap_future(self._reading.submit(function)), _gone(client))

    async def write(self, function: Callable[[], T], client: Request) -> T:
        """Returns the output of a function that writes a response. It runs in a separate thread, so a long response blocks nothing else."""
        return await self.batches.first(asyncio.wrap_future(self._writing.submit(function)), _gone(client))

    async def ask(self, request: SparqlRequest, options: AskOptions, client: Request) -> Answers:
        """Answers a query.

        Raises:
            HttpError: More answers are requested than the limit, or the service is overloaded.
            UnsupportedError: The query is valid, but nothing here can answer it.
        """
        if options.top is not None and options.top > self.settings.top:
            raise HttpError(422, f"'top' is at most {self.settings.top:,} here, found {options.top:,}")
        kind = _Ask(options, len(request.shown) > 1)
        found: Answers = await self.batches.do(kind, request, _gone(client), kind.several, expensive(request))
        return found

    async def ask_known(self, text: str, client: Request) -> StoreResult:
        """Answers any SPARQL query from known facts. It is stopped at its time limit, or when the client disconnects.

        Raises:
            QueryError: The text is not SPARQL.
            UnsupportedError: It asks another service, or needs too much memory.
            HttpError: The time limit is reached.
        """
        waiting = threading.Event()
        waiting.set()
        deadline = Deadline(self.settings.seconds, waiting.is_set)
        base, most = str(client.url.replace(query=None)), self.settings.known
        found = self._storing.submit(lambda: self.answerer.ask_known(text, base=base, max_rows=most, deadline=deadline))
        try:
            return await self.batches.first(asyncio.wrap_future(found), _gone(client))
        finally:
            waiting.clear()

    async def explain(self, request: SparqlRequest, row: str | Mapping[str, str], client: Request) -> Explanation:
        """Explains one answer.

        Raises:
            InputError: The row has a column or a value that the query does not.
        """
        key = row if isinstance(row, str) else tuple(row.items())  # what waits is hashable
        found: Explanation = await self.batches.do("explain", (request, key), _gone(client), alone=True)
        return found

    async def examples(self, client: Request) -> list[Example]:
        """Returns some example queries of this graph; they are sampled once."""
        return self._examples or await self.batches.do("examples", None, _gone(client))

    def _work(self, kind: Hashable, items: Sequence[Any], deadline: Deadline) -> list[Any]:
        """Does jobs of one kind, in a thread that answers."""
        match kind:
            case _Ask(options, several):
                return self.answerer.ask_many(
                    items,
                    top=options.top,
                    threshold=options.threshold,
                    known_only=options.known_only,
                    max_known=min(self.settings.known, self.settings.known_supported) if several else self.settings.known,
                    max_predicted=min(self.settings.top, self.settings.top_supported) if several else self.settings.top,
                    deadline=deadline,
                )
            case "read":
                return [self.answerer.read(text, self.settings.atoms) for text in items]
            case "explain":
                rows = ((request, row if isinstance(row, str) else dict(row)) for request, row in items)
                return [self.answerer.explain(request, row, deadline=deadline) for request, row in rows]
        self._examples = self._examples or examples(self.answerer.graph)  # kept even if all clients have disconnected
        return [self._examples] * len(items)


def expensive(request: SparqlRequest) -> bool:
    """Estimates whether a query may take long: it has many patterns, many variables to join, or several columns besides the first."""
    atoms = request.query.all_atoms
    joins = sum(isinstance(atom.head, Variable) and isinstance(atom.tail, Variable) for atom in atoms)
    return len(request.shown) > 2 or len(atoms) > QUICK_ATOMS or joins > QUICK_JOINS


def _gone(client: Request) -> Gone:
    async def watch() -> None:
        while (await client.receive())["type"] != "http.disconnect":
            pass

    return watch


def service_of(client: Request) -> Service:
    """Returns the service that answers a request from its beginning to its end."""
    service: Service = client.scope["state"][SERVICE]
    return service

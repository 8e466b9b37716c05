"""What all routes share: an answerer behind a queue, and its limits."""

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from starlette.requests import Request

from starqe.ask import Answerer, Answers, Explanation
from starqe.queries.sparql import SparqlRequest
from starqe.serve.batches import Alone, Batches, Gone
from starqe.serve.bodies import Example
from starqe.serve.examples import examples
from starqe.serve.metrics import Metrics
from starqe.serve.problems import HttpError
from starqe.serve.settings import ServeSettings

T = TypeVar("T")
log = logging.getLogger("starqe.serve")


@dataclass(frozen=True)
class AskOptions:
    """How many answers are wanted."""

    top: int | None = None
    threshold: float = 0.5
    known_only: bool = False


class Service:
    """Answers for many clients at a time.

    One thread reads queries and looks up names, which takes milliseconds; another one answers, which takes longer. So a query
    that breaks a rule is refused before it waits, and never shares a batch with others.
    """

    def __init__(self, answerer: Answerer, settings: ServeSettings) -> None:
        self.answerer, self.settings, self.metrics = answerer, settings, Metrics()
        self.batches = Batches(self._work, settings, self.metrics)
        self._reading = ThreadPoolExecutor(1, "reading")
        self._examples: list[Example] = []

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answers until the block ends; what the first queries need is built before."""
        self.answerer.warm_up()
        async with self.batches.running():
            yield
        self._reading.shutdown(wait=False, cancel_futures=True)

    async def read(self, text: str, client: Request) -> SparqlRequest:
        """Reads a query.

        Raises:
            HttpError: The text is not Unicode.
            SparqlError: The text is not of the language, or asks for too much at once.
        """
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise HttpError(400, "a query is Unicode text, found half a surrogate pair")
        if self.settings.log_queries:
            log.info("query %s", json.dumps(text))
        return await self.look_up(lambda: self.answerer.read(text, self.settings.atoms), client)

    async def look_up(self, function: Callable[[], T], client: Request) -> T:
        """Gives the result of something short, from the thread that reads."""
        return await self.batches.first(asyncio.get_running_loop().run_in_executor(self._reading, function), _gone(client))

    async def ask(self, request: SparqlRequest, options: AskOptions, client: Request) -> Answers:
        """Answers a query.

        Raises:
            HttpError: More answers are asked for than are given, or there is too much to do.
            UnsupportedError: The query is valid, but nothing here can answer it.
        """
        if options.top is not None and options.top > self.settings.top:
            raise HttpError(422, f"'top' is at most {self.settings.top:,} here, found {options.top:,}")
        found: Answers = await self.batches.do((options, Alone() if request.support else None), request, _gone(client))
        return found

    async def explain(self, request: SparqlRequest, entity: str, client: Request) -> Explanation:
        """Explains one answer.

        Raises:
            InputError: The entity does not occur in the graph.
            UnsupportedError: The answer is not known, and the query has a form that cannot be predicted.
        """
        found: Explanation = await self.batches.do(("explain", Alone()), (request, entity), _gone(client))
        return found

    async def examples(self, client: Request) -> list[Example]:
        """Gives some queries that this graph can be asked; they are drawn once."""
        return self._examples or await self.batches.do("examples", None, _gone(client))

    def _work(self, kind: Hashable, items: Sequence[Any]) -> list[Any]:
        """Does jobs of one kind, in the thread that answers."""
        match kind:
            case AskOptions() as options, alone:
                supported = alone is not None
                return self.answerer.ask_many(
                    items,
                    top=options.top,
                    threshold=options.threshold,
                    known_only=options.known_only,
                    max_known=min(self.settings.known, self.settings.known_supported) if supported else self.settings.known,
                    max_predicted=min(self.settings.top, self.settings.top_supported) if supported else self.settings.top,
                )
            case "explain", _:
                return [self.answerer.explain(request, entity) for request, entity in items]
        self._examples = self._examples or examples(self.answerer.graph)  # kept also if all who asked have left
        return [self._examples] * len(items)


def _gone(client: Request) -> Gone:
    async def watch() -> None:
        while (await client.receive())["type"] != "http.disconnect":
            pass

    return watch

"""The run that answers, and its replacement without a lost request.

A new run is loaded and tried while the old one answers. Then new requests go to it; those that have begun end on the old one, which is
closed and freed after the last of them. A run that cannot be loaded changes nothing.
"""

import asyncio
import contextlib
import gc
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

from starqe.ask import Answerer
from starqe.errors import StarqeError, StorageError
from starqe.kg.graph_folder import HEADER as GRAPH_HEADER
from starqe.learn.run import HEADER, RECIPE, WEIGHTS, kind_of
from starqe.reason.calibration import HEADER as CALIBRATION_HEADER
from starqe.serve.problems import HttpError
from starqe.serve.running.guards import HttpMiddleware
from starqe.serve.running.monitoring import Metrics
from starqe.serve.running.workers import HOLD_SECONDS, Worker, paused
from starqe.serve.service import SERVICE, Service, log
from starqe.serve.settings import ServeSettings


@dataclass(frozen=True, eq=False)
class Loaded:
    """A run that was loaded to be served."""

    answerer: Answerer
    settings: ServeSettings
    fingerprint: str = ""
    """A hash of the run's files, as `run_fingerprint` computes it."""


FORK_TRIES = 5
"""The number of attempts to pause all threads before a reload fails."""
Load = Callable[[], Loaded]
"""Loads the run again: its folder may have been replaced, or may be a link to another one."""


class Runs:
    """The services of the run that answers and of runs before it, as long as they have requests.

    Args:
        first: The run that answers first.
        load: Loads the run again; without it, the run cannot be replaced.
    """

    def __init__(self, first: Loaded, load: Load | None = None) -> None:
        self.metrics = Metrics()
        self.fingerprint, self.reloads = first.fingerprint, 0
        self.current = Service(first.answerer, first.settings, self.metrics)
        self._load, self._loading = load, Worker("loading")
        self._inside: dict[Service, int] = {self.current: 0}
        self._idle: dict[Service, asyncio.Event] = {}
        self._open: dict[Service, contextlib.AsyncExitStack] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._turn, self._queued, self._forks = asyncio.Lock(), False, False
        self.metrics.add_gauge("starqe_waiting_queries", "Queries that wait to be answered.", self._waiting)
        self.metrics.add_gauge("starqe_reloads_total", "Runs that have taken the place of another one.", lambda: self.reloads)
        self.metrics.set_run(first.fingerprint)

    def start_processes(self) -> None:
        """Moves the slow lane to processes, now and for runs to come; call it before there are threads."""
        self._forks = True
        self.current.start_processes()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answers until the block ends; indexes are built first."""
        self.current.answerer.warm_up()
        await self._begin(self.current)
        try:
            yield
        finally:
            self._loading.close()
            for service in list(self._open):
                await self._end(service)

    @property
    def working(self) -> int:
        """Number of threads that are answering."""
        return sum(service.batches.working for service in self._inside)

    def stop(self) -> None:
        """Refuses all queries that wait."""
        for service in self._inside:
            service.batches.stop()

    @contextlib.contextmanager
    def used(self) -> Iterator[Service]:
        """Yields the service of one request, which is not closed before the block ends."""
        service = self.current
        self._inside[service] += 1
        try:
            yield service
        finally:
            self._inside[service] -= 1
            if service in self._idle and not self._inside[service]:
                self._idle[service].set()

    async def reload(self) -> None:
        """Loads the run again, tries it, and switches to it.

        Raises:
            HttpError: No run can be loaded here, one is being loaded already, or it cannot be loaded; the previous run stays in use.
        """
        if self._load is None:
            raise HttpError(409, "this service was not started from a run folder, so there is nothing to load again", "NoRun")
        if self._turn.locked():
            raise HttpError(409, "another run is being loaded already. Wait until it answers", "Reloading")
        async with self._turn:
            await self._take_over(self._load)

    async def reload_in_turn(self) -> None:
        """Loads the run again, after one that is being loaded: the folder may have changed since. A failure is only logged."""
        if self._load is None or self._queued:
            return
        self._queued = True
        async with self._turn:
            self._queued = False
            with contextlib.suppress(HttpError):
                await self._take_over(self._load)

    async def _take_over(self, load: Load) -> None:
        try:
            loaded = await asyncio.wrap_future(self._loading.submit(self._tried, load))
            service = Service(loaded.answerer, loaded.settings, self.metrics)
            if self._forks:
                await self._start_processes(service)
            await self._begin(service)
        except Exception as error:
            expected = isinstance(error, StarqeError | OSError | MemoryError)
            log.error("the run could not be loaded again, and the previous one stays in use: %s", error, exc_info=not expected)
            message = "the run could not be loaded again, and the previous one stays in use. The log of the service says why"
            raise HttpError(500, message, "NotLoaded") from error  # the reason may name files of this machine
        before, self.current, self.fingerprint = self.current, service, loaded.fingerprint
        self.reloads += 1
        self.metrics.set_run(loaded.fingerprint)
        log.warning("the run %s answers from now on", loaded.fingerprint[:12])
        task = asyncio.create_task(self._retire(before))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _start_processes(self, service: Service) -> None:
        """Forks while all other threads are paused; if one does not stop soon, they all continue, and it is tried again later."""
        for tries_left in reversed(range(FORK_TRIES)):
            try:
                async with paused(self._workers()):
                    service.start_processes()
                    return
            except TimeoutError:
                if not tries_left:
                    raise
            await asyncio.sleep(HOLD_SECONDS)

    def _tried(self, load: Load) -> Loaded:
        """Loads a run in a thread of its own, with its indexes, and asks it once."""
        loaded = load()
        loaded.answerer.warm_up()
        if self._forks:
            loaded.answerer.start_store()
        return loaded

    def _workers(self) -> Sequence[Worker]:
        return [worker for service in self._inside for worker in service.workers]

    def _waiting(self) -> int:
        return sum(len(service.batches) for service in self._inside)

    async def _begin(self, service: Service) -> None:
        self._inside.setdefault(service, 0)
        self._open[service] = contextlib.AsyncExitStack()
        await self._open[service].enter_async_context(service.running())

    async def _retire(self, service: Service) -> None:
        """Closes a service when the last of its requests has ended, and frees its run."""
        if self._inside[service]:
            self._idle[service] = asyncio.Event()
            await self._idle[service].wait()
        await self._end(service)
        del service
        if gc.get_freeze_count():  # what was frozen is never collected, and a graph is part of cycles
            gc.unfreeze()
            gc.collect()
            gc.freeze()

    async def _end(self, service: Service) -> None:
        if (stack := self._open.pop(service, None)) is None:
            return
        await stack.aclose()
        self._idle.pop(service, None)
        self._inside.pop(service, None)
        if service is not self.current:
            vars(service).clear()  # a remaining reference to it keeps no graph in memory


class Pinned(HttpMiddleware):
    """A request is answered by one service from its beginning to its end."""

    def __init__(self, app: ASGIApp, runs: Runs) -> None:
        super().__init__(app)
        self._runs = runs

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Passes a request on."""
        with self._runs.used() as service:
            scope.setdefault("state", {})[SERVICE] = service
            await self._app(scope, receive, send)


def run_fingerprint(folder: Path) -> str:
    """Returns a hash of a run with all that belongs to it: its headers, which hold the checksums of other files.

    Raises:
        StorageError: The folder is not a run, or cannot be read.
    """
    kind_of(folder)
    digest = hashlib.sha256()
    try:
        for path in sorted(folder.rglob("*")):
            if path.name in (HEADER, RECIPE, GRAPH_HEADER, CALIBRATION_HEADER):
                content = path.read_bytes()
            elif path.name == WEIGHTS:
                with path.open("rb") as file:
                    content = file.read(8)
                    content += file.read(int.from_bytes(content, "little"))
            else:
                continue
            digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode() + content)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be read ({error.strerror})") from None
    return digest.hexdigest()

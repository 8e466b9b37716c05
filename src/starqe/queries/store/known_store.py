"""Any SPARQL query over known facts: an Oxigraph store in a separate process, where a query can be stopped."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any, TypeAlias

from starqe.deadline import NEVER, Deadline
from starqe.errors import NotReadyError, QueryError, StarqeError, StorageError, UnsupportedError
from starqe.kg import SPLITS, Graph
from starqe.kg.rdf.write import SPLIT_GRAPH, write_nquads
from starqe.queries.store import process as store_process
from starqe.queries.store.kept_store import LARGE, KeptStore, log

MAX_ROWS = 100_000
"""Default limit on the rows or triples of a result."""
MEMORY = 1 << 30
"""Default limit on the bytes that one query may take beyond the store itself."""
PARALLEL = 2
"""Number of queries that run at once; others wait for their turn."""
_POLL_SECONDS = 0.02
_LATER = "Ask again later, or ask for a conjunction of patterns, which needs no store"

# Everything but keywords: strings, IRIs, comments, prefixed names and variables. An IRI has no space, so `?a < ?b` is none.
_SKIPPED = re.compile(
    r'"""(?:[^"\\]|\\[\s\S]|"(?!""))*"""|' + r"'''(?:[^'\\]|\\[\s\S]|'(?!''))*'''"
    r'|"(?:[^"\\\r\n]|\\.)*"|' + r"'(?:[^'\\\r\n]|\\.)*'"
    r'|<[^<>"{}|^`\\\s]*>|#[^\r\n]*|[?$]\w+|[\w.-]*:[\w.:%-]*'
)
_SERVICE, _GRAPHS = (re.compile(rf"\b({words})\b", re.IGNORECASE) for words in ("SERVICE", "GRAPH|FROM"))


@dataclass(frozen=True)
class Dataset:
    """The named graphs that a query sees, by their IRIs."""

    default: tuple[str, ...] = ()
    """Those that together are the default graph; without any, it is the store's own default graph."""
    named: tuple[str, ...] = ()
    """Those that GRAPH can name."""


@dataclass(frozen=True)
class Rows:
    """The result of SELECT: a term for each bound variable, in the form of SPARQL results in JSON."""

    variables: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]
    complete: bool
    """Whether these are all rows; False where the limit cut them."""


@dataclass(frozen=True)
class Triples:
    """The result of CONSTRUCT or DESCRIBE, as lines of N-Triples."""

    lines: tuple[str, ...]
    complete: bool


StoreResult: TypeAlias = Rows | Triples | bool


class KnownStore:
    """Answers SPARQL over the known statements of a graph, as any SPARQL 1.1 / 1.2 store would. Safe to use from several threads.

    The store is loaded when the first query comes, or by `start`, into a process of its own, which opens no file and no connection for a
    query. Processes that are forked afterwards ask the same store. It ends, and leaves no file, when this process ends for any reason.

    Args:
        source: A graph, loaded in the RDF form of exports as one default graph; or a file of N-Quads, loaded as it is.
        splits: The splits of a graph that count as known.
        memory: Bytes that one query may take beyond the store.
        folder: Where the store of a large graph is kept on disk, to be opened in a moment the next time; without it, it is in memory.
    """

    def __init__(self, source: Graph | Path, splits: Collection[str] = SPLITS, memory: int = MEMORY, folder: Path | None = None) -> None:
        self._source, self._splits, self._memory = source, tuple(splits), memory
        self._kept: KeptStore | None = None
        if folder is not None and isinstance(source, Graph) and len(source) > LARGE:
            self._kept = KeptStore(source, self._splits, folder)
        self._builder: subprocess.Popen[str] | None = None
        self._is_closed = False
        self._preparing: threading.Thread | None = None
        self.progress = 0.0
        """The share of the work that is done while the store is built."""
        self._process: subprocess.Popen[str] | None = None
        self._removal: weakref.finalize[[str, bool], KnownStore] | None = None
        self._folder, self._owner = Path(), 0
        self._starting = threading.Lock()
        self._turns = {urgent: threading.BoundedSemaphore(PARALLEL) for urgent in (False, True)}

    def query(
        self,
        text: str,
        *,
        prefixes: Mapping[str, str] | None = None,
        base: str | None = None,
        dataset: Dataset | None = None,
        max_rows: int = MAX_ROWS,
        deadline: Deadline = NEVER,
        urgent: bool = False,
    ) -> StoreResult:
        """Answers a query.

        Args:
            text: Any SPARQL query.
            prefixes: Prefixes that the text need not declare.
            base: What relative IRIs are resolved against, if the text has no BASE.
            dataset: The graphs that the query sees, in place of those that the text names; default: the store's default graph.
            max_rows: Maximum number of rows or triples.
            deadline: The query is stopped when it is over.
            urgent: Whether it waits for its turn among urgent queries only.

        Raises:
            QueryError: The text is not SPARQL.
            UnsupportedError: It asks another service or names a graph, or needs more memory than it may take.
            DeadlineError: The deadline is over.
            NotReadyError: The store is still being prepared, by `prepare`.
        """
        check_words(text, one_graph=isinstance(self._source, Graph))
        while not self._turns[urgent].acquire(timeout=_POLL_SECONDS):
            deadline.check()
        try:
            with contextlib.closing(self._connect(deadline)) as connection:
                request = {
                    "query": text,
                    "prefixes": dict(prefixes or {}),
                    "base": base,
                    "dataset": None if dataset is None else [dataset.default, dataset.named],
                    "max_rows": max_rows,
                    "memory": self._memory,
                }
                connection.send_bytes(json.dumps(request).encode())
                return _read(*_replies(connection, deadline))
        finally:
            self._turns[urgent].release()

    @property
    def is_kept(self) -> bool:
        """Whether the store is kept on disk, where it has to be built once."""
        return self._kept is not None

    def start(self) -> None:
        """Loads the store now, if it is not."""
        self._connect(NEVER).close()

    def prepare(self) -> None:
        """Begins to load the store in a thread; until it is loaded, queries are refused, also those of processes that are forked now."""
        with self._starting:
            self._end()
            self._make_folder()
            if self._kept is not None:
                _ = self._kept.key  # a process that is forked while a thread computes it would wait for the thread for ever
            self._preparing = threading.Thread(target=self._prepare, name="store of known facts", daemon=True)
        self._preparing.start()

    @property
    def is_preparing(self) -> bool:
        """Whether the store is being prepared in a thread."""
        return self._preparing is not None and self._preparing.is_alive()

    def close(self) -> None:
        """Ends the process, and with it every query."""
        if self._owner == os.getpid():
            self._is_closed = True
            if self._builder is not None:
                self._builder.kill()
            with self._starting:
                self._end()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # at the end of the program, what this needs may be gone
            self._end()

    def __enter__(self) -> "KnownStore":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _connect(self, deadline: Deadline) -> Connection:
        if self._owner not in (0, os.getpid()):
            if (connection := self._connect_to_owner()) is not None:
                return connection
            self._process = self._removal = self._preparing = None  # they belong to another process, which is gone
            self._owner, self._starting = 0, threading.Lock()
        if self.is_preparing:
            raise NotReadyError(
                f"the store of known facts is being prepared ({self.progress:.0%}). Ask again later, or ask a simpler query"
            )
        while not self._starting.acquire(timeout=_POLL_SECONDS):
            deadline.check()
        try:
            if self._process is None or self._process.poll() is not None:
                self._is_closed = False
                self._end()
                self._make_folder()
                self._start()
            return Client(str(self._folder / "socket"), "AF_UNIX")
        finally:
            self._starting.release()

    def _connect_to_owner(self) -> Connection | None:
        """Connects to the store of the process that this one was forked from; returns None if it is gone."""
        try:
            return Client(str(self._folder / "socket"), "AF_UNIX")
        except OSError:
            if self._preparing is not None and self._folder.exists():
                raise NotReadyError(f"the store of known facts is being prepared. {_LATER}") from None
            return None

    def _prepare(self) -> None:
        """Loads the store, in a thread; what fails is tried again by the next query."""
        with self._starting:
            try:
                self._start()
            except Exception as error:
                if not self._is_closed:
                    log.error("the store of known facts could not be prepared: %s", error, exc_info=not isinstance(error, StarqeError))

    def _make_folder(self) -> None:
        # Not a TemporaryDirectory, which warns where the garbage collector finds it before this store.
        self._folder = Path(tempfile.mkdtemp(prefix="starqe-store-"))
        self._removal = weakref.finalize(self, shutil.rmtree, str(self._folder), True)
        self._owner = os.getpid()

    def _start(self) -> None:
        """Starts the process and waits until the store is loaded."""
        place = self._folder
        if (kept := self._on_disk()) is not None:
            loaded = ["kept", str(kept)]
        elif isinstance(self._source, Graph):
            loaded = ["merged", str(place / "graph.nq"), *(f"{SPLIT_GRAPH}{split}" for split in self._splits)]
        else:
            loaded = ["apart", str(self._source)]
        program = [sys.executable, store_process.__file__, str(place / "socket"), *loaded]
        # Its standard input closes when this process ends, for any reason. Its allocator may print a message; `_read` reports the cause.
        self._process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        if loaded[0] == "merged":
            assert isinstance(self._source, Graph)
            write_nquads(self._source, place / "graph.nq", self._source.names, details=False)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write("load\n")
            self._process.stdin.flush()
        if self._process.stdout.readline() != "ready\n":
            raise StarqeError(f"the store of known facts did not start (exit code {self._process.wait()}). Is there enough memory?")
        (place / "graph.nq").unlink(missing_ok=True)

    def _on_disk(self) -> Path | None:
        """Returns the store on disk, which is built if needed; None if it is loaded into memory, as where the disk refuses."""
        if self._kept is None:
            return None
        try:
            return self._kept.found() or self._kept.build(self._step, self._started)
        except StorageError as error:
            log.warning("the store of known facts is loaded into memory, since it cannot be kept on disk: %s", error)
            return None
        finally:
            self._builder = None

    def _step(self, progress: float) -> None:
        self.progress = progress

    def _started(self, builder: subprocess.Popen[str]) -> None:
        self._builder = builder
        if self._is_closed:
            builder.kill()

    def _end(self) -> None:
        if self._owner != os.getpid():  # nothing was started, or by the process that this one was forked from
            return
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # with the processes of queries that still run
            self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                assert stream is not None
                stream.close()
            self._process = None
        if self._removal is not None:
            self._removal()
            self._removal = None


def check_words(text: str, one_graph: bool = True) -> None:
    """Checks that a query asks this store, and if it holds one graph, that it names no other.

    Raises:
        UnsupportedError: It has SERVICE, GRAPH or FROM.
    """
    words = _SKIPPED.sub(" ", text)
    if _SERVICE.search(words):
        raise UnsupportedError("queries are answered from this graph alone, found SERVICE. Ask the other service by itself")
    if one_graph and (found := _GRAPHS.search(words)):
        raise UnsupportedError(f"there is one graph here, found {found[1].upper()}. Leave it out")


def _replies(connection: Connection, deadline: Deadline) -> Iterator[dict[str, Any]]:
    """Yields the two messages of a query's process, and ends it when the deadline is over."""
    process = None
    try:
        for _ in range(2):
            while not connection.poll(_POLL_SECONDS):
                deadline.check()
            message = json.loads(connection.recv_bytes())
            process = message.get("pid", process)
            yield message
        process = None
    except (EOFError, ConnectionResetError):
        process = None
        yield {"error": "memory"}  # a process that cannot have more memory is ended by its allocator, without a reply
    finally:
        if process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _read(_started: Mapping[str, Any], found: Mapping[str, Any] | None = None) -> StoreResult:
    match found or _started:
        case {"boolean": bool() as truth}:
            return truth
        case {"vars": names, "rows": rows, "complete": complete}:
            return Rows(tuple(names), tuple(rows), complete)
        case {"triples": lines, "complete": complete}:
            return Triples(tuple(lines), complete)
        case {"syntax": message}:
            raise QueryError(f"not a SPARQL query: {message}")
        case {"error": "memory"}:
            raise UnsupportedError("a query may take a limited amount of memory, and this one needs more. Ask for less at once")
        case other:
            raise UnsupportedError(f"the store cannot answer this: {other.get('error')}")

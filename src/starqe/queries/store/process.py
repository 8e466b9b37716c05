"""The process that holds the known facts in an Oxigraph store. Run as a script: it needs nothing of starqe, and stays small.

    python process.py SOCKET merged NQUADS GRAPH…
    python process.py SOCKET apart NQUADS
    python process.py SOCKET kept STORE

It waits for a line on standard input, which says that the file is complete. Then it loads the quads of the named graphs (and of the
default graph) as one graph, or all quads as they are, or opens a store on disk, and forks for every connection. So a query that takes too
long is ended by ending its process, or by closing its connection, and the store is never loaded twice. The process of a query cannot open
connections, whatever the query says, and no files but those of a store on disk. When standard input is closed, the parent process is gone:
this one removes the folder of its socket, and ends.
One connection is one query:

    <- {"query": …, "prefixes": {…}, "base": …, "dataset": [[…], […]] | null, "max_rows": …, "memory": …}
    -> {"pid": …}                                              the process to end when the answer takes too long
    -> {"vars": [...], "rows": [{...}], "complete": …} | {"boolean": …} | {"triples": […], "complete": …} | {"syntax": …} | {"error": …}

Terms have the form of SPARQL 1.1 Query Results JSON; triples are lines of N-Triples.
"""

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import select
import shutil
import signal
import socket
import sys
from collections.abc import Iterator
from itertools import islice
from multiprocessing.connection import Connection
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, QueryBoolean, QuerySolutions, RdfFormat, Store, Triple, parse

XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"
KEPT_HEADER = "facts.json"
"""The file beside a store on disk."""
Term = NamedNode | BlankNode | Literal | Triple


def main() -> None:
    """Loads the store, says so on standard output, and answers until standard input is closed."""
    address, way, path, *graphs = sys.argv[1:]
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which then ends this process
    try:
        if sys.stdin.readline():
            _serve(address, way, path, graphs)
    finally:
        shutil.rmtree(os.path.dirname(address), ignore_errors=True)  # noqa: PTH120


def _serve(address: str, way: str, path: str, graphs: list[str]) -> None:
    if way == "kept":
        _use(f"{path}/../{KEPT_HEADER}")
        store, files = Store.read_only(path), sum(name.endswith(".sst") for name in os.listdir(path))  # noqa: PTH208
    else:
        store, files = Store(), 0
        if way == "merged":
            store.bulk_extend(_merged(path, set(graphs)))
        else:
            store.bulk_load(path=path, format=RdfFormat.N_QUADS)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children that end leave nothing behind
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(128)
        print("ready", flush=True)
        while sys.stdin not in (ready := select.select([listener, sys.stdin], [], [])[0]):
            assert listener in ready
            with Connection(listener.accept()[0].detach()) as connection:
                if os.fork() == 0:
                    try:
                        listener.close()
                        _answer(store, connection, files)
                    finally:
                        os._exit(0)


def _merged(path: str, graphs: set[str]) -> Iterator[Quad]:
    for quad in parse(path=path, format=RdfFormat.N_QUADS):
        name = quad.graph_name
        if isinstance(name, DefaultGraph):
            yield quad
        elif name.value in graphs:
            yield Quad(quad.subject, quad.predicate, quad.object)


def _use(path: str) -> None:
    """Marks a store on disk as used until this process and those that it forks end; see `in_use`."""
    fcntl.flock(os.open(path, os.O_RDONLY), fcntl.LOCK_SH)


def in_use(path: os.PathLike[str]) -> bool:
    """Returns whether a process uses the store on disk with this header."""
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(handle)
    return False


def _answer(store: Store, connection: Connection, files: int) -> None:
    with contextlib.suppress(OSError, EOFError):  # the other side may leave at any time
        request = json.loads(connection.recv_bytes())
        connection.send_bytes(json.dumps({"pid": os.getpid()}).encode())
        with _ended_by_hanging_up(connection):
            _limit(request["memory"], files)
            result = json.dumps(_result(store, request), ensure_ascii=False).encode()
        connection.send_bytes(result)


@contextlib.contextmanager
def _ended_by_hanging_up(connection: Connection) -> Iterator[None]:
    """Lets the system end this process in the middle of any computation when the other side closes the connection, or is killed."""
    asynchronous = getattr(os, "O_ASYNC", 0)  # only some systems have it
    flags = fcntl.fcntl(connection.fileno(), fcntl.F_GETFL)
    fcntl.fcntl(connection.fileno(), fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(connection.fileno(), fcntl.F_SETFL, flags | asynchronous)  # a signal, which nothing here handles
    if connection.poll(0):  # it was closed before: nothing more is ever sent
        os._exit(0)
    yield
    fcntl.fcntl(connection.fileno(), fcntl.F_SETFL, flags)


def _limit(memory: int, files: int) -> None:
    """Allows this process no connection, and no files but as many as a store on disk has; and limits the bytes beyond what it has.

    A store on disk opens its files as it needs them, so that there the system has to refuse connections.
    """
    import resource

    with contextlib.suppress(FileNotFoundError), open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123
        pages = int(file.read().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + memory,) * 2)
    if files:
        refuse_connections()
    opened = os.open(os.devnull, os.O_RDONLY) + files if files else 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened, opened))


class _Step(ctypes.Structure):
    """One instruction of a filter of system calls."""

    _fields_ = (("code", ctypes.c_ushort), ("if_true", ctypes.c_ubyte), ("if_false", ctypes.c_ubyte), ("value", ctypes.c_uint32))


class _Filter(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.POINTER(_Step)))


def refuse_connections() -> None:
    """Lets the system refuse every new socket of this process, for ever; on Linux and processors whose numbers are known here."""
    known = {"x86_64": (0xC000003E, 41), "aarch64": (0xC00000B7, 198)}.get(os.uname().machine)
    if sys.platform != "linux" or known is None:
        return
    processor, new_socket = known
    load, equal, end = 0x20, 0x15, 0x06
    steps = (_Step * 6)(
        _Step(load, 0, 0, 4),  # the kind of processor
        _Step(equal, 0, 2, processor),
        _Step(load, 0, 0, 0),  # the number of the call
        _Step(equal, 0, 1, new_socket),
        _Step(end, 0, 0, 0x00050000 | errno.EACCES),
        _Step(end, 0, 0, 0x7FFF0000),  # allowed
    )
    system = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, filter_calls = 38, 22
    system.prctl(no_new_privileges, 1, 0, 0, 0)
    system.prctl(filter_calls, 2, ctypes.byref(_Filter(len(steps), steps)))


def _result(store: Store, request: dict[str, Any]) -> dict[str, Any]:
    most = request["max_rows"]
    try:
        found = store.query(request["query"], prefixes=request["prefixes"], base_iri=request["base"], **_seen(request["dataset"]))
        if isinstance(found, QueryBoolean):
            return {"boolean": bool(found)}
        if isinstance(found, QuerySolutions):
            names = [variable.value for variable in found.variables]
            rows = [
                {name: term(value) for name, value in zip(names, row, strict=True) if value is not None} for row in islice(found, most + 1)
            ]
            return {"vars": names, "rows": rows[:most], "complete": len(rows) <= most}
        lines = [str(triple) + " ." for triple in islice(found, most + 1)]
        return {"triples": lines[:most], "complete": len(lines) <= most}
    except SyntaxError as error:
        return {"syntax": error.msg}
    except MemoryError:
        return {"error": "memory"}
    except Exception as error:
        return {"error": str(error)}


def _seen(dataset: list[list[str]] | None) -> dict[str, Any]:
    """Returns the arguments that say which graphs a query sees."""
    if dataset is None:
        return {}
    default, named = ([NamedNode(iri) for iri in iris] for iris in dataset)
    return {"default_graph": default or DefaultGraph(), "named_graphs": named}


def term(value: Term) -> dict[str, Any]:
    """Returns a term in the form of SPARQL results in JSON."""
    match value:
        case NamedNode():
            return {"type": "uri", "value": value.value}
        case BlankNode():
            return {"type": "bnode", "value": value.value}
        case Literal():
            written: dict[str, Any] = {"type": "literal", "value": value.value}
            if value.language:
                written["xml:lang"] = value.language
                if value.direction:
                    written["its:dir"] = str(value.direction)
            elif value.datatype.value != XSD_STRING:
                written["datatype"] = value.datatype.value
            return written
        case Triple():
            parts = {"subject": value.subject, "predicate": value.predicate, "object": value.object}
            return {"type": "triple", "value": {name: term(part) for name, part in parts.items()}}


if __name__ == "__main__":
    main()

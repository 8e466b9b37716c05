"""Oxigraph in a process of its own, as the independent answer: nothing of starqe is in between, and a query that takes long is ended.

Run as a script with a file of N-Quads: it loads all quads into one graph, answers each line of standard input (JSON: a query) by a
line of standard output, from a fork of itself, which has a time limit in seconds.
"""

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyoxigraph import Quad, QueryBoolean, QueryResultsFormat, QuerySolutions, RdfFormat, Store, parse

SECONDS = 4
"""CPU seconds that a query may take."""


class Reference:
    """Asks the process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, text: str) -> dict[str, Any] | None:
        """Returns SPARQL results in JSON, or ``{"triples": [...]}``; None if the query took too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(text), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())  # type: ignore[no-any-return]


@contextmanager
def reference(path: Path) -> Iterator[Reference]:
    """Starts the process with the quads of a file."""
    with subprocess.Popen([sys.executable, __file__, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield Reference(process)
        finally:
            process.kill()


def _answer(store: Store, text: str) -> str:
    found = store.query(text)
    if isinstance(found, QuerySolutions | QueryBoolean):
        content = found.serialize(format=QueryResultsFormat.JSON)
        assert content is not None
        return json.dumps(json.loads(content))
    return json.dumps({"triples": sorted(str(triple) for triple in found)})


def _main() -> None:
    store = Store()
    store.bulk_extend(Quad(quad.subject, quad.predicate, quad.object) for quad in parse(path=sys.argv[1], format=RdfFormat.N_QUADS))
    for line in sys.stdin:
        if (child := os.fork()) == 0:
            resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
            os.write(1, _answer(store, json.loads(line)).encode() + b"\n")
            os._exit(0)
        if os.waitpid(child, 0)[1] != 0:
            print("null", flush=True)


if __name__ == "__main__":
    _main()

"""The known facts of a large graph in a store on disk: built once, and opened in a moment by every process that asks.

In the folder of a run it is a folder, `facts/KEY`, whose name depends on the graph, its labels, and the splits that count as known:

    facts.json     {"format": "starqe facts", "version": 1, the key, and the size of each file of the store}
    store/         the store, as Oxigraph writes it; its blocks have checksums of their own

It is built by a process of its own, which ends when the one that waits for it does:

    python -m starqe.queries.store.kept_store PLACE FOLDER SPLIT…

reads PLACE/graph, prints the share of the work that is done, line by line, and removes PLACE if its parent ends first.
"""

import contextlib
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyoxigraph as ox

from starqe.errors import StarqeError, StorageError
from starqe.folders import new_folder, read_header, write_header
from starqe.kg import Graph, load_graph, save_graph
from starqe.kg.rdf.write import write_known
from starqe.kg.vocabulary import LabelColumn
from starqe.queries.store.process import KEPT_HEADER, in_use
from starqe.texts import joined_bytes

FORMAT, VERSION = "starqe facts", 1
FACTS, HEADER, STORE = "facts", KEPT_HEADER, "store"
LARGE = 1_000_000
"""Graphs with more statements are kept on disk. In memory, five million take 3.3 GB, and 20 seconds before each start."""
_WRITTEN = 0.25  # the share of the work that writing the triples is
_STEP = 100_000  # triples from one report of progress to the next
_DONE = frozenset((".log", "LOG", "LOCK"))  # files that opening a store may change
T = TypeVar("T")
log = logging.getLogger("starqe.facts")


@dataclass(frozen=True, eq=False)
class KeptStore:
    """The place of the store of some known facts.

    Args:
        graph: The graph.
        splits: The splits that count as known.
        folder: The folder that such stores are kept in.
    """

    graph: Graph
    splits: tuple[str, ...]
    folder: Path

    def found(self) -> Path | None:
        """Returns the store, if it was built before and is complete."""
        try:
            header = read_header(self.place / HEADER, FORMAT, VERSION)
            complete = header["key"] == self.key and header["files"] == _sizes(self.place / STORE)
        except (StorageError, KeyError, OSError):
            return None
        return self.place / STORE if complete else None

    @cached_property
    def key(self) -> str:
        """A hash of all that the store depends on; the fingerprint of a graph leaves out labels and how names are written."""
        names = self.graph.names
        bases = f"{names.entity_base} {names.relation_base}"
        digest = hashlib.sha256(f"{VERSION} {self.graph.fingerprint} {sorted(self.splits)} {bases}".encode())
        for vocabulary in (self.graph.entities, self.graph.relations):
            for tag, by_id in sorted(vocabulary.labels.items()):
                column = LabelColumn.of(by_id)
                digest.update(f"\n{tag} {len(column)}\n".encode())
                digest.update(np.ascontiguousarray(column.ids).data)
                digest.update(joined_bytes(column.texts.column))
        return digest.hexdigest()

    @property
    def place(self) -> Path:
        """The folder of this store."""
        return self.folder / self.key[:16]

    def build(self, step: Callable[[float], None], started: Callable[[subprocess.Popen[str]], None]) -> Path:
        """Builds the store in another process, and removes those of other graphs that no process uses.

        Args:
            step: Called with the progress, from 0 to 1.
            started: Called with the process: whoever ends it ends the work.

        Raises:
            StorageError: The folder cannot be written.
            StarqeError: The process was ended.
        """
        log.warning("the store of known facts is built, once for this run: %s", self.place)
        place = Path(tempfile.mkdtemp(prefix="starqe-graph-"))
        try:
            save_graph(self.graph, place / "graph")
            program = [sys.executable, "-m", __name__, str(place), str(self.folder), *self.splits]
            process = subprocess.Popen(
                program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
            )
            started(process)
            with process:
                assert process.stdout is not None
                assert process.stderr is not None
                for line in process.stdout:
                    step(float(line))
                message = process.stderr.read().strip()
        finally:
            shutil.rmtree(place, ignore_errors=True)
        if process.returncode:
            kind = StorageError if process.returncode == 1 else StarqeError
            raise kind(message or f"the store of known facts was not built (exit code {process.returncode}). Is there enough memory?")
        if (store := self.found()) is None:
            raise StorageError(f"{self.place}: the store of known facts was changed while it was built. Start again")
        log.warning("the store of known facts is ready")
        return store


def build(kept: KeptStore, step: Callable[[float], None] = lambda _: None) -> None:
    """Builds a store in a new folder, completely or not at all; one that is damaged is replaced.

    Raises:
        StorageError: The folder cannot be written.
    """
    if kept.found() is None:
        try:
            with new_folder(kept.place, True, lambda: None, lambda: _check_damaged(kept)) as new:
                _write(kept, new, step)
        except StorageError:
            if kept.found() is None:  # else another process has built it meanwhile
                raise
    step(1.0)
    remove_others(kept.place)


def _write(kept: KeptStore, new: Path, step: Callable[[float], None]) -> None:
    step(0.0)
    lines = write_known(kept.graph, new / "known.nt", kept.splits)
    store = ox.Store(new / STORE)
    triples = ox.parse(path=new / "known.nt", format=ox.RdfFormat.N_TRIPLES, lenient=True)
    store.bulk_extend(_counted(triples, lambda count: step(_WRITTEN + (1 - _WRITTEN) * count / lines)))
    store.flush()
    del store, triples  # this closes the files
    (new / "known.nt").unlink()
    write_header(new / HEADER, FORMAT, VERSION, {"key": kept.key, "files": _sizes(new / STORE)})


def _check_damaged(kept: KeptStore) -> None:
    if kept.found() is not None:
        raise StorageError(f"{kept.place} was built by another process meanwhile")


def remove_others(place: Path) -> None:
    """Removes the stores beside one that no process uses: they are of other graphs, or of other splits."""
    for other in sorted(place.parent.iterdir()):
        if other != place and (other / HEADER).exists() and not in_use(other / HEADER):
            shutil.rmtree(other, ignore_errors=True)


def _counted(items: Iterable[T], step: Callable[[int], None]) -> Iterator[T]:
    for count, item in enumerate(items):
        if count % _STEP == 0:
            step(count)
        yield item


def _sizes(store: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in sorted(store.iterdir()) if not {path.name, path.suffix} & _DONE}


def _end_with_parent(place: str) -> None:
    """Waits until the parent is gone, and then ends this process."""
    sys.stdin.read()
    shutil.rmtree(place, ignore_errors=True)
    os._exit(2)


def main() -> None:
    """Builds the store that the command line names."""
    source, folder, *splits = sys.argv[1:]
    threading.Thread(target=_end_with_parent, args=(source,), daemon=True).start()
    with contextlib.suppress(OSError):
        os.nice(5)  # who waits for other answers goes first
    code = 0
    try:
        kept = KeptStore(load_graph(Path(source) / "graph"), tuple(splits), Path(folder))
        build(kept, lambda share: print(f"{share:.3f}", flush=True))
    except StarqeError as error:
        print(error, file=sys.stderr, flush=True)
        code = 1
    os._exit(code)  # nothing is waited for


if __name__ == "__main__":
    main()

"""The folder in which tables are reproduced: keeps finished work, so that an interrupted table continues.

work.json                {"format": "starqe reproduction", "version": 1, fingerprint of the graph, settings of the queries, …}
queries/                 the queries of the embedded graph, if it is used
runs/starqe-0/           the run of a regime and a seed; tables share it
runs/starqe-0/trained.json, test-5000.json, …   that its training is finished, and its evaluations
results/ …               a table: rows.json, table.md, table.csv, table.tex, plot.png; plan.json divides its budget
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pydantic

from starqe.config import Section
from starqe.errors import InputError, MismatchError, StorageError
from starqe.folders import is_unused, new_file, read_header, write_header
from starqe.kg import Graph, embedded_graph, load_graph
from starqe.measure.oracle import SOURCES
from starqe.measure.rows import AnyRow
from starqe.queries import SHAPES, generate, tables_of
from starqe.queries.query_set import check_graph

FORMAT, VERSION = "starqe reproduction", 1
HEADER = "work.json"

Tell = Callable[[str], None]
"""Called with messages about the progress and the time left."""


class Settings(Section):
    """How a table is reproduced."""

    as_published: bool = False
    """With the paper's hyper-parameters and loss, instead of ours."""
    as_run: bool = False
    """With the paper's hyper-parameters, trained as the authors' code did where the paper is silent."""
    seeds: int = pydantic.Field(default=1, ge=1)
    """The number of seeds: every row is trained with the seeds 0, 1, …"""
    rows: tuple[str, ...] = ()
    """The rows of the table that may be trained. Left out: all."""
    budget: float | None = pydantic.Field(default=None, ge=0)
    """Minutes of training in all; 0 trains nothing. Left out: the recipes decide."""
    epochs: int | None = pydantic.Field(default=None, ge=1)
    """Epochs of training per row, so that rows and seeds see equally many queries on any machine. Left out: the recipes decide."""
    limit: int | None = pydantic.Field(default=None, ge=1)
    """Queries per shape to evaluate on. Left out: 5,000, on the embedded graph 100."""
    minimum: int = pydantic.Field(default=10, ge=1)
    """Qualifier relations that fewer queries of a shape contain are left out."""
    sources: tuple[str, ...] = ("all splits", "test")
    """The sources of the oracle's frequencies."""
    run: Path | None = None
    """The folder of a calibrated run whose reasoning is measured. Left out: one is trained and calibrated."""

    @property
    def recipes(self) -> bool | str:
        """Which recipes are used, as the header of a folder has it: False for ours, True for the paper's, or ``as run``."""
        return "as run" if self.as_run else self.as_published

    @pydantic.model_validator(mode="after")
    def _one_kind(self) -> Self:
        if self.as_run and self.as_published:
            raise ValueError("rows are trained as published or as the authors' code ran, found both. Choose one of them")
        return self


@dataclass(frozen=True)
class WorkFolder:
    """A folder for the tables of one graph; made by `open_work`."""

    folder: Path
    graph: Graph
    queries: Path
    settings: Settings
    tiny: bool
    """Whether the recipes are cut down to seconds."""
    tell: Tell

    @property
    def limit(self) -> int:
        """Number of queries per shape to evaluate."""
        return self.settings.limit or (100 if self.tiny else 5_000)

    @property
    def seeds(self) -> range:
        """The seeds."""
        return range(self.settings.seeds)

    def run_folder(self, regime: str, seed: int) -> Path:
        """Returns the folder of the run of a regime."""
        return self.folder / "runs" / f"{regime}-{seed}"

    def rows_once(self, path: Path, kind: type[AnyRow], make: Callable[[], Sequence[AnyRow]]) -> list[AnyRow]:
        """Returns the rows in a file; computes and writes them first if it does not exist.

        Raises:
            StorageError: The file is damaged, or holds something else.
        """
        cells = self.once(path, lambda: [row.to_json() for row in make()])
        try:
            return [kind.from_json(one) for one in cells]
        except (InputError, TypeError, AttributeError) as error:
            raise StorageError(f"{path}: holds no rows of results ({error}). Delete it, and it is made again") from None

    def once(self, path: Path, make: Callable[[], Any]) -> Any:
        """Returns the content of a JSON file; computes and writes it first if it does not exist."""
        if not path.exists():
            write_json(path, make())
        return read_json(path)


def open_work(
    folder: Path,
    graph_folder: Path | None = None,
    query_folder: Path | None = None,
    settings: Settings | None = None,
    tell: Tell = print,
    asks_own: bool = False,
) -> WorkFolder:
    """Opens a folder, new or of an earlier call; without a graph, the embedded one is used and its queries are generated.

    With ``asks_own``, a table samples its own queries: a graph and a run are enough.

    Raises:
        InputError: A graph is given without its queries, or a source of frequencies is unknown.
        MismatchError: The folder, or the query set, is of another graph.
        StorageError: The folder holds something else or was made with other settings, or cannot be written.
    """
    settings = settings or Settings()
    if unknown := set(settings.sources) - SOURCES.keys():
        raise InputError(f"sources are {', '.join(SOURCES)}; found '{unknown.pop()}'")
    if (graph_folder is None) != (query_folder is None) and not (graph_folder and asks_own and settings.run):
        raise InputError("give a graph and its queries together, or neither for the embedded graph")
    graph = load_graph(graph_folder).entity_part if graph_folder is not None else embedded_graph()
    queries = query_folder if query_folder is not None else folder / "queries"
    asked = check_graph(queries, graph)["settings"] if query_folder is not None else {}
    tables = {split: {shape: of.get(shape) for shape in SHAPES} for split, of in tables_of(queries).items()} if asked else {}
    _claim(folder, graph, {"queries": asked, "tables": tables, "as_published": settings.recipes, "embedded": graph_folder is None})
    if graph_folder is None:
        generate(graph, queries)
    return WorkFolder(folder, graph, queries, settings, graph_folder is None, tell)


def _claim(folder: Path, graph: Graph, wanted: dict[str, Any]) -> None:
    """Writes the header of a new folder, or checks that an existing one has the same graph and settings."""
    if is_unused(folder):
        with new_file(folder / HEADER, overwrite=False) as beside:
            write_header(beside, FORMAT, VERSION, {"fingerprint": graph.fingerprint, **wanted})
    found = read_header(folder / HEADER, FORMAT, VERSION)
    if found["fingerprint"] != graph.fingerprint:
        raise MismatchError(
            f"{folder} reproduces tables of another graph (fingerprint {found['fingerprint'][:12]}, this graph "
            f"{graph.fingerprint[:12]}). Choose another folder"
        )
    if changed := sorted(key for key in wanted if found.get(key) != wanted[key]):
        raise StorageError(f"{folder} was made with other settings ({', '.join(changed)}). Choose another folder")


def read_json(path: Path) -> Any:
    """Reads a JSON file that starqe wrote.

    Raises:
        StorageError: It is missing or damaged.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: cannot be read ({error}). Delete it, and it is made again") from None


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON file atomically."""
    with new_file(path, overwrite=True) as beside:
        beside.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

"""Every table of the paper by one call."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from filelock import FileLock, Timeout

from starqe.errors import InputError, StorageError
from starqe.experiments.models import MODEL_TABLES, model_report
from starqe.experiments.oracle import oracle_report
from starqe.experiments.qualifiers import qualifier_report
from starqe.experiments.reasoning import reasoning_report
from starqe.experiments.report import Report
from starqe.experiments.statistics import statistics_report
from starqe.experiments.work_folder import Settings, Tell, open_work

LOCK = ".lock"
"""Held by the command that works in a folder; it is the kernel's, and vanishes with the process."""

TABLES: Mapping[str, Callable[..., Report]] = {
    "statistics": statistics_report,
    **{name: partial(model_report, table=name) for name in MODEL_TABLES},
    "oracle": oracle_report,
    "qualifiers": qualifier_report,
    "reasoning": reasoning_report,
}
"""The paper's tables, by the name on the command line: functions of a `WorkFolder`."""


def reproduce(
    table: str,
    folder: Path,
    graph: Path | None = None,
    queries: Path | None = None,
    settings: Settings | None = None,
    tell: Tell = lambda _: None,
) -> tuple[Report, list[Path]]:
    """Reproduces a table in a folder: trains and evaluates what is missing there, keeps what is finished, and writes the table.

    Args:
        table: A key of TABLES.
        folder: Where everything is kept; tables share it, and the same call goes on after an interruption.
        graph: The folder of a graph; the embedded one if left out.
        queries: The folder of its query set.
        settings: Seeds, budget, sample sizes.
        tell: Is told what happens.

    Raises:
        InputError: There is no such table, or graph and queries are not given together.
        MismatchError: The folder, or the query set, is of another graph.
        StorageError: The folder was made with other settings, another command works in it, or the disk refuses.
        ConfigError: A run in the folder was trained by another recipe.
    """
    if table not in TABLES:
        raise InputError(f"tables are {', '.join(TABLES)}; found '{table}'")
    work = open_work(folder, graph, queries, settings, tell)
    try:
        with FileLock(folder / LOCK).acquire(blocking=False):
            report = TABLES[table](work)
            return report, report.write(folder / table)
    except Timeout:
        raise StorageError(f"another command works in {folder}. Wait for its end, or choose another folder for --out") from None

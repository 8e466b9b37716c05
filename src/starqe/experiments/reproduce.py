"""Reproduces every table of the paper with one call."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from starqe.errors import InputError
from starqe.experiments.model_tables import MODEL_TABLES, model_report
from starqe.experiments.oracle_table import oracle_report
from starqe.experiments.qualifiers import qualifier_report
from starqe.experiments.reasoning.betae_table import betae_report
from starqe.experiments.reasoning.reasoning_table import reasoning_report
from starqe.experiments.reasoning.shapes_table import shapes_report
from starqe.experiments.statistics import statistics_report
from starqe.experiments.table_report import Report
from starqe.experiments.work_folder import Settings, Tell, open_work
from starqe.folders import locked

TABLES: Mapping[str, Callable[..., Report]] = {
    "statistics": statistics_report,
    **{name: partial(model_report, table=name) for name in MODEL_TABLES},
    "oracle": oracle_report,
    "qualifiers": qualifier_report,
    "reasoning": reasoning_report,
    "shapes": shapes_report,
    "betae": betae_report,
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
        folder: Where everything is kept; tables share it, and the same call continues after an interruption.
        graph: The folder of a graph; the embedded one if left out.
        queries: The folder of its query set.
        settings: Seeds, budget, sample sizes.
        tell: Called with messages about the progress.

    Raises:
        InputError: The table is unknown, or graph and queries are not given together.
        MismatchError: The folder, or the query set, is of another graph.
        StorageError: The folder was made with other settings, another command uses it, or it cannot be written.
        ConfigError: A run in the folder was trained by another recipe.
    """
    if table not in TABLES:
        raise InputError(f"tables are {', '.join(TABLES)}; found '{table}'")
    work = open_work(folder, graph, queries, settings, tell, asks_own=table == "betae")
    with locked(folder):
        report = TABLES[table](work)
        return report, report.write(folder / table)

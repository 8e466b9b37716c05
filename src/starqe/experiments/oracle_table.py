"""The paper's Oracle rows."""

from dataclasses import replace
from functools import partial

from starqe.experiments.findings import verdicts
from starqe.experiments.plots import SHOWN, bars
from starqe.experiments.table_report import Report, provenance
from starqe.experiments.work_folder import WorkFolder
from starqe.kg import SPLITS
from starqe.measure.oracle import oracle
from starqe.measure.paper import beside_paper
from starqe.measure.result_tables import grids
from starqe.measure.rows import AVERAGE, Row
from starqe.queries import SHAPES, load_queries, tables_of


def oracle_rows(work: WorkFolder) -> list[Row]:
    """Computes the oracle on all test queries, for each source of frequencies, shape by shape to bound the memory.

    What is finished is kept, one file per shape. The mean over the shapes is added at the end.
    """
    rows: list[Row] = []
    available = tables_of(work.queries)
    for shape in (shape for shape in SHAPES if all(shape in available.get(split, {}) for split in SPLITS)):
        for source in work.settings.sources:
            path = work.folder / "oracle" / f"{source.replace(' ', '-')}-{shape}.json"
            rows += work.rows_once(path, Row, partial(_of_shape, work, shape, source))
    rows += _means(rows)
    return beside_paper(rows, "results", work.graph.fingerprint)


def oracle_report(work: WorkFolder) -> Report:
    """Reproduces the Oracle rows alone."""
    rows = oracle_rows(work)
    return Report(
        "oracle",
        "The Oracle: what a perfect model without qualifiers would reach",
        rows,
        grids([row for row in rows if row.metric != "MR"]),
        grids([row for row in rows if row.metric in SHOWN and row.average == "micro"], stacked=True),
        bars(rows),
        verdicts("oracle", rows),
        notes=["The paper's Oracle numbers are micro averages, so only these are compared with ours; its text describes macro."],
        provenance=provenance(work, sample="all test queries; ranks are expectations over ties"),
    )


def _of_shape(work: WorkFolder, shape: str, source: str) -> list[Row]:
    work.tell(f"oracle ({source}): {shape}")
    tables = {split: load_queries(work.queries, split, [shape], graph=work.graph) for split in SPLITS}
    return [row for row in oracle(tables, len(work.graph.entities), source, replicates=0) if row.shape == shape]


def _means(rows: list[Row]) -> list[Row]:
    """Returns the mean over the shapes for rows that differ in their shape alone."""
    groups: dict[tuple[str, str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.name, row.metric, row.average), []).append(row)
    return [
        replace(group[0], shape=AVERAGE, n=sum(row.n for row in group), ours=sum(row.number for row in group) / len(group))
        for group in groups.values()
    ]

from pathlib import Path

import numpy as np

from starqe.experiments.reasoning.shapes_table import with_hard_answers
from starqe.kg import embedded_graph
from starqe.measure.ranking_protocols import strict
from starqe.queries import MORE_SHAPES, QuerySettings, generate, load_queries


def test_queries_are_taken_until_enough_have_a_hard_answer(tmp_path: Path) -> None:
    graph = embedded_graph()
    generate(graph, tmp_path / "queries", [MORE_SHAPES["2u"]], QuerySettings(), ["test"])
    table = load_queries(tmp_path / "queries", "test", ["2u"], None, graph)["2u"]
    hard = strict(graph, table, np.arange(len(table))).rows
    assert 10 < len(hard) < len(table) - 10  # some have easy answers only
    taken = with_hard_answers(graph, table, 10)
    task = strict(graph, taken, np.arange(len(taken)))
    assert (len(task.rows), task.rows[-1]) == (10, len(taken) - 1)
    assert len(taken) > 10
    assert taken.anchors.tolist() == table.anchors[: len(taken)].tolist()
    assert with_hard_answers(graph, table, len(table)) is table

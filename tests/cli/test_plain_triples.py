"""A graph without qualifiers, through every command that learns from it or measures it."""

import json
from pathlib import Path

import pytest

from starqe.kg import Statement, embedded_graph, graph_of, save_graph

SMALL = ("--set", "model.width=16", "--set", "train.epochs=1", "--threads", 1)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    splits = {
        split: [Statement(one.head, one.relation, one.tail) for one in embedded_graph().entity_part.statements(split)]
        for split in ("train", "valid", "test")
    }
    folder = tmp_path_factory.mktemp("plain") / "graph"
    save_graph(graph_of(**splits), folder)
    return folder


@pytest.mark.full
def test_models_learn_are_calibrated_and_are_evaluated(starqe, graph: Path, tmp_path: Path) -> None:
    def done(*arguments: object) -> str:
        code, out, error = starqe(*arguments)
        assert code == 0, error
        return out

    queries, encoder, predictor = tmp_path / "queries", tmp_path / "encoder", tmp_path / "predictor"
    counts = json.loads(done("queries", "generate", graph, queries, "--limit", 40, "--threads", 1, "--json"))["counts"]
    assert set(counts["train"].values()) == set(counts["test"].values()) == {40}
    done(
        "train",
        "--preset",
        "starqe-quick",
        graph,
        queries,
        "--out",
        encoder,
        "--set",
        "model.heads=4",
        "--set",
        "train.varied_per_shape=50",
        *SMALL,
    )
    done("train", "--preset", "one-hop-demo", graph, "--out", predictor, "--set", "model.members=2", *SMALL)
    done("calibrate", encoder, "--predictor", predictor, "--limit", 4, "--threads", 1)
    for by in ("encoder", "executor", "mixture"):
        rows = json.loads(done("evaluate", encoder, queries, "--by", by, "--protocol", "strict", "--limit", 5, "--json"))
        assert all(row["ours"] is not None for row in rows)
    for links in ("published", "ours", "every-entity"):
        rows = json.loads(done("evaluate", predictor, "--links", links, "--limit", 20, "--json"))
        found = {row["shape"] for row in rows if row["metric"] == "MRR" and row["ours"] is not None}
        assert {"tail", "head"} <= found
        assert "value" not in found
    for table in ("statistics", "oracle"):
        done("reproduce", table, "--graph", graph, "--queries", queries, "--out", tmp_path / "work")


def test_the_table_about_qualifiers_is_refused_before_anything_is_trained(starqe, graph: Path, tmp_path: Path) -> None:
    assert starqe("queries", "generate", graph, tmp_path / "queries", "--limit", 5, "--threads", 1)[0] == 0
    where = ("--graph", graph, "--queries", tmp_path / "queries", "--out", tmp_path / "work")
    code, _, error = starqe("reproduce", "qualifiers", *where)
    assert code == 1
    assert "about the qualifiers of queries, and the graph has none. Reproduce 'betae', for plain triples" in error
    assert not (tmp_path / "work" / "runs").exists()

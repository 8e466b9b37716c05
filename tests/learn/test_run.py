import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from starqe.errors import MismatchError, StorageError
from starqe.kg import Statement, graph_of, save_graph, with_split
from starqe.learn import QueryLesson, Run, Trainer
from starqe.queries import reify


def test_a_saved_model_gives_the_same_scores(trainer, queries, graph, tmp_path: Path) -> None:
    made = trainer("train.epochs=1", "train.average=0.9")
    made.train()
    first = made._run.scorer()
    second = Run.open(tmp_path / "run").scorer()
    for table in queries.values():
        rows = np.arange(min(5, len(table)))
        buffers = torch.empty(2, len(rows), len(graph.entities))
        assert torch.equal(first.scores(table, rows, buffers[0]), second.scores(table, rows, buffers[1]))


@pytest.mark.parametrize("variant", ["qualified", "triple-only", "reified"])
def test_queries_of_several_shapes_are_scored_together_in_the_order_of_their_rows(trainer, queries, graph, variant: str) -> None:
    scorer = trainer("train.epochs=1", f"train.variant={variant}")
    scorer.train()
    scorer = scorer._run.scorer()
    parts = [(queries["2i"], np.array([4, 0, 2])), (queries["1p"], np.array([3])), (queries["2p"], np.array([1, 0]))]
    together = scorer.scores_of(parts, torch.empty(6, len(graph.entities)))
    alone = [(table, np.array([row])) for table, rows in parts for row in rows]
    for place, (table, row) in enumerate(alone):
        torch.testing.assert_close(together[place], scorer.scores(table, row, torch.empty(1, len(graph.entities)))[0])


def test_another_graph_of_the_same_vocabulary_can_take_its_place(trainer, graph, tmp_path: Path) -> None:
    trainer().train()
    other = with_split(graph, np.zeros(len(graph)))
    assert other.fingerprint != graph.fingerprint
    assert Run.open(tmp_path / "run", other).graph is other


def test_a_graph_of_another_vocabulary_is_refused_with_both_fingerprints(trainer, graph, tmp_path: Path) -> None:
    trainer()
    other = graph_of(train=[Statement("a", "r", "b")])
    with pytest.raises(MismatchError, match=f"{graph.vocabulary_fingerprint[:12]}.*{other.vocabulary_fingerprint[:12]}"):
        Run.open(tmp_path / "run", other)


def test_a_run_is_not_overwritten(trainer) -> None:
    trainer()
    with pytest.raises(StorageError, match=r"exists already\. Continue it with the option resume"):
        trainer()


def test_a_folder_that_is_not_a_run_and_a_run_without_weights_are_named(trainer, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="not a run folder"):
        Run.open(tmp_path)
    trainer()
    with pytest.raises(StorageError, match=r"has no weights.safetensors yet"):
        Run.open(tmp_path / "run").encoder()


def test_weights_of_another_model_are_an_error(trainer) -> None:
    made = trainer("train.epochs=1")
    made.train()
    weights = made.model.state_dict()
    for other in ({"embedding.weight": weights["embedding.weight"]}, {**weights, "embedding.weight": torch.zeros(1, 1)}):
        made._run.save_weights(other)
        with pytest.raises(StorageError, match=r"do not fit its config\.toml.*Train it again"):
            made._run.encoder()


@pytest.mark.full
def test_a_checkpoint_of_another_model_is_an_error_and_loses_nothing(trainer, queries, tmp_path: Path) -> None:
    made = trainer("train.epochs=1")
    made.train()
    config, metrics = tmp_path / "run" / "config.toml", made._run.metrics()
    config.write_text(config.read_text().replace("width = 16", "width = 32"))
    with pytest.raises(StorageError, match=r"config\.toml: damaged or changed \(checksum \w+, recorded \w+\)\. Restore it"):
        Run.open(tmp_path / "run")
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    del header["checksum"], header["checksums"]  # as earlier versions wrote it
    (tmp_path / "run" / "run.json").write_text(json.dumps(header))
    run = Run.open(tmp_path / "run")
    with pytest.raises(StorageError, match=r"do not fit its config\.toml.*Train it again"):
        Trainer(run, QueryLesson(run, queries)).resume()
    assert run.metrics() == metrics


def test_a_run_whose_graph_is_another_one_is_an_error(trainer, tmp_path: Path) -> None:
    trainer()
    save_graph(graph_of([Statement("a", "r", "b")]), tmp_path / "run" / "graph", overwrite=True)
    with pytest.raises(
        MismatchError, match=r"graph is not the graph that the run was made with \(fingerprint \w{12}, run\.json says \w{12}\)"
    ):
        Run.open(tmp_path / "run")


def test_everyone_who_may_read_a_run_may_read_its_weights(trainer, tmp_path: Path) -> None:
    trainer("train.epochs=1").train()
    modes = {path.name: path.stat().st_mode for path in (tmp_path / "run").iterdir() if path.suffix in (".json", ".safetensors")}
    assert modes.keys() == {"run.json", "weights.safetensors", "state.safetensors"}
    assert len(set(modes.values())) == 1, modes


def test_weights_of_a_version_without_checksums_are_read(trainer, tmp_path: Path) -> None:
    made = trainer("train.epochs=1")
    made.train()
    save_file(made.model.state_dict(), tmp_path / "run" / "weights.safetensors")
    assert Run.open(tmp_path / "run").encoder().state_dict().keys() == made.model.state_dict().keys()


def test_damaged_weights_are_an_error_and_no_pickle_is_read(trainer, tmp_path: Path) -> None:
    trainer().train()
    (tmp_path / "run" / "weights.safetensors").write_bytes(b"\x80\x04\x95 this would be a pickle")
    with pytest.raises(StorageError, match="damaged"):
        Run.open(tmp_path / "run").encoder()


def test_a_reified_model_has_rows_for_relation_nodes(trainer, graph, queries) -> None:
    made = trainer("train.variant=reified")
    assert made.model.space.input_rows == len(graph.entities) + len(graph.relations) + 3
    assert made.model.entity_matrix().shape == (len(graph.entities), 16)
    assert reify(queries["1p"], len(graph.entities), len(graph.relations))[0].table.shape.diameter == 2

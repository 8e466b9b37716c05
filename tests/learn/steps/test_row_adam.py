import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import ConfigError
from starqe.learn import QueryLesson, Recipe, Run, Trainer
from starqe.learn.steps.row_adam import RowAdam, decay_at, log_kept
from starqe.model.embedding import Table, table
from starqe.model.noise import round_to_half

ROWS = ("train.optimizer=rows", "train.candidates=5")


def new_table(values: list[list[float]]) -> Table:
    made = table(len(values), len(values[0]))
    made.data.copy_(torch.tensor(values))
    return made


def test_a_row_moves_by_its_gradient_over_the_root_of_its_mean_squares() -> None:
    weights = new_table([[1.0, 1.0], [2.0, 2.0], [0.0, 0.0]])
    adam = RowAdam(weights, None, 0.0, 0)
    adam.step(torch.tensor([2]), torch.tensor([[3.0, 4.0]]), 0.1, 0)
    # At first every feature moves by the rate, as by Adam; (9 + 16) / 2 thousandths are kept.
    torch.testing.assert_close(weights[2].float(), torch.tensor([-0.1, -0.1]), rtol=1e-3, atol=0)
    assert float(adam.state()["moment"][2]) == pytest.approx(0.0125)
    adam.step(torch.tensor([2]), torch.tensor([[1.0, 0.0]]), 0.1, 1)
    # 0.999 x 0.0125 + 0.001 = 0.0134875, divided by 1 - 0.999²: 6.7471, whose root is 2.5975.
    torch.testing.assert_close(weights[2].float(), torch.tensor([-0.1 - 0.1 / 2.5975, -0.1]), rtol=1e-3, atol=0)
    assert weights[:2].tolist() == [[1, 1], [2, 2]]


def test_the_moment_of_a_row_fades_while_it_is_not_touched() -> None:
    weights = new_table([[0.0]])
    adam = RowAdam(weights, None, 0.0, 0)
    adam.step(torch.tensor([0]), torch.tensor([[2.0]]), 0.0, 0)
    adam.step(torch.tensor([0]), torch.tensor([[1.0]]), 1.0, 10)
    moment = 0.999**10 * 0.004 + 0.001
    assert float(adam.state()["moment"][0]) == pytest.approx(moment)
    assert float(weights[0, 0].detach()) == pytest.approx(-1 / math.sqrt(moment / (1 - 0.999**11)), rel=1e-3)


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=40), st.sampled_from([0.5, 0.9, 0.99]))
def test_the_average_of_touched_rows_is_the_average_over_all_steps(touched: list[list[bool]], decay: float) -> None:
    start = [[0.5, -0.25], [1.0, 0.125], [-2.0, 0.75]]
    weights, average = new_table(start), new_table(start)
    adam, mean = RowAdam(weights, average, decay, 0), torch.tensor(start)
    for step, chosen in enumerate(touched):
        rows = torch.tensor(chosen).nonzero().squeeze(1)
        adam.step(rows, torch.ones(len(rows), 2), 0.1, step)
        mean = decay_at(step, decay) * mean + (1 - decay_at(step, decay)) * weights.detach().float()
    before = weights.detach().clone()
    adam.settle(len(touched))
    torch.testing.assert_close(average.detach().float(), mean, rtol=0.02, atol=0.005)  # rounded in every step
    assert torch.equal(weights.detach(), before)


@pytest.mark.parametrize("most", [0.05, 0.5, 0.999])
def test_the_kept_share_is_the_product_of_the_decays(most: float) -> None:
    for steps in (0, 1, 7, 300):
        product = math.prod(decay_at(step, most) for step in range(steps))
        assert float(log_kept(torch.tensor([steps]), most).exp()) == pytest.approx(product, rel=1e-6)


def test_rounding_takes_one_of_the_two_neighbours_and_keeps_the_mean() -> None:
    value = 1 + 0.3 / 1024  # the next numbers are 1 and 1 + 1/1024
    rounded = round_to_half(torch.full((40_000,), value), torch.Generator().manual_seed(0)).double()
    assert rounded.unique().tolist() == [1, 1 + 1 / 1024]
    assert float(rounded.mean()) == pytest.approx(value, abs=1e-5)
    exact = torch.tensor([0.0, -1.5, 0.25, -3e-5, 1024.0]).half()
    assert torch.equal(round_to_half(exact.float(), torch.Generator().manual_seed(1)), exact)


@pytest.mark.parametrize("kept", ["train.average=0.9", "train.average=0"])
def test_training_row_by_row_learns(trainer: Callable[..., Trainer], kept: str) -> None:
    made = trainer(*ROWS, kept, "train.candidates=16", "train.epochs=12", "train.learning_rate=0.01")
    made.train()
    validated = [line["validation_mrr"] for line in made._run.metrics() if line.get("validation")]
    assert validated[0] < 65
    assert max(validated) > 75


def test_the_gradients_of_the_touched_rows_are_those_of_the_dense_gradient(trainer: Callable[..., Trainer]) -> None:
    by_rows, dense = trainer(*ROWS, name="rows"), trainer("train.candidates=5", name="dense")
    for model in (by_rows.model, dense.model):
        model.load_state_dict({name: tensor.half() for name, tensor in dense.model.state_dict().items()})
    batch = next(dense.lesson.batches(0))
    dense._gradients(batch)
    rows, gradient = by_rows._gradients(batch)[2]["embedding.weight"]
    expected = dense.model.embedding.weight.grad
    torch.testing.assert_close(gradient, expected[rows])
    untouched = torch.ones(len(expected), dtype=torch.bool).index_fill(0, rows, False)
    assert not expected[untouched].any()
    assert by_rows.model.embedding.weight.grad is None


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux has files without a name")
def test_the_file_of_mapped_embeddings_never_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allocate, seen = os.posix_fallocate, []

    def look(handle: int, start: int, size: int) -> None:
        seen.append(list(tmp_path.iterdir()))
        allocate(handle, start, size)

    monkeypatch.setattr(os, "posix_fallocate", look)
    made = table(3, 4, tmp_path)
    made.data.fill_(2)
    assert (seen, made.sum().item()) == ([[]], 24)


def test_mapped_embeddings_are_trained_to_the_same_weights(trainer: Callable[..., Trainer]) -> None:
    found = []
    for name, settings in (("memory", ROWS), ("mapped", (*ROWS, "train.mapped=true"))):
        made = trainer(*settings, "train.average=0.9", name=name)
        made.train()
        found.append(made._run.weights()["embedding.weight"])
        assert not [path.name for path in made._run.folder.iterdir() if path.name.startswith(".table")]
    assert torch.equal(*found)


def test_a_model_that_was_trained_row_by_row_is_used_in_single_precision(trainer: Callable[..., Trainer], queries) -> None:
    made = trainer(*ROWS, "train.epochs=1")
    made.train()
    run = Run.open(made._run.folder)
    assert run.weights()["embedding.weight"].dtype == torch.float16
    encoder = run.encoder()
    assert encoder.embedding.weight.dtype == torch.float32
    table, rows = queries["2p"], range(4)
    scores = run.scorer().scores(table, rows, torch.empty(4, len(run.graph.entities)))
    trained = QueryLesson(run, queries).new_model()
    run.put_into(trained, run.weights())
    assert isinstance(trained.embedding.weight, Table)
    vectors = run.scorer().vectors([(table, rows)])
    torch.testing.assert_close(scores, vectors @ trained.entity_matrix().detach().float().T)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["train.optimizer=rows"], "needs sampled negatives, found train.candidates=0"),
        ([*ROWS, "train.weight_decay=0.1"], "has no weight decay"),
        (["train.mapped=true"], "Set train.optimizer=rows"),
    ],
)
def test_what_does_not_go_together_is_refused(settings: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Recipe().with_settings(settings)

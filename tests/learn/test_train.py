import itertools
import json
import math
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from safetensors import safe_open

from starqe.errors import ConfigError, MismatchError, QueryError, StorageError, TrainingError
from starqe.kg import Statement, graph_of, save_graph
from starqe.learn import PRESETS, QueryLesson, Recipe, Run, Trainer, preset
from starqe.learn.config import TrainConfig
from starqe.learn.steps.schedule import learning_rate
from tests.learn.resuming import train_steps, train_the_rest

MakeTrainer = Callable[..., Trainer]


def weights_hash(run: Path) -> str:
    return sha256((run / "weights.safetensors").read_bytes()).hexdigest()


class TestLearningRate:
    CONFIG = TrainConfig(learning_rate=1.0, warmup=0.1, end_rate=0.2)

    @pytest.mark.parametrize(("progress", "rate"), [(0.05, 0.5), (0.1, 1.0), (0.55, 0.6), (1.0, 0.2)])
    def test_rises_evenly_then_falls_as_half_a_cosine_to_its_end(self, progress: float, rate: float) -> None:
        assert learning_rate(self.CONFIG, progress) == pytest.approx(rate)

    @pytest.mark.parametrize(("schedule", "rate"), [("constant", 1.0), ("linear", 0.6)])
    def test_follows_the_schedule(self, schedule: str, rate: float) -> None:
        config = self.CONFIG.with_settings([f"schedule={schedule}"])
        assert learning_rate(config, 0.55) == pytest.approx(rate)

    def test_never_begins_at_zero(self) -> None:
        assert learning_rate(self.CONFIG, 0.0) > 0


@pytest.mark.parametrize("candidates", [0, pytest.param(16, marks=pytest.mark.full)])
def test_training_learns(trainer: MakeTrainer, candidates: int) -> None:
    made = trainer("train.epochs=12", "train.learning_rate=0.01", f"train.candidates={candidates}")
    made.train()
    validated = [line["validation_mrr"] for line in made._run.metrics() if line.get("validation")]
    assert len(validated) == 12
    assert validated[0] < 62
    assert max(validated) > 72  # 71 to 97 with five seeds and drawn candidates


def test_embeddings_learn_at_a_rate_of_their_own(trainer: MakeTrainer) -> None:
    made = trainer("train.learning_rate=0.001", "train.embedding_rate=5", "train.warmup=0", "train.schedule=constant")
    before = {name: weight.detach().clone() for name, weight in made.model.named_parameters()}
    made.step(next(made.lesson.batches(0)))
    moved = {name: float((weight.detach() - before[name]).abs().max()) for name, weight in made.model.named_parameters()}
    assert moved.pop("embedding.weight") == pytest.approx(0.005, rel=1e-3)  # the first step of Adam is as long as the rate
    assert max(moved.values()) == pytest.approx(0.001, rel=1e-3)


def test_the_same_seed_gives_the_same_weights_and_another_seed_others(trainer: MakeTrainer, tmp_path: Path) -> None:
    for name, seed in (("one", 1), ("two", 1), ("three", 2)):
        trainer(f"seed={seed}", name=name).train()
    assert weights_hash(tmp_path / "one") == weights_hash(tmp_path / "two")
    assert weights_hash(tmp_path / "one") != weights_hash(tmp_path / "three")


@pytest.mark.full
@pytest.mark.parametrize(
    "settings",
    [
        (),
        ("train.average=0.9",),
        ("train.candidates=5",),
        (
            "train.candidates=5",
            "train.optimizer=rows",
            "train.average=0.9",
            "train.shards=3",
            "train.redraw=true",
            "train.varied_per_shape=30",
        ),
        ("train.schedule=linear", "train.weight_decay=0.01", "train.clip=1.0", "train.embedding_rate=3"),
    ],
)
def test_a_resumed_training_equals_the_uninterrupted_one(
    trainer: MakeTrainer, tmp_path: Path, settings: tuple[str, ...], queries, validation
) -> None:
    trainer(*settings, name="whole").train()
    train_steps(trainer(*settings, "train.checkpoint_seconds=0", name="broken"), 5)
    run = Run.open(tmp_path / "broken")
    train_the_rest(Trainer(run, QueryLesson(run, queries, validation)), 5)
    assert weights_hash(tmp_path / "broken") == weights_hash(tmp_path / "whole")
    steps = [line["step"] for line in Run.open(tmp_path / "broken").metrics()]
    assert steps == sorted(steps)


def test_resuming_before_the_first_checkpoint_starts_from_the_beginning(trainer: MakeTrainer) -> None:
    made = trainer()
    made._run.add_metrics({"step": 1})
    assert not made.resume()
    assert made._run.metrics() == []


def test_a_finished_training_stays_finished(trainer: MakeTrainer, tmp_path: Path, queries) -> None:
    trainer().train()
    before = weights_hash(tmp_path / "run")
    run = Run.open(tmp_path / "run")
    again = Trainer(run, QueryLesson(run, queries))
    again.resume()
    assert again.train().finished
    assert weights_hash(tmp_path / "run") == before


def test_patience_stops_a_training_that_gets_no_better(trainer: MakeTrainer) -> None:
    counters = trainer("train.epochs=50", "train.patience=2", "train.delta=0.5", "train.learning_rate=1e-9").train()
    assert counters.epoch == 3  # the first is the best; two more are no better
    assert counters.best_epoch == 0


@pytest.mark.full
def test_the_limit_in_minutes_ends_the_training_in_time(trainer: MakeTrainer) -> None:
    start = time.perf_counter()
    counters = trainer("train.epochs=100000", minutes=0.03).train()
    assert counters.finished
    assert time.perf_counter() - start < 30  # of 1.8: a guard against never ending, not a measurement


def test_without_validation_the_last_weights_are_the_model(trainer: MakeTrainer, tmp_path: Path) -> None:
    made = trainer("train.validation_queries=0")
    made.train()
    loaded = Run.open(tmp_path / "run").encoder().state_dict()
    assert all(torch.equal(loaded[name], tensor) for name, tensor in made.model.state_dict().items())


def test_the_average_is_the_mean_that_its_decay_says(trainer: MakeTrainer) -> None:
    made = trainer("train.average=0.5")
    first = made.model.relation_embedding.detach().clone()
    made.step(next(made.lesson.batches(0)))
    second = made.model.relation_embedding.detach()
    # At step 0 the decay is (1 + 0) / (10 + 0) = 0.1, below 0.5.
    torch.testing.assert_close(made.average.relation_embedding.detach(), 0.1 * first + 0.9 * second)


def test_a_loss_that_is_not_a_number_stops_and_leaves_the_checkpoint(trainer: MakeTrainer, tmp_path: Path, queries) -> None:
    made = trainer()
    made.save()
    good = (tmp_path / "run" / "state.safetensors").read_bytes()
    with torch.no_grad():
        made.model.embedding.weight[0, 0] = math.nan
    with pytest.raises(TrainingError, match=r"the loss is not a number at step 0.*checkpoint is intact.*train.learning_rate"):
        made.train()
    assert (tmp_path / "run" / "state.safetensors").read_bytes() == good
    run = Run.open(tmp_path / "run")
    assert Trainer(run, QueryLesson(run, queries)).resume()


def test_a_full_disk_while_saving_leaves_the_last_checkpoint(
    trainer: MakeTrainer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, queries
) -> None:
    made = trainer()
    made.save()
    good = (tmp_path / "run" / "state.safetensors").read_bytes()

    def full(path: Path, _tensors: object, _metadata: object) -> None:
        Path(path).write_bytes(b"half a file")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("starqe.learn.run.write_tensors", full)
    made.step(next(made.lesson.batches(0)))
    with pytest.raises(StorageError, match="No space left on device"):
        made.save()
    assert (tmp_path / "run" / "state.safetensors").read_bytes() == good
    assert not [path.name for path in (tmp_path / "run").iterdir() if path.name.startswith(".")]


def test_queries_of_another_graph_are_refused(trainer: MakeTrainer, queries, tmp_path: Path) -> None:
    other = graph_of(train=[Statement("a", "r", "b")])
    run = Run.create(tmp_path / "other", Recipe(), other)
    with pytest.raises(
        MismatchError,
        match=rf"another graph \(fingerprint {queries['1p'].header['fingerprint'][:12]}, this graph {other.fingerprint[:12]}\)",
    ):
        QueryLesson(run, queries)


def test_a_gradient_that_is_not_a_number_is_caught_before_it_spoils_the_weights(trainer: MakeTrainer) -> None:
    made = trainer()
    made.model.relation_embedding.register_hook(lambda gradient: gradient * math.inf)
    with pytest.raises(TrainingError, match=r"the gradient is not a number at step 0.*checkpoint is intact"):
        made.step(next(made.lesson.batches(0)))
    assert all(torch.isfinite(weight).all() for weight in made.model.parameters())


def test_patience_needs_validation_or_a_limit(graph, queries, tmp_path: Path) -> None:
    recipe = Recipe().with_settings(
        ["train.patience=2", "train.epochs=1000", "train.one_hop_per_direction=30", "train.queries_per_shape=20"]
    )
    run = Run.create(tmp_path / "run", recipe, graph)
    with pytest.raises(ConfigError, match=r"train.patience=2 stops by validation, and there is nothing to validate on"):
        Trainer(run, QueryLesson(run, queries)).train()
    assert Trainer(run, QueryLesson(run, queries), minutes=0.001).train().finished


def test_the_best_model_is_kept_even_if_it_is_better_by_less_than_delta(trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trainer("train.epochs=100", "train.patience=3", "train.delta=0.02")
    found = iter([50.0, 50.9, 50.95, 50.8, 40.0])
    monkeypatch.setattr(made.lesson, "validate", lambda _: {"average": next(found)})
    counters = made.train()
    assert (counters.best, counters.best_epoch, counters.epoch) == (50.95, 2, 4)  # three epochs without a gain of 2%


def test_if_only_gains_are_kept_a_model_that_is_better_by_less_than_delta_is_not(
    trainer: MakeTrainer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = trainer("train.epochs=100", "train.patience=3", "train.delta=0.02", "train.keep=gained")
    found, hashes = iter([50.0, 50.9, 51.1, 52.1, 50.0, 52.0]), []
    monkeypatch.setattr(made.lesson, "validate", lambda _: {"average": next(found)})
    monkeypatch.setattr(made._run, "save_weights", lambda _: hashes.append(made.counters.epoch))
    counters = made.train()
    # 51.1 is more than 1.02 x 50, 52.1 is less than 1.02 x 51.1: the weights of epochs 0 and 2 are written, and three epochs follow
    assert (counters.best, counters.best_epoch, counters.epoch, hashes) == (51.1, 2, 6, [0, 2])


def test_models_can_be_chosen_by_hits_pooled_over_all_answers(trainer: MakeTrainer) -> None:
    made = trainer("train.epochs=1", "train.choose_by=pooled Hits@10")
    counters = made.train()
    found = made.lesson.validate(made.best_guess.eval())
    rows = made.lesson.measure(made.best_guess.eval())
    by_shape = [row for row in rows if (row.metric, row.average) == ("Hits@10", "micro") and row.shape not in ("average", "all")]
    assert len({row.n for row in by_shape}) > 1  # shapes have different numbers of answers, so the mean over them is another number
    pooled = sum(row.number * row.n for row in by_shape) / sum(row.n for row in by_shape)
    assert found["pooled Hits@10"] == counters.best == pytest.approx(pooled, abs=1e-3)
    assert made.best_validation == {"validation_mrr": None, "validation_hits": counters.best}
    (line,) = [line for line in made._run.metrics() if line.get("validation")]
    assert (line["validation_mrr"], line["best_hits"]) == (found["average"], counters.best)


def test_only_the_first_queries_of_a_table_are_the_pool(graph, queries, tmp_path: Path) -> None:
    run = Run.create(
        tmp_path / "run", Recipe().with_settings(['train.shapes=["2i"]', "train.pool_per_shape=5", "train.one_hop=none"]), graph
    )
    lesson = QueryLesson(run, queries)
    assert lesson.per_epoch == 5
    assert {int(row) for batch in lesson.batches(0) for _, rows in batch for row in rows} == set(range(5))


def test_a_shape_that_the_tables_lack_is_named(graph, queries, tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", Recipe(), graph)
    some = {name: table for name, table in queries.items() if name != "3i"}
    with pytest.raises(QueryError, match=r"no training queries of the shape '3i' \(there are some of 1p, "):
        QueryLesson(run, some)


def test_an_unknown_key_is_refused_with_the_nearest_known_one() -> None:
    with pytest.raises(ConfigError, match=r"unknown key 'train.learning_rat'. Did you mean 'train.learning_rate'\?"):
        Recipe.parse({"train": {"learning_rat": 1}})


@pytest.mark.parametrize("name", PRESETS)
@pytest.mark.parametrize("variant", ["qualified", "triple-only", "reified"])
def test_every_preset_trains_a_step_on_every_variant(name: str, variant: str, graph, queries, validation, tmp_path: Path) -> None:
    small = [
        "model.width=16",
        "model.heads=2",
        "train.batch=64",
        "train.queries_per_shape=20",
        "train.one_hop_per_direction=9",
        "train.epochs=1",
    ]
    if preset(name).train.varied_per_shape:
        small.append("train.varied_per_shape=40")
    recipe = preset(name).with_settings([*small, f"train.variant={variant}", "train.validation_queries=5"])
    run = Run.create(tmp_path / "run", recipe, graph)
    before = {key: value.clone() for key, value in QueryLesson(run, queries, validation).new_model().state_dict().items()}
    Trainer(run, QueryLesson(run, queries, validation)).train()
    after = run.encoder().state_dict()
    moved = [key for key, value in after.items() if not torch.equal(value, before[key])]
    assert "embedding.weight" in moved
    assert all(torch.isfinite(value).all() for value in after.values() if value.is_floating_point())


@pytest.mark.parametrize("times", [pytest.param(3, marks=pytest.mark.full), pytest.param(10, marks=pytest.mark.slow)])
def test_killed_at_random_moments_a_training_resumes_to_the_same_weights(
    starqe: Callable[..., tuple[int, str, str]], graph, query_folder: Path, tmp_path: Path, times: int
) -> None:
    """Ends the real command by SIGKILL, SIGINT and SIGTERM in turn, with a schedule, averaging and validation active."""
    save_graph(graph, tmp_path / "graph")
    settings = ["--preset", "demo", *(f"--set={setting}" for setting in _KILLED)]
    command = ["train", str(tmp_path / "graph"), str(query_folder), "--threads", "1", "--json"]
    code, whole, _ = starqe(*command, *settings, "--out", tmp_path / "whole")
    assert code == 0
    steps = json.loads(whole)["steps"]
    draw = random.Random(0)
    killed = tmp_path / "killed"
    moments, reached = [], 0
    ends = itertools.cycle(((signal.SIGKILL, -signal.SIGKILL), (signal.SIGINT, 130), (signal.SIGTERM, 143)))
    for wanted in sorted(draw.sample(range(1, steps - 5), times)):
        how, code = next(ends)
        start = ["--resume"] if moments else settings
        words = [sys.executable, "-m", "starqe", *command, *start, "--out", str(killed)]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            while _checkpointed(killed) < wanted:
                assert process.poll() is None, process.stderr.read().decode()
                time.sleep(0.02)
            time.sleep(draw.uniform(0, 0.03))
            process.send_signal(how)
            said = process.stderr.read().decode()
        if process.returncode == 0:
            break  # faster than the signal: nothing is left to kill
        assert process.returncode in (code, -how), said  # a signal before the training has begun ends the program as any other
        begun = how != signal.SIGKILL and _checkpointed(killed) > reached
        assert "To continue: starqe train " in said or not begun, said
        assert "Traceback" not in said
        assert _checkpointed(killed) >= max(wanted, reached)  # nothing that was saved is lost
        reached = _checkpointed(killed)
        moments.append(f"step {reached}")
    print("killed at", ", ".join(moments))
    assert moments
    assert starqe(*command, "--resume", "--out", killed)[0] == 0
    assert _checkpointed(killed) == steps
    assert weights_hash(killed) == weights_hash(tmp_path / "whole")
    assert [line["step"] for line in Run.open(killed).metrics() if "validation" in line] == [
        line["step"] for line in Run.open(tmp_path / "whole").metrics() if "validation" in line
    ]


def _checkpointed(folder: Path) -> int:
    path = folder / "state.safetensors"
    if not path.exists():
        return 0
    with safe_open(path, "pt") as file:
        return json.loads(file.metadata()["counters"])["step"]


_KILLED = (
    "model.width=32",
    "train.batch=16",
    "train.queries_per_shape=40",
    "train.epochs=3",
    "train.checkpoint_seconds=0",
    "train.validation_queries=20",
    "train.warmup=0.1",
)


@pytest.mark.full
@pytest.mark.parametrize("settings", [(), ("train.average=0.9", "train.candidates=5", "train.optimizer=rows")])
def test_an_interrupted_training_continues_from_the_step_where_it_was(
    trainer: MakeTrainer, tmp_path: Path, settings: tuple[str, ...], queries, validation
) -> None:
    """Ctrl-C comes in the middle of a step; no checkpoint was due."""
    trainer(*settings, name="whole").train()
    broken = trainer(*settings, "train.checkpoint_seconds=9999", name="broken")
    loss, steps = broken.lesson.loss_per_query, []

    def interrupted(*arguments: object) -> object:
        steps.append(1)
        if len(steps) == 7:
            signal.raise_signal(signal.SIGINT)
        return loss(*arguments)

    broken.lesson.loss_per_query = interrupted
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # workers of the tests ignore it
    try:
        with pytest.raises(KeyboardInterrupt):
            broken.train()
    finally:
        signal.signal(signal.SIGINT, before)
    run = Run.open(tmp_path / "broken")
    train_the_rest(Trainer(run, QueryLesson(run, queries, validation)), 7)
    assert weights_hash(tmp_path / "broken") == weights_hash(tmp_path / "whole")

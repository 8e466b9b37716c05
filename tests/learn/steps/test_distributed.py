import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from starqe.errors import ConfigError
from starqe.kg import save_graph
from starqe.learn import Run, Trainer
from starqe.learn.steps.distributed import ALONE, Processes, joined
from starqe.reason.predictor.run import PredictorRun
from tests.learn.steps.loss_curve import losses, trainer_of
from tests.places import ROOT

ROWS = ("train.optimizer=rows", "train.candidates=12", "train.average=0.9")
CASES = {
    "rows": ("predictor", *ROWS),
    "dense, with batch norm": ("encoder", "model.batch_norm=true", "train.average=0.9", "train.clip=1"),
    "rows of an encoder": ("encoder", *ROWS, "model.batch_norm=true"),
}


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def of_two_processes(*words: str) -> list[float]:
    """Starts two processes as torchrun does; returns what the first one prints."""
    port = str(free_port())
    common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tests.learn.steps.loss_curve", *words]
    started = [
        subprocess.Popen(
            command, env={**common, "RANK": rank, "LOCAL_RANK": rank}, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for rank in ("0", "1")
    ]
    printed = [process.communicate(timeout=300) for process in started]
    assert [process.returncode for process in started] == [0, 0], [error.decode() for _, error in printed]
    return [float(loss) for loss in json.loads(printed[0][0])]


@pytest.mark.parametrize("case", [pytest.param(name, marks=pytest.mark.full if name == "rows" else pytest.mark.slow) for name in CASES])
def test_two_processes_have_the_losses_of_one_with_the_same_batches(case: str, tmp_path: Path) -> None:
    kind, *settings = CASES[case]
    settings += ["train.shards=2", "train.epochs=40", "train.learning_rate=0.01"]
    one = losses(trainer_of(kind, tmp_path / "one", settings, ALONE), 200)
    assert one[-1] < one[0] - 0.3
    two = of_two_processes(kind, str(tmp_path / "two"), "200", *settings)
    assert two == pytest.approx(one, abs=1e-4)


def test_what_has_no_randomness_is_the_same_in_one_shard_and_in_two(tmp_path: Path) -> None:
    settings = ["model.dropout=0", "model.input_dropout=0", "train.learning_rate=0.01"]
    whole, parts = (
        losses(trainer_of("encoder", tmp_path / str(count), [*settings, f"train.shards={count}"], ALONE), 20) for count in (1, 2)
    )
    assert parts == pytest.approx(whole, abs=1e-4)


def test_shards_are_the_batch_in_about_equal_parts(trainer: Callable[..., Trainer], tmp_path: Path) -> None:
    lesson = trainer().lesson
    batch = next(lesson.batches(0))
    found = lesson.shards(batch, 5)
    assert sorted(count for _, count in found) == [6, 6, 6, 7, 7]
    rows = sorted((id(table), int(row)) for part, _ in found for table, rows in part for row in rows)
    assert rows == sorted((id(table), int(row)) for table, of_table in batch for row in of_table)
    assert len(lesson.shards(batch[:1], 1000)) == len(batch[0][1])

    predicting = trainer_of("predictor", tmp_path / "predictor", [], ALONE).lesson
    gaps = next(predicting.batches(0))
    parts = predicting.shards(gaps, 3)
    assert [count for _, count in parts] == [11, 11, 10]
    assert sorted(int(head) for part, _ in parts for head in part.head) == sorted(gaps.head.tolist())


def test_shards_are_dealt_out_to_the_processes() -> None:
    assert [list(Processes(rank, 3).shards(5)) for rank in range(3)] == [[0, 3], [1, 4], [2]]
    with joined() as alone:
        assert (alone.writes, alone.count, list(alone.shards(2))) == (True, 1, [0, 1])


def test_more_processes_than_shards_are_refused(trainer: Callable[..., Trainer]) -> None:
    with pytest.raises(ConfigError, match=r"2 processes need as many shards, found train.shards=1"):
        trainer(processes=Processes(0, 2))


@pytest.mark.slow
def test_torchrun_resumes_by_itself_when_a_process_is_killed(graph, tmp_path: Path) -> None:
    """One of two processes is killed; torchrun starts both again, and they end with the weights of an uninterrupted training."""
    save_graph(graph, tmp_path / "graph")
    settings = ["model.width=16", "train.batch=16", "train.epochs=60", "train.checkpoint_seconds=0", "train.validation_questions=10", *ROWS]

    def command(out: str) -> list[str]:
        run = ["torch.distributed.run", "--nproc-per-node=2", "--max-restarts=3", f"--master-port={free_port()}", "-m", "starqe", "train"]
        sets = [word for setting in settings for word in ("--set", setting)]
        return [sys.executable, "-m", *run, str(tmp_path / "graph"), "--preset", "one-hop", *sets, "--out", str(tmp_path / out), "--json"]

    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole = subprocess.run(command("whole"), env=environment, capture_output=True, timeout=600, check=False)
    assert whole.returncode == 0, whole.stderr.decode()
    with subprocess.Popen(command("killed"), env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        for rank, step in (("1", 30), ("0", 200)):
            while _steps(tmp_path / "killed") < step:
                assert process.poll() is None, process.stderr.read().decode()
                time.sleep(0.05)
            os.kill(_process_of(process.pid, rank), signal.SIGKILL)
        printed, _ = process.communicate(timeout=600)
    assert process.returncode == 0
    assert json.loads(printed)["steps"] == json.loads(whole.stdout)["steps"]
    one, other = (PredictorRun.open(tmp_path / name) for name in ("whole", "killed"))
    assert one.recipe.train.shards == 2
    assert all(torch.equal(tensor, other.weights()[name]) for name, tensor in one.weights().items())


def _process_of(parent: int, rank: str) -> int:
    """Returns the process with a rank among the children of torchrun."""
    children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return next(int(child) for child in children if f"\0RANK={rank}\0" in "\0" + Path(f"/proc/{child}/environ").read_text())


def _steps(folder: Path) -> int:
    found = Run.load_state(PredictorRun.open(folder)) if (folder / "state.safetensors").exists() else None  # type: ignore[arg-type]
    return 0 if found is None else int(found[1]["step"])

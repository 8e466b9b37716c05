import json
import subprocess
from pathlib import Path

import pytest

from starqe.bench.scale import growth, scale_steps
from starqe.bench.scale.growth import RESULTS, bench_scale, plot_scale
from starqe.bench.scale.scale_steps import STEPS, Size, measured
from starqe.errors import InputError, StarqeError
from starqe.kg import load_graph


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Steps that take no time; returns those that ran."""
    ran: list[str] = []

    def run(arguments: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        step, folder, entities = arguments[3:6]
        ran.append(f"{step} {entities}")
        if step == "draw" and entities == "3000":
            raise subprocess.TimeoutExpired(arguments, 1)
        if step == "open" and entities == "4000":
            return subprocess.CompletedProcess(arguments, 1, "", "Traceback\nInputError: no such graph")
        if step in growth._WRITES:
            place = Path(folder) / growth._WRITES[step]
            place.mkdir(parents=True)
            (place / "file").write_bytes(b"x" * 2_000_000)
        found = {"units": 10, "cpu_us_per_unit": 2.0, "cpu_p50_ms": 1.0, "exact_cpu_p50_ms": 3.0, "peak_mb": 5}
        return subprocess.CompletedProcess(arguments, 0, f"a warning\n{json.dumps(found)}\n", "")

    monkeypatch.setattr(growth.subprocess, "run", run)
    return ran


def test_steps_that_were_measured_are_not_measured_again(quick, tmp_path):
    bench_scale(tmp_path, [1_000], only=["write", "open"])
    assert quick == ["write 1000", "open 1000"]
    rows = bench_scale(tmp_path, [1_000, 2_000])
    assert quick[2:] == [f"{step} 1000" for step in STEPS if step not in ("write", "open")] + [f"{step} 2000" for step in STEPS]
    assert {(row["entities"], row["step"]) for row in rows} == {(count, step) for count in (1_000, 2_000) for step in STEPS}
    assert next(row for row in rows if row["step"] == "import")["disk_mb"] == 2.0
    assert len((tmp_path / RESULTS).read_text().splitlines()) == 2 * len(STEPS)
    plot_scale(rows, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes()[:4] == b"\x89PNG"


def test_sizes_take_turns_and_the_fastest_round_counts(quick, tmp_path, monkeypatch):
    costs, run = iter([2.0, 3.0, 7.0, 1.0, 5.0, 4.0]), growth.subprocess.run

    def timed(arguments: list[str], **more: object) -> subprocess.CompletedProcess[str]:
        done = run(arguments, **more)
        found = json.loads(done.stdout.splitlines()[-1])
        return subprocess.CompletedProcess(arguments, 0, json.dumps({**found, "cpu_us_per_unit": next(costs)}), "")

    monkeypatch.setattr(growth.subprocess, "run", timed)
    rows = bench_scale(tmp_path, [1_000, 2_000], only=["write", "draw"], rounds=2)
    assert quick == ["write 1000", "draw 1000", "write 2000", "draw 2000", "draw 1000", "draw 2000"]
    assert {(row["entities"], row["step"]): row["cpu_us_per_unit"] for row in rows} == {
        (1_000, "write"): 2.0,
        (1_000, "draw"): 3.0,
        (2_000, "write"): 7.0,
        (2_000, "draw"): 1.0,
    }
    assert [row["cpu_us_per_unit"] for row in bench_scale(tmp_path, [2_000], only=["draw"], rounds=2)] == [7.0, 1.0]
    assert len(quick) == 6  # nothing again


def test_a_step_over_the_limit_is_ended_and_the_others_go_on(quick, tmp_path):
    rows = {row["step"]: row for row in bench_scale(tmp_path, [3_000], limit=0.5)}
    assert rows["draw"]["timed_out"]
    assert rows["draw"]["seconds"] == 30
    assert "timed_out" not in rows["train"]


def test_a_step_that_fails_tells_why_and_keeps_the_others(quick, tmp_path):
    with pytest.raises(StarqeError, match=r"the step 'open' with 4,000 entities failed: InputError: no such graph"):
        bench_scale(tmp_path, [4_000])
    assert [json.loads(line)["step"] for line in (tmp_path / RESULTS).read_text().splitlines()] == ["write", "import"]


def test_a_large_world_is_not_asked_by_a_short_training(quick, tmp_path):
    bench_scale(tmp_path, [growth.LARGE])
    assert [one.split()[0] for one in quick] == [step for step in STEPS if step not in ("index", "ask")]


def test_wrong_numbers_and_steps_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"steps are write, import, .*; found 'dance'"):
        bench_scale(tmp_path, [1_000], only=["dance"])
    with pytest.raises(InputError, match="threads and rounds 1 or more, found 60 s, 15 min, 0 and 1"):
        bench_scale(tmp_path, [1_000], threads=0)


def test_the_fastest_of_three_runs_counts_with_the_memory_of_the_first(monkeypatch, tmp_path):
    times = iter([3.0, 1.0, 2.0, 5.0])
    monkeypatch.setitem(STEPS, "draw", lambda _: {"units": 1_000_000, "unit_cpu_seconds": next(times)})
    memory = iter([7_000_000, 9_000_000, 9_000_000, 9_000_000])
    monkeypatch.setattr(scale_steps, "_peak", lambda: next(memory))
    found = measured("draw", Size(tmp_path, 1_000, 0, 1.0))
    assert (found["cpu_us_per_unit"], found["peak_mb"], next(times)) == (1.0, 7, 5.0)
    monkeypatch.setattr(scale_steps, "REPEATED_UNTIL", 0.0)
    times = iter([3.0, 1.0])
    assert measured("draw", Size(tmp_path, 1_000, 0, 1.0))["cpu_us_per_unit"] == 3.0


@pytest.mark.full
def test_every_step_of_a_small_world_reports_what_it_measured(tmp_path, monkeypatch):
    pytest.importorskip("faiss", reason="needs the extra index")
    monkeypatch.setattr(scale_steps, "DRAWN", 100)
    size = Size(tmp_path, 1_500, 0, 2.0)
    found = {step: measured(step, size) for step in STEPS}
    assert load_graph(tmp_path / "graph").fingerprint == load_graph(tmp_path / "world" / "graph").fingerprint
    statements = found["write"]["statements"]
    assert found["import"]["units"] == found["open"]["units"] == statements
    assert 100 <= found["draw"]["units"] <= 700
    assert found["train"]["units"] > 0
    assert found["index"]["recall"] >= 0.96
    assert found["ask"]["recall"] == found["index"]["recall"]
    assert found["retrieve"]["recall"] >= 0.96
    assert all(report["cpu_us_per_unit"] > 0 for step, report in found.items() if step != "write")
    assert 0 < found["retrieve"]["p50_ms"] <= found["retrieve"]["p99_ms"]

"""Training, fitting, calibrating and evaluating that cannot fit into memory are refused before they begin, with numbers and a way out."""

import shutil

import psutil
import pytest

from starqe.errors import InputError
from starqe.kg import embedded_graph, save_graph
from starqe.learn.memory_limit import check_memory
from starqe.reason.executor.settings import ReasonSettings
from starqe.reason.fitting import calibration_bytes

REFUSED = "MB of the memory limit are free. Take a machine with more memory, or"


def test_what_fits_passes_and_what_does_not_is_refused_with_its_numbers():
    has = psutil.Process().memory_info().rss
    check_memory(10**6, has + 10**9, "training", "less")
    with pytest.raises(InputError, match=r"^training needs about 5,000 MB more than the [\d,]+ MB that starqe has, and [\d,]+ MB"):
        check_memory(5 * 10**9, has + 10**9, "training", "less")
    with pytest.raises(InputError, match="MB of this machine's memory are free"):
        check_memory(10**15, None, "training", "less")


def test_training_that_does_not_fit_is_refused_before_a_step(starqe, tmp_path):
    save_graph(embedded_graph(), tmp_path / "graph")
    code, _, err = starqe("train", "--preset", "one-hop-demo", tmp_path / "graph", "--out", tmp_path / "run", "--memory", "10MB")
    assert (code, err.startswith("starqe: training needs about"), REFUSED in err) == (1, True, True)
    assert not (tmp_path / "run").exists()  # so that the corrected command can use the name


def test_evaluation_that_does_not_fit_is_refused(starqe, askable_run):
    code, _, err = starqe("evaluate", askable_run, "--links", "ours", "--limit", 1, "--memory", "10MB")
    assert (code, err.startswith("starqe: evaluation needs about"), REFUSED in err) == (1, True, True)


@pytest.mark.full
def test_calibration_that_does_not_fit_is_refused_and_the_one_before_stays(starqe, askable_run, tmp_path):
    run = shutil.copytree(askable_run, tmp_path / "run")
    before = (run / "answering.json").read_bytes()
    code, _, err = starqe("calibrate", run, "--limit", 1, "--memory", "10MB")
    assert (code, err.startswith("starqe: calibration needs about"), REFUSED in err) == (1, True, True)
    assert (run / "answering.json").read_bytes() == before
    assert starqe("calibrate", run, "--limit", 1, "--memory", "64GB")[0] == 0


def test_the_scores_of_calibration_grow_with_the_graph_up_to_the_buffer_of_the_executor():
    small, large = calibration_bytes(100, ReasonSettings(beam=8)), calibration_bytes(50_000, ReasonSettings(beam=8))
    assert small == 4 * (4 * 256 * 100 + 3 * 64 * 100 + 8 * 8 * 64 * 100)  # facts, a batch, eight buffers of its candidates
    assert large == 4 * (4 * 256 * 50_000 + 3 * 64 * 50_000 + 8 * (1 << 23))
    assert calibration_bytes(10**6, ReasonSettings()) == calibration_bytes(10**7, ReasonSettings()) < large * 2  # blocks of entities


@pytest.mark.full
def test_a_fit_that_does_not_fit_is_refused(starqe, tmp_path):
    save_graph(embedded_graph(), tmp_path / "graph")
    code, _, err = starqe("fit", tmp_path / "graph", "--out", tmp_path / "run", "--minutes", 0.1, "--memory", "10MB")
    assert (code, "starqe: calibration needs about" in err, REFUSED in err) == (1, True, True)

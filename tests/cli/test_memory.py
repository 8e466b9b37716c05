"""Training, fitting and evaluating that cannot fit into memory are refused before they begin, with the numbers and a way out."""

import psutil
import pytest

from starqe.errors import InputError
from starqe.kg import embedded_graph, save_graph
from starqe.learn.memory_limit import check_memory

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
    assert not (tmp_path / "run" / "weights.safetensors").exists()


def test_evaluation_that_does_not_fit_is_refused(starqe, askable_run):
    code, _, err = starqe("evaluate", askable_run, "--links", "ours", "--limit", 1, "--memory", "10MB")
    assert (code, err.startswith("starqe: evaluation needs about"), REFUSED in err) == (1, True, True)


@pytest.mark.full
def test_a_fit_that_does_not_fit_is_refused(starqe, tmp_path):
    save_graph(embedded_graph(), tmp_path / "graph")
    code, _, err = starqe("fit", tmp_path / "graph", "--out", tmp_path / "run", "--minutes", 0.1, "--memory", "10MB")
    assert (code, "starqe: training needs about" in err, REFUSED in err) == (1, True, True)

"""Memory of a service: estimated before it starts, and refused with a clear message where it cannot fit."""

import shutil
import sys

import pytest

from starqe.cli.main import main
from starqe.cli.serve import _open_again
from starqe.errors import InputError, StorageError
from starqe.kg import import_graph, save_graph
from starqe.serve import ServeSettings
from starqe.serve.running import memory
from starqe.serve.running.memory import PER_LITERAL, PER_NAME, PER_PAIR, PER_STATEMENT, PROGRAM, Estimate, estimate, limit


def test_an_estimate_counts_names_statements_pairs_weights_and_buffers(askable_run, answerer):
    graph, settings = answerer.graph, ServeSettings(helpers=0)
    found = estimate(askable_run, None, settings)
    labels = sum(len(by_id) for vocabulary in (graph.entities, graph.relations) for by_id in vocabulary.labels.values())
    names = len(graph.entities) + len(graph.relations) + labels
    assert found.graph == PER_NAME * names + PER_STATEMENT * len(graph) + PER_PAIR * len(graph.pair_value)
    assert found.weights > 0
    assert found.total == PROGRAM + found.graph + found.weights + found.buffers
    helped = estimate(askable_run, None, settings.replace(helpers=2))
    assert helped.buffers - found.buffers == 2 * (found.buffers - settings.unsent_bytes)  # each helper has batches of its own
    larger = estimate(askable_run, None, ServeSettings(batch=64, helpers=0))
    assert larger.buffers - found.buffers == 4 * len(graph.entities) * 3 * 32


def test_literals_count_too(askable_run, tmp_path):
    (tmp_path / "a.nt").write_text("".join(f'<urn:e> <urn:r> "{number}" .\n' for number in range(1_000)))
    graph, _ = import_graph(tmp_path / "a.nt")
    save_graph(graph, tmp_path / "g")
    assert len(graph.literals) == 1_000
    assert estimate(askable_run, tmp_path / "g", ServeSettings()).graph >= 1_000 * (PER_LITERAL + PER_STATEMENT)


def test_a_run_is_loaded_again_only_if_both_fit_into_the_limit(askable_run, monkeypatch):
    needed, settings = estimate(askable_run, None, ServeSettings()).total, ServeSettings()
    monkeypatch.setattr(memory, "taken", lambda: 10**9)
    assert _open_again(askable_run, None, "train", "mixture", settings, f"{needed + 10**9}B").answerer is not None
    with pytest.raises(InputError, match="1,000 MB for the run that answers meanwhile"):
        _open_again(askable_run, None, "train", "mixture", settings, f"{needed + 10**9 - 1}B")


def test_what_cannot_fit_is_refused_with_its_parts_and_a_way_out():
    needed = Estimate(graph=10**9, weights=2 * 10**9, buffers=10**8)
    needed.check(4 * 10**9, "the limit")
    with pytest.raises(InputError, match=r"needs about 3,519 MB \(1,000 MB for the graph, 2,000 MB .*the limit is 3,000 MB.*batch=8"):
        needed.check(3 * 10**9, "the limit")


@pytest.mark.parametrize(("text", "size"), [("4GB", 4 * 10**9), ("512 MiB", 512 << 20), ("1.5gb", 1_500_000_000), ("100B", 100)])
def test_sizes_are_read_with_their_unit(text, size):
    assert limit(text) == (size, "the limit")


@pytest.mark.parametrize("text", ["", "4", "GB", "4 elephants", "-1GB"])
def test_other_texts_are_not_sizes(text):
    with pytest.raises(InputError, match="a size is a number with a unit, such as 4GB"):
        limit(text)


def test_without_a_size_the_free_memory_counts():
    size, name = limit(None)
    assert size > 0
    assert name == "the free memory of this machine"


def test_the_command_refuses_before_it_loads_anything(askable_run, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["starqe", "serve", str(askable_run), "--memory", "1MB", "--port", "0"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code
    assert "the service needs about" in capsys.readouterr().err


def test_a_graph_that_is_not_there_is_an_error_with_its_place(askable_run, tmp_path):
    shutil.copytree(askable_run, tmp_path / "run")
    (tmp_path / "run" / "graph" / "pairs.parquet").unlink()
    with pytest.raises(StorageError, match="graph is not a graph, or is damaged"):
        estimate(tmp_path / "run", None, ServeSettings())

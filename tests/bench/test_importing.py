import json
import sys
import threading
from types import SimpleNamespace

import psutil
import pytest

from starqe.bench.importing import RDF_FILES, bench_import, bench_import_rdf, bench_import_wikidata, write_random_statements
from starqe.bench.measured import machine, measured
from starqe.cli.main import main
from starqe.kg import import_graph


def test_half_of_the_statements_have_one_to_three_pairs(tmp_path):
    write_random_statements(tmp_path / "file.txt", 4000, seed=0)
    counts = [len(line.split(",")) for line in (tmp_path / "file.txt").read_text().splitlines()]
    assert len(counts) == 4000
    assert set(counts) == {3, 5, 7, 9}
    assert 0.45 < sum(count > 3 for count in counts) / 4000 < 0.55


def test_the_same_seed_gives_the_same_file(tmp_path):
    for name, seed in (("one", 1), ("again", 1), ("two", 2)):
        write_random_statements(tmp_path / name, 200, seed)
    one, again, two = ((tmp_path / name).read_bytes() for name in ("one", "again", "two"))
    assert one == again != two


def test_the_measure_says_how_fast_how_much_memory_and_beside_what(tmp_path):
    result = bench_import(2000, seed=3)
    write_random_statements(tmp_path / "file.txt", 2000, 3)
    graph, report = import_graph(tmp_path / "file.txt")
    assert result["statements"] == 2000
    assert (result["distinct_statements"], result["duplicates"]) == (len(graph), report.duplicates)
    assert len(graph) + report.duplicates == 2000
    assert result["statements_per_second"] > 0
    assert result["peak_mb"] >= result["growth_mb"] >= 0
    assert result["ratio_to_reading"] > 0
    assert machine().items() <= result.items()


def test_the_measure_of_a_wikidata_dump_is_beside_parsing_alone(capsys, monkeypatch):
    result = bench_import_wikidata(205, seed=1)
    assert (result["statements"], result["records"]) == (205, 20)
    assert 150 < result["statements_in_graph"] <= 205
    assert result["literals"] > 40
    assert result["orjson_statements_per_core_second"] > 0
    assert machine().items() <= result.items()
    monkeypatch.setattr(sys, "argv", ["starqe", "bench", "import", "--format", "wikidata", "--statements", "205", "--seed", "1", "--json"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert json.loads(capsys.readouterr().out)["statements_in_graph"] == result["statements_in_graph"]


@pytest.mark.parametrize("form", RDF_FILES)
def test_the_measure_of_rdf_is_beside_parser_and_loader(form, tmp_path):
    result = bench_import_rdf(300, seed=3, form=form)
    write_random_statements(tmp_path / "file.txt", 300, 3)
    graph, _ = import_graph(tmp_path / "file.txt")
    assert result["statements_in_graph"] == len(graph)
    assert result["triples"] > len(graph) + len(graph.pairs.items)  # the reifiers too
    assert result["share_of_parser_speed"] > 0
    assert result["share_of_loader_speed"] > 0
    assert machine().items() <= result.items()


def test_memory_that_was_used_for_a_moment_is_seen(monkeypatch):
    """With a process of our own: the memory of a real one also shrinks, when the system reclaims some."""
    memory, seen = [100_000_000], threading.Event()

    class Process:
        def memory_info(self):
            found = memory[0]
            if found == 300_000_000:
                seen.set()
            return SimpleNamespace(rss=found)

    monkeypatch.setattr(psutil, "Process", Process)
    with measured(every=0.001) as result:
        memory[0] = 300_000_000
        assert seen.wait(60)
        memory[0] = 120_000_000
    assert (result.peak_mb, result.growth_mb) == (300, 200)
    assert result.seconds > 0


def test_the_command_prints_json_for_programs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["starqe", "bench", "import", "--statements", "500", "--json"])
    with pytest.raises(SystemExit, match="0"):
        main()
    assert json.loads(capsys.readouterr().out)["statements"] == 500

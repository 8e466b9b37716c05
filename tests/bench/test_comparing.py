import json
import sys

import pytest

from starqe.bench.comparing import with_ratios
from starqe.cli.main import main
from starqe.errors import InputError


def test_ratios_are_now_divided_by_then_for_rows_of_the_same_kind(tmp_path):
    then = [{"shape": "2p", "beam": 8, "queries_per_second": 50.0, "mrr": 40.0}, {"shape": "3p", "beam": 8, "queries_per_second": 20.0}]
    (tmp_path / "then.json").write_text(json.dumps(then))
    now = [{"shape": "2p", "beam": 8, "queries_per_second": 100.0, "mrr": 40.0}, {"shape": "2p", "beam": 4, "queries_per_second": 1.0}]
    same, other = with_ratios(now, tmp_path / "then.json")
    assert (same["queries_per_second_ratio"], same["mrr_ratio"]) == (2, 1)
    assert other == now[1]


@pytest.mark.parametrize("content", ["not JSON", '"text"', "[1]"])
def test_other_files_are_refused(tmp_path, content):
    (tmp_path / "then.json").write_text(content)
    with pytest.raises(InputError, match="what 'starqe bench … --json' printed, found"):
        with_ratios([], tmp_path / "then.json")


def test_a_command_shows_ratios_to_what_it_printed_before(tmp_path, monkeypatch, capsys):
    command = ["starqe", "bench", "import", "--statements", "300", "--json"]
    monkeypatch.setattr(sys, "argv", command)
    with pytest.raises(SystemExit, match="0"):
        main()
    (tmp_path / "then.json").write_text(capsys.readouterr().out)
    monkeypatch.setattr(sys, "argv", [*command, "--against", str(tmp_path / "then.json")])
    with pytest.raises(SystemExit, match="0"):
        main()
    found = json.loads(capsys.readouterr().out)
    assert found["statements_per_second_ratio"] > 0
    assert found["product_gflops_ratio"] == 1  # measured once per process

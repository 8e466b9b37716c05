"""`starqe ask --graph`: a graph that is newer than the model."""

import json
from pathlib import Path

from starqe.kg import Changes, Statement, embedded_graph, graph_of, save_graph, update_graph

NOTHING = "'NewPerson' is newer than the model: known facts are given, and nothing is predicted for it"


def test_the_command_says_in_words_and_in_json_that_nothing_is_predicted(starqe, askable_run: Path, tmp_path: Path) -> None:
    new = graph_of([Statement("NewPerson", "educatedAt", "ETHZurich")])
    save_graph(update_graph(embedded_graph(), Changes.of([new]))[0], tmp_path / "newer")
    question = 'SELECT ?x { "NewPerson" "educated at" ?x }'
    code, out, err = starqe("ask", askable_run, question, "--graph", tmp_path / "newer")
    assert code == 0
    assert NOTHING in " ".join((out + err).split())
    assert "ETH Zurich" in out
    assert "best guesses" not in out  # there are none
    code, out, _ = starqe("ask", askable_run, question, "--graph", tmp_path / "newer", "--json")
    assert json.loads(out)["notes"][0].startswith(NOTHING)

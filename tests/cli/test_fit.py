"""`starqe fit`: from a raw file to answers."""

import inspect
import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from starqe.ask import Answerer
from starqe.cli.data import import_
from starqe.cli.fit import fit
from starqe.kg import Graph, Statement, export_graph, graph_of, load_graph, save_graph
from starqe.kg.literal import DATE, DECIMAL, INTEGER, Literal
from starqe.learn import Run
from tests.ask.test_prepare import town
from tests.places import DATA

Starqe = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def trig(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A foreign graph: TriG with three named graphs, companies that are blank nodes, few qualifiers, neither labels nor splits."""
    lines = ["@prefix : <http://foreign.example/thing#> .", "@prefix r: <http://foreign.example/relation/> ."]
    for number in range(3):
        lines.append(f":graph{number} {{")
        for n in range(20 * number, 20 * number + 20):
            pair = f" {{| r:since :y{1990 + n % 5} |}}" if n % 9 == 0 else ""
            lines += [f":p{n} r:worksFor _:company{n % 7}{pair} .", f":p{n} r:knows :p{(7 * n + 3) % 60} ."]
        lines.append("}")
    lines.append(':p0 r:motto "Work less" .')
    lines += [f"_:company{n} r:in :city{n % 3} ." for n in range(7)]
    path = tmp_path_factory.mktemp("foreign") / "town.trig"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


WHO = """
PREFIX : <http://foreign.example/thing#>
PREFIX r: <http://foreign.example/relation/>
SELECT ?who { ?who r:worksFor ?company . ?company r:in :city1 }
"""
ANSWERS = {f"http://foreign.example/thing#p{n}" for n in range(60) if n % 7 in (1, 4)}


@pytest.mark.full
def test_one_line_makes_a_foreign_graph_answer(starqe: Starqe, trig: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    code, printed, err = starqe("fit", trig, "--out", out, "--minutes", 0.1, "--threads", 1, "--literals", "drop")
    assert code == 0, err
    assert "  literal values left out: xsd:string 1\n" in printed
    assert "the graph has no validation split: 6 of its 127 train statements are held out, to choose the best model" in printed
    stages = [line for line in printed.splitlines() if line.endswith(" min")]
    names = ("sampling queries: ", "training the encoder: ", "training the one-hop predictor: ", "calibrating: ")
    assert all(any(line.startswith(name) for line in stages) for name in names), printed
    compared = "validation MRR [0-9.]+ .the most frequent entity for the relation: [0-9.]+., [0-9.]+ min"
    assert len(re.findall(compared, printed)) == 2
    assert f"{out}: 127 statements (121 train, 6 valid) about 75 entities, in " in printed
    assert "the probabilities are not calibrated: they were fitted on 6 validation statements" in printed

    _, answered, _ = starqe("ask", out, WHO, "--json", "--top", 30)
    answers = json.loads(answered)["answers"]
    assert {one["who"] for one in answers if one["known"]} == ANSWERS
    assert [one["known"] for one in answers].count(False) == 30  # known and predicted answers have a quota each

    _, shown, _ = starqe("ask", out, WHO, "--explain")
    assert "identifiers begin with http://foreign.example/thing#\n" in shown
    assert "p1: known\n  fact           _:company1 - in - city1\n  fact           p1 - worksFor - _:company1\n" in shown

    code, _, err = starqe("fit", trig, "--out", out, "--minutes", 0.1)
    assert code == 1
    assert f"{out} exists already. Continue it with the option resume, or choose another place" in err


def test_a_graph_of_which_nothing_can_be_held_out_is_refused_and_leaves_nothing(starqe: Starqe, tmp_path: Path) -> None:
    (tmp_path / "five.txt").write_text("".join(f"a{i},r{i},b{i}\n" for i in range(5)), encoding="utf-8")
    code, _, err = starqe("fit", tmp_path / "five.txt", "--out", tmp_path / "run", "--minutes", 0.1)
    assert code == 1
    assert "none of its 5 can: each mentions something that no other statement mentions. Add statements" in err
    assert [path.name for path in tmp_path.iterdir()] == ["five.txt"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("written", "how", "code"),
    [
        ("run.json", signal.SIGKILL, -9),
        ("predictor/state.safetensors", signal.SIGKILL, -9),
        ("run.json", signal.SIGINT, 130),
        ("metrics.jsonl", signal.SIGTERM, 143),
        ("predictor/state.safetensors", signal.SIGINT, 130),
    ],
)
def test_a_fit_that_was_ended_early_continues(trig: Path, tmp_path: Path, written: str, how: signal.Signals, code: int) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "starqe", "fit", str(trig), "--out", str(out), "--minutes", "0.3", "--threads", "1", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    while not (out / written).exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(how)
    _, said = process.communicate()
    assert process.returncode == code, said
    assert "Traceback" not in said
    if how != signal.SIGKILL:
        assert f"what was done is kept. To continue: starqe fit {trig} --out {out} --minutes 0.3 --threads 1 --json --resume" in said
    assert not (out / "answering.json").exists()

    result = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    trained_encoder = "encoder" in json.loads(result.stdout)["validation_mrr"]
    assert trained_encoder == (not written.startswith("predictor"))  # what was finished is not done again
    assert {one.entity for one in Answerer.open(out).ask(WHO, known_only=True)} == ANSWERS


def test_every_option_of_import_that_decides_what_is_read_is_one_of_fit_too() -> None:
    reading = set(inspect.signature(import_).parameters) - {"source", "graph", "split", "seed", "overwrite", "as_json"}
    assert reading <= set(inspect.signature(fit).parameters)


def test_fit_has_the_options_of_import_for_reading(starqe: Starqe, tmp_path: Path) -> None:
    source = tmp_path / "file.ttl"
    source.write_text("<< <a:a> <a:p> <a:b> >> <a:q> <a:v> .")
    code, _, err = starqe("fit", source, "--out", tmp_path / "run")
    assert code == 1
    assert "found none. triples that are reified but not asserted, left out: 1 (to keep them, set the option unasserted to keep)" in err
    reading = ["--unasserted", "keep", "--entity-base", "a:", "--relation-base", "a:", "--format", "turtle", "--on-error", "skip"]
    code, _, err = starqe("fit", source, "--out", tmp_path / "run", *reading)
    assert code == 1
    assert "held out" in err  # it was read: a graph of one statement has nothing to validate on


@pytest.mark.slow
def test_the_whole_path_on_published_data_without_a_validation_split_leaves_the_test_split_alone(starqe: Starqe, tmp_path: Path) -> None:
    source = DATA / "wd50k_100"
    if not source.exists():
        pytest.skip("wd50k_100 is not here")
    (tmp_path / "data").mkdir()
    for name in ("train.txt", "test.txt"):
        shutil.copy(source / name, tmp_path / "data" / name)
    assert starqe("data", "import", tmp_path / "data", tmp_path / "graph")[0] == 0
    before = load_graph(tmp_path / "graph")
    assert not len(before.known(["valid"]))

    code, printed, err = starqe("fit", tmp_path / "graph", "--out", tmp_path / "run", "--minutes", 0.2, "--threads", 1)
    assert code == 0, err
    count = len(before.known(["test"]))
    assert f"train statements are held out, to choose the best model and to calibrate its probabilities; the {count:,} test" in printed
    after = Run.open(tmp_path / "run").graph
    assert set(after.statements("test")) == set(before.statements("test"))
    assert len(after.known(["train"])) + len(after.known(["valid"])) == len(before.known(["train"]))

    code, rows, _ = starqe("evaluate", tmp_path / "run", "--links", "published", "--limit", 50, "--json")
    assert code == 0
    assert {row["n"] for row in json.loads(rows) if row["shape"] == "tail"} == {50}
    statement = next(iter(before.statements("test")))
    query = f'SELECT ?x {{ "{statement.head}" "{statement.relation}" ?x }}'
    code, answered, _ = starqe("ask", tmp_path / "run", query, "--json")
    assert code == 0
    assert statement.tail in {one["x"] for one in json.loads(answered)["answers"] if one["known"]}


def with_values() -> Graph:
    """Returns people with ages, companies with dates, and a qualifier with a date: two people have the same age."""
    ages = [Statement(f"p{n}", "age", Literal(str(20 + n // 2), INTEGER)) for n in range(60)]
    dates = [Statement(f"c{n}", "founded", Literal(f"19{n}0-01-01", DATE)) for n in range(7)]
    since = [Statement("p1", "knows", "p2", (("since", Literal("1999-12-31", DATE)),))]
    return graph_of([*town().statements("train"), *ages, *dates, *since])


@pytest.mark.full
def test_an_updated_graph_with_literals_keeps_its_ids_and_a_fit_goes_on_from_the_run(starqe, tmp_path):
    old = with_values()
    save_graph(old, tmp_path / "graph")
    assert starqe("fit", tmp_path / "graph", "--out", tmp_path / "run", "--minutes", "0.05")[0] == 0
    more = [
        Statement("p0", "age", Literal("99", INTEGER)),
        Statement("c0", "revenue", Literal("1.5", DECIMAL, unit="EUR"), (("since", Literal("2020-02-02", DATE)),)),
        Statement("newcomer", "age", Literal("18", INTEGER)),
        Statement("newcomer", "worksFor", "c1", (("since", Literal("1999-12-31", DATE)),)),
    ]
    less = [
        Statement("p0", "age", Literal("20", INTEGER)),  # p1 has the same age: the literal stays
        Statement("c3", "founded", Literal("1930-01-01", DATE)),  # no other statement has this date
    ]
    export_graph(graph_of(more), tmp_path / "more", "statements")
    export_graph(graph_of(less), tmp_path / "less", "statements")
    assert starqe("data", "update", tmp_path / "graph", tmp_path / "more", "--remove", tmp_path / "less")[0] == 0
    new = load_graph(tmp_path / "graph")
    assert set(new.statements("train")) == {*old.statements("train"), *more} - {*less}
    assert [*new.entities] == [*old.entities, "newcomer"]
    assert [*new.relations] == [*old.relations, "revenue"]
    values = {field for one in new.statements("train") for field in one.fields() if isinstance(field, Literal)}
    assert set(new.literals) == values
    assert len(values) == len(old.literals) + 4 - 1

    code, _, error = starqe("fit", tmp_path / "graph", "--from", tmp_path / "run", "--out", tmp_path / "next", "--minutes", "0.05")
    assert code == 0, error
    answerer = Answerer.open(tmp_path / "next")
    assert [*answerer.graph.entities] == [*new.entities]
    assert {*answerer.graph.statements("train", "valid")} == {*new.statements("train")}
    assert {*answerer.graph.literals} == values

    def known(text: str) -> list[str]:
        code, out, error = starqe("ask", tmp_path / "next", text, "--json")
        assert code == 0, error
        return sorted(answer["label"] for answer in json.loads(out)["answers"] if answer["known"])

    assert known('SELECT ?x { "p0" "age" ?x }') == ["99"]
    assert known('SELECT ?x { "newcomer" "age" ?x }') == ["18"]
    assert known('SELECT ?x { "c0" "revenue" ?x }') == ["1.5 EUR"]
    assert known('SELECT ?x { "c3" "founded" ?x }') == []
    assert known('SELECT ?x { ?x "age" ?n FILTER(?n > 49) }') == ["p0"]
    assert known('SELECT ?x { "newcomer" "worksFor" ?x }') == ["c1"]
    assert len(answerer.ask('SELECT ?x { "newcomer" "knows" ?x }', top=5).predicted) == 5

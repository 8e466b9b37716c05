"""`starqe fit`: from a file that nobody prepared to answers."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from starqe.ask import Answerer

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
    code, printed, err = starqe("fit", trig, "--out", out, "--minutes", 0.1, "--threads", 1)
    assert (code, err) == (0, "")
    assert "  literal values left out: xsd:string 1\n" in printed
    assert f"{out}: 127 statements about 75 entities, 6 held out to check on" in printed
    assert "encoder: validation MRR" in printed
    assert "one-hop predictor: validation MRR" in printed

    _, answered, _ = starqe("ask", out, WHO, "--json", "--top", 30)
    answers = json.loads(answered)["answers"]
    assert {one["who"] for one in answers if one["known"]} == ANSWERS
    assert [one["known"] for one in answers].count(False) == 30 - len(ANSWERS)

    _, shown, _ = starqe("ask", out, WHO, "--explain")
    assert "identifiers begin with http://foreign.example/thing#\n" in shown
    assert "p1: known\n  fact           _:company1 - in - city1\n  fact           p1 - worksFor - _:company1\n" in shown

    code, _, err = starqe("fit", trig, "--out", out, "--minutes", 0.1)
    assert code == 1
    assert f"{out} exists already. Give --resume to go on with it, or choose another place" in err


def test_a_graph_of_which_nothing_can_be_held_out_is_refused_and_leaves_nothing(starqe: Starqe, tmp_path: Path) -> None:
    (tmp_path / "five.txt").write_text("".join(f"a{i},r{i},b{i}\n" for i in range(5)), encoding="utf-8")
    code, _, err = starqe("fit", tmp_path / "five.txt", "--out", tmp_path / "run", "--minutes", 0.1)
    assert code == 1
    assert "none of the 5 can: each mentions something that nothing else does. Add statements" in err
    assert [path.name for path in tmp_path.iterdir()] == ["five.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("written", ["run.json", "predictor/state.safetensors"], ids=["encoder", "predictor"])
def test_a_fit_that_was_killed_goes_on(trig: Path, tmp_path: Path, written: str) -> None:
    out = tmp_path / "run"
    command = [sys.executable, "-m", "starqe", "fit", str(trig), "--out", str(out), "--minutes", "0.2", "--threads", "1", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while not (out / written).exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not (out / "answering.json").exists()

    result = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    trained_encoder = "encoder" in json.loads(result.stdout)["validation_mrr"]
    assert trained_encoder == (written == "run.json")  # what was finished is not done again
    assert {one.entity for one in Answerer.open(out).ask(WHO, known_only=True)} == ANSWERS

"""`starqe ask` as a session on a terminal."""

import os
import pty
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from starqe.ask import Answerer
from starqe.cli.ask import prompt
from starqe.cli.ask.prompt import completions
from starqe.errors import QueryError
from starqe.kg import embedded_graph


def test_the_conversation_never_commands_the_terminal(tmp_path, monkeypatch, capsys) -> None:
    def show(text: str) -> None:
        raise QueryError(f"no such name: {text}")

    lines = iter(["\x1b[31m", "", "quit"])
    monkeypatch.setattr("builtins.input", lambda _: next(lines))
    monkeypatch.setattr(prompt, "example", lambda _: "\x9b2J")
    monkeypatch.setattr(prompt, "HISTORY", tmp_path / "history")
    prompt.converse(SimpleNamespace(graph=embedded_graph()), show)
    out = capsys.readouterr().out
    assert "For example: \ufffd2J" in out
    assert "starqe: no such name: \ufffd[31m" in out


@pytest.fixture(scope="module")
def answerer(askable_run: Path) -> Answerer:
    return Answerer.open(askable_run)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("albert einstein a", ["Albert Einstein Award"]),
        ("place of b", ["place of birth"]),  # a relation
        ("Einst", ["Albert Einstein", "Albert Einstein Award"]),  # from the middle: both begin with a text that has it
        ("nobel prize in phy", ["Nobel Prize in Physics", "Nobel Prize in Physiology or Medicine"]),
        ("", []),
        ("zzzz", []),
    ],
)
def test_tab_completes_entities_and_relations_also_from_the_middle(answerer: Answerer, text: str, names: list[str]) -> None:
    assert completions(answerer.graph, text) == names


def test_tab_never_loses_what_was_typed(answerer: Answerer) -> None:
    (best,) = completions(answerer.graph, "of physics")  # in names that begin in different ways: the best one, not nothing
    assert "of physics" in best.casefold()


class Terminal:
    """A person at a real pseudo-terminal: types, and waits for what appears."""

    def __init__(self, command: list[str], home: Path) -> None:
        self._screen, keyboard = pty.openpty()
        environment = {**os.environ, "HOME": str(home), "TERM": "dumb", "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
        self.process = subprocess.Popen(command, stdin=keyboard, stdout=keyboard, stderr=keyboard, env=environment, start_new_session=True)
        os.close(keyboard)
        self.seen = ""

    def wait_for(self, text: str, seconds: float = 120) -> str:
        """Reads until a text appears; gives everything up to there since the last wait."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            ready, _, _ = select.select([self._screen], [], [], max(0.0, end - time.monotonic()))
            assert ready, f"{text!r} did not appear within {seconds} seconds, but {self.seen!r}"
            self.seen += os.read(self._screen, 65_536).decode()
        found, _, self.seen = self.seen.partition(text)
        return found

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._screen)


@pytest.fixture
def terminal(askable_run: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """A conversation with the options of the test's mark ``parametrize``."""
    opened = Terminal([sys.executable, "-m", "starqe", "ask", str(askable_run), "--threads", "1", *request.param], tmp_path)
    yield opened
    opened.close()


@pytest.mark.full
@pytest.mark.parametrize("terminal", [("--top", "3")], indirect=True)
def test_a_conversation_on_a_terminal(terminal: Terminal, tmp_path: Path) -> None:
    assert "An empty line ends the question" in terminal.wait_for("ask> ")

    terminal.type('SELECT ?x {\n  "Albert Einstein" "educated at" ?x }\n\n')  # over two lines
    assert "ETH Zurich" in terminal.wait_for("2 known")
    terminal.wait_for("ask> ")

    terminal.type("SELECT nonsense\n\n")  # an error does not end it
    terminal.wait_for("starqe: ")
    terminal.wait_for("ask> ")

    terminal.type('SELECT ?x { "Albert Einstein Aw\t')  # Tab completes the label, and closes the quote
    terminal.wait_for("Albert Einstein Award")
    terminal.type(' "named after" ?x }\n\n')
    assert "AlbertEinstein " in terminal.wait_for("1 known")
    terminal.wait_for("ask> ")

    terminal.type("\x04")  # Ctrl-D leaves
    assert terminal.process.wait(60) == 0
    history = (tmp_path / ".cache" / "starqe" / "history").read_text(encoding="utf-8")
    assert '  "Albert Einstein" "educated at" ?x }' in history
    assert "SELECT nonsense" in history


@pytest.mark.full
@pytest.mark.parametrize("terminal", [("--threshold", "1")], indirect=True)
def test_a_conversation_helps_completes_relations_advises_and_ends(terminal: Terminal) -> None:
    terminal.wait_for("ask> ")
    terminal.type("help\n")
    assert '{ "entity" "relation" ?x }' in terminal.wait_for("quit or exit")
    terminal.wait_for("ask> ")

    terminal.type('SELECT ?x { "Einst\t')  # from the middle of a label
    terminal.wait_for("Albert Einstein")
    terminal.type('" "place of b\t')  # a relation
    terminal.wait_for("place of birth")
    terminal.type(" ?x }\n\n")
    assert "Ulm" in terminal.wait_for("1 known")
    assert "--top" not in terminal.wait_for("LIMIT 6")  # what a conversation can write
    terminal.wait_for("ask> ")

    terminal.type("quit\n")
    assert terminal.process.wait(60) == 0

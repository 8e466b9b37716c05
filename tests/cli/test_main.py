import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from starqe import __version__, kg
from starqe.cli.main import app
from starqe.errors import InputError


def every_command(command: Any, path: str = "starqe") -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from every_command(inner, f"{path} {name}")


COMMANDS = dict(every_command(typer.main.get_command(app)))


def test_the_version_is_shown(starqe):
    assert starqe("--version") == (0, f"starqe {__version__}\n", "")


@pytest.mark.parametrize("arguments", [["nonsense"], ["data", "nonsense"], ["data", "stats"], ["data", "stats", "--nonsense", "x"]])
def test_wrong_use_is_exit_code_2_and_explained_on_standard_error(starqe, arguments):
    code, out, err = starqe(*arguments)
    assert (code, out) == (2, "")
    assert "Usage: starqe" in err


def test_no_command_shows_the_help(starqe):
    code, out, err = starqe()
    assert code == 2
    assert "Ask an incomplete knowledge graph." in out + err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("file.txt:3: the rule"), 1, "starqe: file.txt:3: the rule\n"),
        (KeyboardInterrupt(), 130, "starqe: interrupted; what was finished is kept\n"),
    ],
)
def test_errors_become_exit_codes_in_one_place(starqe, monkeypatch, error, code, message):
    def fail(folder: Path) -> None:
        raise error

    monkeypatch.setattr(kg, "load_graph", fail)
    assert starqe("data", "stats", "graph") == (code, "", message)


def test_a_reader_that_stops_reading_is_not_an_error(tmp_path):
    kg.save_graph(kg.embedded_graph(), tmp_path / "graph")
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "starqe", "data", "stats", str(tmp_path / "graph")]
    result = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (result.returncode, result.stderr) == (1, "")


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_and_each_of_its_options_has_help(path):
    command = COMMANDS[path]
    assert command.help
    assert [parameter.name for parameter in command.params if not parameter.hidden and not parameter.help] == []


@pytest.mark.parametrize("path", COMMANDS)
def test_help_is_shown_for_every_command(starqe, path):
    code, out, err = starqe(*path.split()[1:], "--help")
    assert (code, err) == (0, "")
    assert path.split()[-1] in out


def test_help_loads_no_torch():
    program = """
import sys
from starqe.cli.main import main
for arguments in sys.argv[1:]:
    sys.argv = ["starqe", *arguments.split(), "--help"]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, arguments
print([name for name in ("torch", "duckdb", "pyarrow") if name in sys.modules])
"""
    arguments = [path.removeprefix("starqe").strip() for path in COMMANDS]
    result = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert result.stderr == ""
    assert result.stdout.splitlines()[-1] == "[]"

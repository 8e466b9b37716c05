"""Commands as people run them where something is wrong around them: one line that says what, an exit code, and never a traceback."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from starqe.kg import FORMS, embedded_graph, graph_folder, save_graph
from starqe.queries import SHAPES, QuerySettings, generate


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hostile")
    graph = embedded_graph()
    save_graph(graph, folder / "graph")
    generate(graph, folder / "queries", [SHAPES["1p"]], QuerySettings(limit=20), threads=1)
    (folder / "file").write_text("here already")
    (folder / "facts.txt").write_text("ä,r,b\n")
    return folder


def call(place: Path, *arguments: str | bytes, shell: str = "", **options: object) -> tuple[int, str, str]:
    """Runs a command in a process of its own, in a folder; ``shell`` stands after it."""
    command = [sys.executable, "-m", "starqe", *arguments]
    if shell:
        command = ["sh", "-c", f'"$0" "$@" {shell}', *command]
    result = subprocess.run(command, capture_output=True, cwd=place, check=False, timeout=120, **options)  # type: ignore[call-overload]
    return result.returncode, result.stdout.decode(errors="replace"), result.stderr.decode(errors="replace")


def one_line(text: str) -> str:
    assert "Traceback" not in text, text
    assert text.startswith("starqe: "), text
    assert text.count("\n") == 1, text
    return text


WRITES_A_FOLDER = [
    "data import facts.txt file",
    "data import facts.txt file --overwrite",
    *(f"data export graph file --format {form}" for form, entry in FORMS.items() if entry.write and entry.folder),
    "queries generate graph file --shapes 1p",
    "queries sample graph file --shapes 1p",
    "train --preset one-hop-demo graph --out file",
    "fit graph --out file",
    "demo --out file",
    "tune graph queries --set train.shapes=['1p'] --out file",
    *(f"reproduce {table} --out file" for table in ("statistics", "oracle", "results")),
]


@pytest.mark.parametrize("below", ["", "/below"])
@pytest.mark.parametrize("command", WRITES_A_FOLDER)
def test_a_file_where_a_folder_is_written_is_named(starqe, place, monkeypatch, command, below):
    monkeypatch.chdir(place)
    code, _, err = starqe(*(word + below if word == "file" else word for word in command.split()))
    assert (code, one_line(err)) == (1, "starqe: file is a file, and a folder is written there. Choose another place\n")
    assert (place / "file").read_text() == "here already"


@pytest.mark.parametrize("command", ["data import no-such-file.txt file", "data update graph no-such-file.txt --out file"])
def test_a_file_where_a_folder_is_written_is_named_before_anything_is_read(starqe, place, monkeypatch, command):
    monkeypatch.chdir(place)
    code, _, err = starqe(*command.split())
    assert (code, one_line(err)) == (1, "starqe: file is a file, and a folder is written there. Choose another place\n")


@pytest.mark.parametrize("command", ["train graph --out file --resume", "calibrate file", "evaluate file queries", "serve file"])
def test_a_file_where_a_run_is_read_is_named(starqe, place, monkeypatch, command):
    monkeypatch.chdir(place)
    code, _, err = starqe(*command.split())
    assert (code, one_line(err)) == (1, "starqe: file: not a run folder (no readable run.json: Not a directory)\n")


@pytest.mark.parametrize("command", [["data", "stats"], ["data", "import", "facts.txt"], ["queries", "stats"]], ids=" ".join)
def test_a_name_that_is_too_long_is_named(place, command):
    code, _, err = call(place, *command, "n" * 300)
    assert (code, "File name too long" in one_line(err)) == (1, True)


def test_a_path_that_is_not_utf8_is_named(place):
    code, _, err = call(place, "data", "import", "facts.txt", b"gr\xffph")
    assert (code, "arguments are UTF-8, found 'gr\\udcffph'" in one_line(err)) == (1, True)


@pytest.mark.full
def test_a_closed_standard_input_is_an_empty_one(place):
    code, _, err = call(place, "ask", "graph", shell="<&-")
    assert (code, "not a run folder" in one_line(err)) == (1, True)
    assert call(place, "data", "stats", "graph", shell="<&- >&-") == (0, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_output_that_cannot_be_written_is_a_failure(place):
    assert call(place, "data", "stats", "graph", shell="> /dev/full") == (
        1,
        "",
        "starqe: reading or writing failed: No space left on device\n",
    )


@pytest.mark.full
def test_output_without_the_characters_is_written_with_escapes(place):
    shutil.rmtree(place / "umlaut", ignore_errors=True)
    ascii_only = {**os.environ, "PYTHONIOENCODING": "ascii"}
    assert call(place, "data", "import", "facts.txt", "umlaut", env=ascii_only)[0] == 0
    code, out, err = call(place, "data", "stats", "graph", "--json", env=ascii_only)
    assert (code, err, out.isascii()) == (0, "", True)
    code, _, err = call(place, "data", "stats", "ämter", env=ascii_only)
    assert (code, "\\xe4mter: not a graph folder" in one_line(err)) == (1, True)


@pytest.mark.parametrize("megabytes", [256, 512, 1024])
@pytest.mark.full
def test_too_little_memory_is_named_as_the_cause(place, megabytes):
    def little() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))

    code, _, err = call(place, "data", "stats", "graph", preexec_fn=little)
    assert "damaged" not in err
    if code == 1 and "starqe: " in err:  # it may also run out in the middle of an import, where Python says so itself
        assert "memory" in one_line(err)


NO_MEMORY = (
    MemoryError(),
    pa.ArrowMemoryError("malloc"),
    pa.ArrowException("Unknown error: Failed to launch worker thread: Resource temporarily unavailable"),
    RuntimeError("[enforce fail] can't allocate memory"),
)


@pytest.mark.parametrize("error", NO_MEMORY)
def test_memory_that_runs_out_while_reading_is_not_damage(starqe, place, monkeypatch, error):
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(graph_folder, "open_parquet", fail)
    code, _, err = starqe("data", "stats", place / "graph")
    assert (code, one_line(err)[:38]) == (1, "starqe: there is not enough memory. Cl")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may become another user")
def test_a_run_that_may_not_be_written_is_named(askable_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("read only") / "run"
    shutil.copytree(askable_run, folder)
    for path in (folder, *folder.parents[:3]):
        path.chmod(0o755)
    (folder / ".lock").unlink(missing_ok=True)
    try:
        code, _, err = call(folder.parent, "calibrate", "run", user=65534, group=65534, extra_groups=[])
    except PermissionError:
        pytest.skip("another user cannot run this environment")
    if "No module named" in err or "Permission denied: '/" in err:
        pytest.skip("another user cannot read this environment")
    assert (code, one_line(err)) == (1, "starqe: cannot write run: Permission denied\n")

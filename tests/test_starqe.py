"""The front door: what `import starqe` offers to a notebook."""

import doctest
import subprocess
import sys
from pathlib import Path

import pytest

import starqe


def test_every_name_that_is_listed_is_there():
    assert [name for name in starqe.__all__ if not hasattr(starqe, name)] == []
    assert sorted(dir(starqe)) == sorted(starqe.__all__)


def test_a_name_that_is_not_there_is_refused_as_python_does():
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        starqe.nothing  # noqa: B018


def test_importing_loads_no_large_package():
    program = "import sys, starqe; print([name for name in ('torch', 'pyarrow', 'duckdb', 'numpy') if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.parametrize("kind", [str, Path])
def test_a_graph_is_read_from_a_file_and_from_a_graph_folder(tmp_path: Path, kind: type):
    (tmp_path / "facts.csv").write_text("Einstein,bornIn,Ulm\nCurie,bornIn,Warsaw,in,1867\n", encoding="utf-8")
    graph = starqe.read(kind(tmp_path / "facts.csv"))
    assert isinstance(graph, starqe.Graph)
    assert len(graph) == 2

    from starqe.kg import save_graph

    save_graph(graph, tmp_path / "graph")
    assert starqe.read(kind(tmp_path / "graph")).fingerprint == graph.fingerprint


def test_the_form_of_a_file_can_be_given(tmp_path: Path):
    (tmp_path / "facts.data").write_text("Einstein,bornIn,Ulm\n", encoding="utf-8")
    assert len(starqe.read(tmp_path / "facts.data", format="statements")) == 1


@pytest.mark.full
def test_the_examples_of_the_docstrings_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name in ("read", "fit", "open"):  # what is fitted is opened
        (example,) = doctest.DocTestFinder(recurse=False).find(getattr(starqe, name), name, globs={"starqe": starqe})
        assert example.examples
        assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.full
def test_a_graph_is_fitted_opened_and_asked(tmp_path: Path):
    people = [f"p{number}" for number in range(12)]
    lines = [f"{person},livesIn,{'Ulm' if number % 2 else 'Bern'}" for number, person in enumerate(people)]
    lines += [f"{person},speaks,{'German' if number % 2 else 'French'}" for number, person in enumerate(people)]
    (tmp_path / "facts.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    stages: set[str] = set()
    answerer = starqe.fit(str(tmp_path / "facts.csv"), str(tmp_path / "run"), minutes=0.05, progress=lambda stage, _: stages.add(stage))
    assert stages
    question = 'SELECT ?x { "p1" "livesIn" ?x }'
    assert [answer.entity for answer in answerer.ask(question).known] == ["Ulm"]
    assert [answer.entity for answer in starqe.open(str(tmp_path / "run")).ask(question).known] == ["Ulm"]

"""Documentation is executed: Python blocks run as they stand, and every entry of every table is explained somewhere."""

import itertools
import re
from pathlib import Path

import click
import pytest
import typer

from starqe.cli.main import app
from starqe.config import known_keys
from starqe.experiments import TABLES as REPRODUCED
from starqe.kg import FORMS
from starqe.kg.published.datasets import DATASETS
from starqe.learn import PRESETS, Recipe
from starqe.measure.links import LINKS
from starqe.measure.metrics import METRICS
from starqe.measure.ranking_protocols import PROTOCOLS
from starqe.measure.ranks import TIES
from starqe.queries import SHAPES, QuerySettings
from starqe.reason import ARCHITECTURES, NORMS, PREDICTORS, PredictorRecipe, ReasonSettings
from starqe.reason.mixture import CLASSES
from starqe.reason.predictor.one_hop import FEATURES
from starqe.reason.reasoner import RANKED_BY

ROOT = Path(__file__).parents[1]
COMMANDS: dict[str, click.Command] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EVERYTHING = "\n".join(document.read_text(encoding="utf-8") for document in DOCUMENTS)


def python_blocks(document: Path) -> str:
    return "\n".join(re.findall(r"^```python\n(.*?)^```", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE))


@pytest.mark.full
@pytest.mark.parametrize("document", [d for d in DOCUMENTS if python_blocks(d)], ids=lambda document: document.name)
def test_the_python_of_a_page_runs_from_top_to_bottom(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    exec(compile(python_blocks(document), str(document), "exec"), names)
    assert any(not name.startswith("__") for name in names)  # it did something


def test_every_test_that_a_page_names_exists() -> None:
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    named = set(re.findall(r"`(test_\w+)`", EVERYTHING))
    assert len(named) > 10
    assert [name for name in sorted(named) if f"def {name}(" not in tests] == []


def test_every_file_that_a_page_names_exists() -> None:
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)`", EVERYTHING))
    assert len(named) > 10
    assert [name for name in sorted(named) if not ((ROOT / name).exists() or (ROOT / "src" / "starqe" / name).exists())] == []


def test_every_table_that_a_page_names_with_its_file_is_there() -> None:
    named = set(re.findall(r"`((?:\w+/)+\w+\.py)` `([A-Z_]+)`", EVERYTHING))
    assert len(named) > 20
    assert [
        (path, name)
        for path, name in sorted(named)
        if not re.search(rf"^{name}\b.*=", (ROOT / "src" / "starqe" / path).read_text(encoding="utf-8"), re.MULTILINE)
    ] == []


def _headings(document: Path) -> set[str]:
    """The headings of a page as the ends of links name them."""
    found = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_lead_to_pages_and_headings_that_exist(document: Path) -> None:
    links = re.findall(r"\]\(([\w./-]*)(?:#([\w-]+))?\)", document.read_text(encoding="utf-8"))
    for name, heading in links:
        page = (document.parent / name).resolve() if name else document
        assert page.exists(), name
        assert not heading or page.suffix != ".md" or heading in _headings(page), f"{name}#{heading}"


def _checklist() -> list[str]:
    """The lines of the tables of docs/paper.md, without their headers."""
    lines = [line for line in (ROOT / "docs" / "paper.md").read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    return [line for line in lines if line not in ("| item | covered by |", "| --- | --- |")]


@pytest.mark.parametrize("line", _checklist(), ids=lambda line: line.split("|")[1].strip()[:50])
def test_every_item_of_the_paper_is_covered_by_something_that_exists(line: str) -> None:
    _, item, cover, _ = (cell.strip() for cell in re.split(r"(?<!\\)\|", line))
    assert item
    commands = re.findall(r"`starqe ([a-z]+)(?: ([a-z]+))?", cover)
    for command, sub in commands:
        found = COMMANDS[command]
        known = getattr(found, "commands", REPRODUCED if command == "reproduce" else ())
        assert not sub or sub in known, (command, sub)
    for path, name in re.findall(r"`(\w[\w/]*\.py)` `(\w+)`", cover):
        source = (ROOT / "src" / "starqe" / path).read_text(encoding="utf-8")
        assert re.search(rf"^(def|class) {name}\b|^{name}\b.*=", source, re.MULTILINE), (path, name)
    others = re.findall(r"`[\w/]+\.py`|`test_\w+`|\]\([\w/]+\.md", cover)  # other tests check that these exist
    assert commands or others, "names nothing that one can look up"


KEYS = [
    key
    for section in (Recipe, PredictorRecipe, QuerySettings, ReasonSettings)
    for key in known_keys(section)
    if key not in ("model", "train")
]
TABLES = (
    SHAPES,
    FORMS,
    DATASETS,
    PRESETS,
    PREDICTORS,
    ARCHITECTURES,
    METRICS,
    PROTOCOLS,
    LINKS,
    TIES,
    NORMS,
    CLASSES,
    FEATURES,
    RANKED_BY,
    REPRODUCED,
)


@pytest.mark.parametrize("key", KEYS)
def test_every_key_of_a_recipe_is_documented(key: str) -> None:
    assert f"`{key}`" in EVERYTHING, key


@pytest.mark.parametrize("entry", [*itertools.chain(*TABLES)])
def test_every_entry_of_every_table_is_documented(entry: str) -> None:
    assert re.search(rf"(?<![\w-]){re.escape(entry)}(?![\w-])", EVERYTHING), entry


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_between_pages_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (document.parent / target).exists(), f"{document.name} links to {target}"


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("table", sorted((ROOT / "docs" / "tables").glob("*.md")), ids=lambda table: table.name)
def test_a_table_names_its_version_and_no_commit_which_may_be_gone(table: Path) -> None:
    text = table.read_text(encoding="utf-8")
    assert re.search(r"^- starqe: \d+\.\d+\.\d+$", text, re.MULTILINE)
    assert not re.search(r"\bcommit\b", text)

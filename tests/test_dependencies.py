"""What is imported is declared, what is declared is imported, pinned with hashes, and listed with its licence."""

import ast
import importlib.util
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from types import ModuleType

import pytest

from tests.places import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
HASHED = {"runtime": ROOT / "requirements" / "runtime.txt", "development": ROOT / "requirements" / "development.txt"}
BEHIND = {"torch.utils.tensorboard": "tensorboard"}
"""Modules that import another package on behalf of ours."""


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def declared(texts: list[str]) -> set[str]:
    return {canonical(re.match(r"[\w.-]+", text)[0]) for text in texts}


def imported() -> dict[str, str]:
    """Distribution -> one file of ours that imports it."""
    owners, found = packages_distributions(), {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            modules += [node.module] if isinstance(node, ast.ImportFrom) and not node.level and node.module else []
            for module in modules:
                top = module.partition(".")[0]
                if top in sys.stdlib_module_names or top == "starqe":
                    continue
                for owner in [BEHIND[module]] if module in BEHIND else owners.get(top, [top]):
                    found[canonical(owner)] = str(path.relative_to(ROOT))
    return found


def test_everything_that_is_imported_is_declared_and_nothing_else():
    required = declared(PROJECT["dependencies"])
    optional = declared([text for name, texts in PROJECT["optional-dependencies"].items() if name != "dev" for text in texts])
    found = imported()
    assert {name: place for name, place in found.items() if name not in required | optional} == {}
    assert (required | optional) - set(found) == set()


def pins(text: str) -> dict[str, tuple[str, int]]:
    """Name -> version and number of hashes."""
    blocks = re.split(r"\n(?! )", text)
    return {
        found[1]: (found[2], len(re.findall(r"--hash=sha256:[0-9a-f]{64}(?= |$)", block, re.MULTILINE)))
        for block in blocks
        if (found := re.match(r"([\w.-]+)==(\S+)", block))
    }


def test_versions_are_pinned_by_hash_apart_for_running_and_developing():
    runtime, development = (pins(path.read_text(encoding="utf-8")) for path in HASHED.values())
    assert set(runtime).isdisjoint(development)
    assert [name for name, (_, hashes) in {**runtime, **development}.items() if not hashes] == []
    torch = (ROOT / "requirements" / "torch.txt").read_text(encoding="utf-8")
    assert re.fullmatch(r"torch==[\d.]+\n", torch)
    assert declared(PROJECT["dependencies"]) - set(runtime) == {"torch"}
    assert declared(PROJECT["optional-dependencies"]["dev"]) - {*runtime, *development} == set()


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("dependencies", ROOT / "scripts" / "dependencies.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pins_are_all_that_running_needs(script):
    runtime = script.closure(PROJECT["dependencies"])
    written = {name: version for name, (version, _) in pins(HASHED["runtime"].read_text(encoding="utf-8")).items()}
    assert set(written) | {"torch"} == set(runtime)


def test_every_pinned_package_is_listed_with_its_licence():
    page = (ROOT / "docs" / "licences.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| ([\w.-]+) \| \S+ \| (.+) \|$", page, re.MULTILINE))
    wanted = {"torch", *(name for path in HASHED.values() for name in pins(path.read_text(encoding="utf-8")))}
    assert wanted - set(rows) == set()
    assert [name for name, licence in rows.items() if licence == "not stated"] == []


def test_actions_are_pinned_by_commit():
    uses = [line for path in (ROOT / ".github").rglob("*.yml") for line in path.read_text(encoding="utf-8").splitlines() if "uses:" in line]
    assert uses
    assert [line for line in uses if not re.search(r"@[0-9a-f]{40}  # v[\d.]+$", line)] == []

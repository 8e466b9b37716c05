"""The architecture: allowed imports, exported names, file names, and the promises of the documentation."""

import ast
import importlib
import importlib.util
import re
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "starqe"
GROUND = ("errors", "config", "seed", "disk", "folders", "remote", "ragged", "texts", "deadline")
ROOMS = ("kg", "queries", "model", "measure", "learn", "reason", "ask", "experiments", "serve", "bench", "cli")
"""Data flows down this list, and imports only point up it."""
MODULES = sorted(SOURCE.rglob("*.py"))
PRESENT = [room for room in ROOMS if (SOURCE / room).is_dir()]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@cache
def parsed(path: Path) -> ast.Module:
    """Returns the syntax tree of a file; do not change it."""
    return ast.parse(path.read_text(encoding="utf-8"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts).removesuffix(".__init__")


def floor(module: str) -> int:
    """Returns the position of a module's room in the list; shared modules and the package itself are 0."""
    part = [*module.split("."), ""][1]
    part = "cli" if part == "__main__" else part  # python -m starqe
    return ROOMS.index(part) + 1 if part in ROOMS else 0


def imports(path: Path) -> Iterator[str]:
    """Yields every module that a file imports, also inside functions."""
    package = name_of(path) if path.name == "__init__.py" else name_of(path).rpartition(".")[0]
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def test_every_module_is_in_a_room_of_the_list_or_shared():
    found = {path.name.removesuffix(".py") for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert found - set(ROOMS) - set(GROUND) <= {"__init__", "__main__"}


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_point_up_the_list_of_rooms(path):
    here = len(ROOMS) + 1 if path == SOURCE / "__init__.py" else floor(name_of(path))  # the front door leads into every room
    wrong = [module for module in imports(path) if module.split(".")[0] == "starqe" and floor(module) > here]
    assert wrong == []


@pytest.mark.parametrize("path", [path for path in MODULES if floor(name_of(path)) <= ROOMS.index("queries") + 1], ids=name_of)
def test_kg_and_queries_never_import_torch(path):
    assert [module for module in imports(path) if module.split(".")[0] == "torch"] == []


def test_importing_kg_and_queries_does_not_load_torch():
    program = "import sys, starqe.kg, starqe.queries; print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (result.stdout, result.stderr) == ("False\n", "")


def test_no_module_has_a_name_that_says_nothing():
    assert [name_of(path) for path in MODULES if path.stem in ("utils", "util", "common", "helpers", "helper", "base", "misc")] == []


FAMILIES = {"config", "settings", "stats", "read", "write", "lesson", "presets", "run", "scorer"}
"""File names that mean the same in several folders; CONTRIBUTING.md explains them."""


def test_a_file_name_in_several_folders_is_a_family():
    folders = Counter(path.stem for path in MODULES if not path.stem.startswith("__"))
    commands = {path.stem for path in (SOURCE / "cli").glob("*.py")}  # a command may have the name of the module that it calls
    repeated = {name for name, count in folders.items() if count > 2 or (count == 2 and name not in commands)}
    assert repeated <= FAMILIES
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert [name for name in sorted(FAMILIES) if f"`{name}`" not in text] == []


LIBRARY = [path for path in MODULES if 0 <= floor(name_of(path)) <= ROOMS.index("serve") + 1]


@pytest.mark.parametrize("path", LIBRARY, ids=name_of)
def test_messages_of_the_library_name_no_flags_of_the_command_line(path):
    texts = [node.value for node in ast.walk(parsed(path)) if isinstance(node, ast.Constant)]
    assert [text for text in texts if isinstance(text, str) and " " in text.strip() and re.search(r"(?:^|[\s(])--[a-z]", text)] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_is_small(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 350


FOLDERS = sorted({path.parent for path in MODULES})


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: name_of(folder / "__init__.py"))
def test_a_folder_holds_few_modules(folder):
    assert len([path for path in MODULES if path.parent == folder and path.name != "__init__.py"]) <= 15


def test_the_map_has_a_line_for_every_folder():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = [folder.relative_to(SOURCE).as_posix() for folder in FOLDERS if folder != SOURCE]
    assert [folder for folder in folders if f"| `{folder}/` |" not in text] == []


def module_imports() -> dict[str, set[str]]:
    """Returns the modules that each module imports."""
    names = {name_of(path): path for path in MODULES}
    found: dict[str, set[str]] = {}
    for name, path in names.items():
        for imported in imports(path):
            module = imported if imported in names else imported.rpartition(".")[0]
            if module in names and module != name:
                found.setdefault(name, set()).add(module)
    return found


def test_of_two_subfolders_of_a_room_only_one_imports_the_other():
    pairs = set()
    for name, imported in module_imports().items():
        for other in imported:
            one, two = (module.split(".")[1:3] for module in (name, other))
            of_subfolders = all((SOURCE / Path(*parts)).is_dir() and len(parts) == 2 for parts in (one, two))
            if of_subfolders and one[0] == two[0] and one != two:
                pairs.add((".".join(one), ".".join(two)))
    assert [(one, two) for one, two in sorted(pairs) if (two, one) in pairs] == []


def test_no_module_imports_itself_indirectly():
    from graphlib import TopologicalSorter

    rooms = {name_of(path) for path in MODULES if path.name == "__init__.py"}  # a room gathers what its modules offer
    graph = {name: found - rooms for name, found in runtime_imports().items() if name not in rooms}
    assert set(TopologicalSorter(graph).static_order()) >= set(graph)  # a cycle raises CycleError, which names the modules


def runtime_imports() -> dict[str, set[str]]:
    """Returns the modules that each module imports at run time, without those only for type checkers."""
    names = {name_of(path) for path in MODULES}
    found: dict[str, set[str]] = {}
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))  # it is changed below
        for node in [node for node in ast.walk(tree) if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)]:
            node.body = [ast.Pass()]
        found[name_of(path)] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    full = f"{node.module}.{alias.name}"
                    found[name_of(path)] |= {full if full in names else node.module} & names
    return found


def test_a_family_is_listed_in_as_many_files_as_extending_says():
    from starqe.kg import FORMS
    from starqe.measure.metrics import METRICS
    from starqe.model.similarity import SIMILARITY
    from starqe.queries.generate.generate import ENGINES

    families = {"a similarity": SIMILARITY, "a form of files": FORMS, "an engine for query sets": ENGINES, "a metric": METRICS}
    published = SOURCE / "experiments" / "tuning" / "search_space.py"  # the authors' search space is as it was published
    listing = {
        what: [name_of(path) for path in MODULES if path != published and lists_all(path, names)] for what, names in families.items()
    }
    assert listing == {
        "a similarity": ["starqe.model.config", "starqe.model.similarity"],
        "a form of files": ["starqe.kg.exchange"],  # and the module of the form
        "an engine for query sets": ["starqe.queries.generate.generate"],  # and the module of the engine
        "a metric": ["starqe.measure.metrics"],  # and starqe.measure.oracle, for the expectation of a new term
    }
    text = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    assert [what for what in families if f"| {what} | 2 |" not in text] == []


def lists_all(path: Path, names: Any) -> bool:
    """Returns whether a file lists all names of a family in one literal."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Dict | ast.Tuple | ast.List | ast.Set):
            parts = node.keys if isinstance(node, ast.Dict) else node.elts
            if set(names) <= {part.value for part in parts if isinstance(part, ast.Constant)}:
                return True
    return False


def constants_classes_functions(name: str) -> tuple[int, str]:
    return (0 if name.isupper() else 1 if name[0].isupper() else 2), name


@pytest.mark.parametrize("room", PRESENT)
def test_a_room_offers_what_it_lists(room):
    tree = ast.parse((SOURCE / room / "__init__.py").read_text(encoding="utf-8"))
    gathered = [alias.asname or alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    assigned = [target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets if isinstance(target, ast.Name)]
    gathered += [target.id for target in assigned if not target.id.startswith("_")]
    module = importlib.import_module(f"starqe.{room}")
    listed = getattr(module, "__all__", [])
    assert sorted(listed) == sorted(gathered)
    assert listed == sorted(listed, key=constants_classes_functions)
    assert [name for name in listed if not hasattr(module, name)] == []
    assert ast.get_docstring(tree)


def test_kg_exports_these_names_and_no_others():
    """A name that is added or removed belongs in the changelog."""
    from starqe import kg

    names = (
        "FORMS SPLITS Changes Columns Draft Graph Known Names Report SplitFindings Statement UpdateReport Vocabulary WikidataOptions "
        "check_split diff_graphs embedded_graph export_graph graph_of graph_of_table graph_stats hold_out_validation import_graph "
        "load_graph save_graph transductive_split update_graph with_split"
    )
    assert kg.__all__ == names.split()


@cache
def command_tree() -> Any:
    from starqe.cli.main import app

    return typer.main.get_command(app)


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yields the path of every command that is no group."""
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*path, name))
    if not hasattr(command, "commands"):
        yield path


def shell_lines(document: Path) -> Iterator[str]:
    """Yields the commands of the console blocks of a document: the lines after ``$``, with those that go on a quote or a backslash."""
    if not document.exists():
        return
    for block in re.findall(r"^```console\n(.*?)^```", document.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        command: str | None = None
        for line in block.splitlines():
            if line.startswith("$ "):
                command = line[2:]
            elif command is not None:
                command += "\n" + line
            if command is not None and not goes_on(command):
                yield command.replace("\\\n", " ")
                command = None


def goes_on(command: str) -> bool:
    try:
        shlex.split(command, comments=True)
    except ValueError:
        return True
    return command.endswith("\\")


LINES = [(document.name, line) for document in DOCUMENTS for line in shell_lines(document)]


def problem_of(line: str) -> str | None:
    """Returns the error that this line gives, or None if the command line understands it."""
    words = shlex.split(line, comments=True)
    words = words[: next((place for place, word in enumerate(words) if word in ("|", ">", "&&", "&", ";")), len(words))]
    if not words or words[0] != "starqe":
        script = ROOT / words[0] if words and words[0].startswith("./") else None
        return f"there is no {words[0]}" if script and not script.is_file() else None
    command, words = command_tree(), words[1:]
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    if {"--help", "-h"} & set(words):
        return None
    if words and hasattr(command, "commands") and not words[0].startswith("-"):
        return f"there is no command {words[0]}"
    try:
        command.make_context("starqe", list(words))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def test_the_check_of_documentation_notices_what_does_not_exist(tmp_path):
    document = tmp_path / "page.md"
    document.write_text(
        "```console\n$ starqe data stats graph --json | head\noutput\n$ starqe data stats --jsn graph\n$ ./scripts/nothing\n"
        "$ starqe data exprot\n$ starqe data import a \\\n    b --seed x\n$ starqe --version\n```\n"
    )
    problems = [problem_of(line) for line in shell_lines(document)]
    assert len(problems) == 6
    assert [bool(problem) for problem in problems] == [False, True, True, True, True, False]


@pytest.mark.parametrize(("document", "line"), LINES, ids=[f"{document}: {line[:60]}" for document, line in LINES])
def test_documented_commands_and_options_exist(document, line):
    assert problem_of(line) is None, document


@pytest.mark.parametrize("path", sorted(commands(command_tree())), ids=" ".join)
def test_every_command_is_documented(path):
    text = "\n".join(document.read_text(encoding="utf-8") for document in DOCUMENTS if document.exists())
    assert re.search(rf"\bstarqe {' '.join(path)}\b", text), f"neither README.md nor docs/*.md mentions 'starqe {' '.join(path)}'"

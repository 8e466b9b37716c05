"""Writes requirements/*.txt (versions and hashes) and docs/licences.md from what is declared and what is installed.

    .venv/bin/python scripts/dependencies.py pins       after a change of versions; asks the package index for hashes
    .venv/bin/python scripts/dependencies.py licences   after the pins

The pins are what is installed now: to renew them, install newer versions into .venv by hand, test, and run this.
"""

import re
import sys
import tomllib
import urllib.request
from collections.abc import Iterable
from html.parser import HTMLParser
from importlib.metadata import distribution
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

ROOT = Path(__file__).parents[1]
INDEX = "https://pypi.org/simple"
WITHOUT_HASH = "torch"
"""Its build depends on the machine (processor alone, CUDA, ROCm): the version is pinned, the file is not."""
BUILD = ("hatchling", "editables")
"""What builds this package; editables is for the editable installation of the scripts."""
INSTALLERS = {"pip", "setuptools", "starqe"}


def declared() -> tuple[list[str], list[str]]:
    """Returns the requirements of the package, and those that development adds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    return project["dependencies"], [*extras["dev"], *BUILD]


def closure(requirements: Iterable[str]) -> dict[str, str]:
    """Returns name -> version of requirements and all that they require on this machine, as they are installed."""
    found: dict[str, str] = {}
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        wanted = waiting.pop()
        for extra in wanted.extras or {""}:
            key = canonicalize_name(wanted.name)
            installed = distribution(key)
            if key not in found or extra:
                needed = [Requirement(text) for text in installed.requires or []]
                waiting += [one for one in needed if one.marker is None or one.marker.evaluate({"extra": extra})]
            found[key] = installed.version.partition("+")[0]
    return {name: version for name, version in sorted(found.items()) if name not in INSTALLERS}


def pinned() -> tuple[dict[str, str], dict[str, str]]:
    """Returns name -> version of what runs the package, and of what only development needs."""
    runtime, development = map(closure, declared())
    return runtime, {name: version for name, version in development.items() if name not in runtime}


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keeps the address of a link."""
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def hashes(name: str, version: str) -> list[str]:
    """Asks the index for the SHA-256 of every file of a version: source and wheels of all systems.

    Raises:
        SystemExit: It has none.
    """
    links = _Links()
    with urllib.request.urlopen(f"{INDEX}/{name}/", timeout=60) as page:  # noqa: S310 - a constant scheme
        links.feed(page.read().decode())
    found = set()
    for address in links.found:
        path, mark = urldefrag(address)
        if mark.startswith("sha256=") and _version(unquote(urlsplit(path).path.rpartition("/")[2])) == version:
            found.add(mark.replace("=", ":"))
    if not found:
        raise SystemExit(f"{INDEX} has no file of {name} {version} with a hash")
    return sorted(found)


def _version(file: str) -> str | None:
    parse = parse_wheel_filename if file.endswith(".whl") else parse_sdist_filename
    try:
        return str(parse(file)[1])
    except ValueError:
        return None


def write_pins() -> None:
    """Writes requirements/torch.txt, runtime.txt and development.txt."""
    runtime, development = pinned()
    folder = ROOT / "requirements"
    folder.mkdir(exist_ok=True)
    (folder / "torch.txt").write_text(f"{WITHOUT_HASH}=={runtime.pop(WITHOUT_HASH)}\n", encoding="utf-8")
    for name, pins in (("runtime", runtime), ("development", development)):
        lines = [" \\\n    ".join([f"{of}=={version}", *(f"--hash={one}" for one in hashes(of, version))]) for of, version in pins.items()]
        (folder / f"{name}.txt").write_text("# Made by scripts/dependencies.py pins\n" + "\n".join(lines) + "\n", encoding="utf-8")


def licence(name: str) -> str:
    """Returns the licence that a package states: as an expression, in a line, or by its classifiers."""
    metadata = distribution(name).metadata
    if expression := metadata.get("License-Expression"):
        return str(expression)
    stated = metadata.get("License") or ""
    if stated and "\n" not in stated.strip() and len(stated) <= 60:
        return stated.strip()
    classes = [one.rpartition(" :: ")[2] for one in metadata.get_all("Classifier") or [] if one.startswith("License ::")]
    return ", ".join(one for one in classes if one != "OSI Approved") or (stated.strip().partition("\n")[0][:60]) or _by_file(name)


def _by_file(name: str) -> str:
    """Reads the title of a packaged licence text."""
    files = [file for file in distribution(name).files or [] if re.search(r"licen[cs]e|copying", file.name, re.IGNORECASE)]
    for file in sorted(files, key=lambda one: len(one.parts)):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            if re.search(r"licen[cs]e", line, re.IGNORECASE):
                return line.strip(" #=*")[:60]
        if "Permission is hereby granted, free of charge" in file.read_text(encoding="utf-8", errors="replace"):
            return "MIT"
    return "not stated"


def licences() -> str:
    """Returns the page of all licences."""
    runtime, development = pinned()
    parts = [
        "# Licences",
        "",
        "The licences of all packages that starqe needs, as the packages state them. starqe itself has the MIT licence and contains no",
        "code of theirs. `scripts/dependencies.py licences` writes this page.",
    ]
    for title, names in (("To run it", runtime), ("For development only", development)):
        parts += ["", f"## {title}", "", "| package | version | licence |", "| --- | --- | --- |"]
        parts += [f"| {name} | {version} | {licence(name)} |" for name, version in names.items()]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["pins"]:
            write_pins()
        case ["licences"]:
            (ROOT / "docs" / "licences.md").write_text(licences(), encoding="utf-8")
        case _:
            raise SystemExit(__doc__)

"""The version of starqe, for provenance."""

import subprocess
from functools import cache
from pathlib import Path

from starqe import __version__


@cache
def version_text() -> str:
    """Names the version, and in a checkout of starqe the commit, with ``-dirty`` if files were changed since."""
    here = Path(__file__)
    try:
        _git("ls-files", "--error-unmatch", here.name, cwd=here.parent)  # an installed package may lie in the checkout of something else
        commit = _git("rev-parse", "--short=12", "HEAD", cwd=here.parent)
        changed = _git("status", "--porcelain", "--untracked-files=no", cwd=here.parent)
    except (OSError, subprocess.SubprocessError):
        return __version__
    return f"{__version__}, commit {commit}{'-dirty' if changed else ''}"


def _git(*arguments: str, cwd: Path) -> str:
    return subprocess.run(["git", *arguments], cwd=cwd, capture_output=True, text=True, check=True, timeout=10).stdout.strip()

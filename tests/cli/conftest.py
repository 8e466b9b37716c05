import sys
from collections.abc import Callable

import pytest

from starqe.cli.main import main


@pytest.fixture
def starqe(monkeypatch, capsys) -> Callable[..., tuple[int, str, str]]:
    """Runs the command line in this process: gives the exit code, standard output and standard error."""

    def run(*arguments: object) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["starqe", *map(str, arguments)])
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0), *capsys.readouterr()
        return 0, *capsys.readouterr()

    return run

"""Queries for the page and what tests do with it; they need a browser and playwright."""

import pytest

from tests.serve.browser import CHROMIUM

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install 'starqe[dev]'")
from playwright.sync_api import Page, expect

__all__ = ["BORN_IN_ULM", "DESK", "IN_A_BROWSER", "PHONE", "PREFIXES", "TWO_STEPS", "Page", "asked", "expect", "sideways"]
IN_A_BROWSER = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium"),
]
PREFIXES = "PREFIX : <https://starqe.example/science/>\nPREFIX p: <https://starqe.example/science/relation/>\n"
TWO_STEPS = PREFIXES + (
    "SELECT ?university WHERE {\n"
    "  :LawOfThePhotoelectricEffect p:discovererOrInventor ?who .\n"
    "  ?who p:educatedAt ?university {| p:academicDegree :BachelorOfScience |} .\n"
    "}"
)
BORN_IN_ULM = PREFIXES + "SELECT ?who WHERE { ?who p:bornIn :Ulm }"
PHONE, DESK = {"width": 360, "height": 780}, {"width": 1360, "height": 900}


def asked(page: Page, query: str) -> None:
    """Writes a query and asks it by the keyboard."""
    page.locator("#query").fill(query)
    page.keyboard.press("Control+Enter")


def sideways(page: Page) -> int:
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


expect.set_options(timeout=30_000)  # a busy machine decides no test

"""Pages of a running service in a browser."""

from typing import TYPE_CHECKING

import pytest

from tests.serve.browser import CHROMIUM, running, watched

if TYPE_CHECKING:
    from playwright.sync_api import Page


@pytest.fixture(scope="module")
def browser():
    playwright_api = pytest.importorskip("playwright.sync_api")
    with playwright_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def home(answerer):
    with running(answerer, name="science", seconds=60) as address:  # a busy machine decides no test
        yield address


@pytest.fixture
def open_page(browser):
    """Opens pages; at the end none of them has an error, a dialogue, or a request to another host."""
    contexts, all_wrongs = [], []

    def opened(address: str, **options) -> "Page":
        context = browser.new_context(**{"viewport": {"width": 1360, "height": 900}, "reduced_motion": "reduce", **options})
        context.set_default_timeout(30_000)
        contexts.append(context)
        page, wrongs = watched(context, address)
        all_wrongs.append(wrongs)
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert [wrong for wrongs in all_wrongs for wrong in wrongs] == []


@pytest.fixture
def page(open_page, home):
    return open_page(home)

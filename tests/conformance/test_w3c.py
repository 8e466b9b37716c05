"""The W3C's suites: no test fails but for a reason that is known, and the page says what each folder gives."""

from collections.abc import Iterator

import pytest

from starqe.kg import embedded_graph
from tests.conformance.manifest import W3C, folders
from tests.conformance.outcome import FAILED, NOT_OURS
from tests.conformance.page import PAGE, write_page
from tests.conformance.services import untrained
from tests.conformance.suites import Suites
from tests.serve.served import served

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(not W3C.exists(), reason="the W3C's suites are not here: set STARQE_DATA to a folder with w3c/ in it"),
]


@pytest.fixture(scope="module")
def suites() -> Iterator[Suites]:
    with served(untrained(embedded_graph()), seconds=300.0) as address, Suites(address) as opened:
        yield opened


@pytest.mark.parametrize("folder", folders())
def test_a_folder_has_no_failure_that_is_ours(suites: Suites, folder: str) -> None:
    found = {str(test): outcome.reason for test, outcome in suites.outcomes(folder) if outcome.state == FAILED}
    assert {test: reason for test, reason in found.items() if test not in NOT_OURS} == {}
    assert [test for test in NOT_OURS if test.startswith(f"{folder}#") and test not in found] == [], "passes now: take it out of the list"


def test_the_page_says_what_the_suites_give(suites: Suites) -> None:
    page = write_page({folder: suites.outcomes(folder) for folder in folders()})
    assert PAGE.read_text(encoding="utf-8") == page, "write it anew: python -m tests.conformance"

import pytest
from pyoxigraph import QueryResultsFormat

from starqe.serve.negotiation import FORMS, choose

JSON, XML, CSV, TSV = "application/sparql-results+json", "application/sparql-results+xml", "text/csv", "text/tab-separated-values"


@pytest.mark.parametrize("media_type", FORMS)
def test_a_client_that_accepts_one_form_gets_it_under_this_name(media_type):
    assert choose(media_type) == media_type
    assert FORMS[media_type] == QueryResultsFormat.from_media_type(media_type)


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        ("", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("text/*", "text/xml"),
        ("TEXT/CSV", CSV),
        (f"{CSV};q=0.5, {XML}", XML),
        (f"{CSV};q=0.5, {XML};q=0.4, text/html", CSV),
        (f"*/*;q=0.1, {TSV};q=0.2", TSV),
        (f"*/*, {JSON};q=0, application/json;q=0", XML),
        ("text/*;q=0.9, text/xml;q=0.1, application/*;q=0.5", CSV),
        (f"{JSON};version=1.2;q=0.3, {CSV};header=present;q=0.4", CSV),
        (f"{XML} ; q=1.0 , {JSON};q=0.999", XML),
        ("application/sparql-results+json,application/json,text/javascript,application/javascript", JSON),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/xml"),
    ],
)
def test_the_best_quality_wins_and_the_most_specific_range_decides(accept, chosen):
    assert choose(accept) == chosen


@pytest.mark.parametrize(
    "accept", ["text/html", "text/csv;q=0", "*/*;q=0", "text/csv;q=high", "text/csv;q=nan", "nonsense", "application/rdf+xml"]
)
def test_nothing_suits_a_client_that_allows_nothing_there_is(accept):
    assert choose(accept) is None

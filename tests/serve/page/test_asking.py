"""The page: asking, answers, reasons and links."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from tests.serve.page.pages import BORN_IN_ULM, DESK, IN_A_BROWSER, PHONE, TWO_STEPS, asked, expect

pytestmark = IN_A_BROWSER


def test_the_page_begins_with_the_graph_and_its_first_example(page):
    expect(page.get_by_role("heading", name="science")).to_be_visible()
    expect(page).to_have_title("science · starqe")
    expect(page.locator("#graph-size")).to_have_text("2,403 statements · 644 entities · 38 relations")
    expect(page.locator("#query")).to_have_value(re.compile('"law of the photoelectric effect" "discoverer or inventor" [?]who'))
    expect(page.locator("#drawing .node")).to_have_count(3)
    expect(page.locator("#answers")).to_contain_text("choose an example")


def test_the_query_is_asked_by_the_keyboard_and_answers_are_ranked(page):
    asked(page, TWO_STEPS)
    rows = page.locator(".ranking > li")
    expect(rows).to_have_count(11)
    expect(rows.nth(0)).to_contain_text("ETH Zurich")
    expect(rows.nth(0).locator("a")).to_have_attribute("href", "https://starqe.example/science/ETHZurich")
    expect(rows.nth(0).locator("a")).to_have_attribute("rel", "noopener noreferrer")
    known, predicted = page.get_by_role("region", name="Known: 1"), page.get_by_role("region", name="Predicted: 10")
    expect(known.locator(".ranking > li")).to_have_count(1)
    expect(known).to_contain_text("train, valid and test")
    expect(predicted.locator(".ranking > li .probability")).to_have_count(10)
    expect(page.locator("#summary")).to_have_text(re.compile(r"[\d.]+ m?s"))
    expect(page.locator("#status")).to_have_text("Known: 1. Predicted: 10.")


def test_what_is_counted_comes_from_known_facts(page):
    asked(page, 'SELECT ?where (COUNT(?who) AS ?n) { ?who "place of birth" ?where } GROUP BY ?where ORDER BY DESC(?n) LIMIT 3')
    rows = page.locator(".ranking > li")
    expect(rows).to_have_count(3)
    expect(rows.nth(0)).to_contain_text("Vienna")
    expect(rows.nth(0)).to_contain_text("10")
    expect(rows.nth(0).get_by_role("button")).to_be_disabled()  # there is nothing to explain
    expect(page.get_by_role("region", name="Known: 3")).to_contain_text("Computed from facts")
    expect(page.locator("#answers")).not_to_contain_text("Predicted")
    expect(page.locator("#answers .note")).to_contain_text("nothing is predicted")
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#drawing .node")).to_have_count(0)


def test_options_say_how_many_answers_there_are(page):
    asked(page, TWO_STEPS)
    rows = page.locator(".ranking > li")
    expect(rows).to_have_count(11)
    page.locator("#top").fill("3")
    page.locator("#top").press("Tab")
    expect(rows).to_have_count(4)  # as many of each kind: one is known, three are predicted
    page.get_by_label("known only").check()
    expect(rows).to_have_count(1)
    page.get_by_label("known only").uncheck()
    page.get_by_label("at least").check()
    page.locator("#threshold").fill("99.9")
    page.locator("#threshold").press("Tab")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("ETH Zurich")


def test_an_answer_opens_its_reasons_and_escape_closes_them(page):
    asked(page, TWO_STEPS)
    button = page.locator(".ranking > li.predicted .answer").first
    button.focus()
    page.keyboard.press("Enter")
    panel = page.locator(".explanation:visible")
    expect(panel.locator(".edge")).to_have_count(2)
    expect(panel.locator(".edge.predicted")).not_to_have_count(0)
    assert panel.locator(".edge.predicted").first.evaluate("edge => getComputedStyle(edge).strokeDasharray") != "none"
    expect(panel.locator(".tag.chance").first).to_contain_text(re.compile(r"predicted [<\d]"))
    expect(panel.locator(".note")).to_contain_text("A prediction is not a fact")
    expect(panel.locator(".reasons > li")).to_have_count(2)
    expect(panel.locator(".views")).to_contain_text("The model's score for the whole question")
    expect(panel.locator(".reasons > li.predicted .points").first).to_have_text(re.compile(r"no difference|[+−]\d+ points?"))
    page.keyboard.press("Escape")
    expect(panel).to_have_count(0)
    expect(button).to_be_focused()


def test_a_known_answer_rests_on_facts_only(page):
    asked(page, TWO_STEPS)
    page.locator(".ranking > li.known .answer").click()
    panel = page.locator(".explanation:visible")
    expect(panel.locator(".edge.fact")).to_have_count(2)
    assert panel.locator(".edge.fact").first.evaluate("edge => getComputedStyle(edge).strokeDasharray") == "none"
    expect(panel.locator(".node.variable")).to_contain_text("Albert Einstein")
    expect(panel.locator(".proof").last).to_contain_text("Albert Einstein · educated at · ETH Zurich (academic degree: Bachelor of Science")


def test_a_link_opens_the_same_query_options_and_answers(page, open_page, home):
    page.locator("#top").fill("4")
    asked(page, TWO_STEPS)
    expect(page.locator(".ranking > li")).to_have_count(5)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.locator("#copy").click()
    expect(page.locator("#copied")).to_have_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{home}/#q=PREFIX%20")
    other = open_page(link)
    expect(other.locator("#query")).to_have_value(TWO_STEPS)
    expect(other.locator("#top")).to_have_value("4")
    expect(other.locator(".ranking > li")).to_have_count(5)
    assert other.locator(".answer .label").all_inner_texts() == page.locator(".answer .label").all_inner_texts()


def test_back_and_forward_go_from_query_to_query(page):
    asked(page, TWO_STEPS)
    expect(page.locator(".ranking > li").first).to_contain_text("ETH Zurich")
    asked(page, BORN_IN_ULM)
    expect(page.locator(".ranking > li").first).to_contain_text("Albert Einstein")
    page.go_back()
    expect(page.locator("#query")).to_have_value(TWO_STEPS)
    expect(page.locator(".ranking > li").first).to_contain_text("ETH Zurich")
    page.go_forward()
    expect(page.locator("#query")).to_have_value(BORN_IN_ULM)
    expect(page.locator(".ranking > li").first).to_contain_text("Albert Einstein")


def test_answers_to_an_older_query_are_dimmed(page):
    asked(page, BORN_IN_ULM)
    expect(page.locator(".ranking > li").first).to_contain_text("Albert Einstein")
    page.locator("#query").press("End")
    page.keyboard.type(" LIMIT 1")
    expect(page.locator("#answers")).to_have_class("old")
    assert float(page.locator("#answers").evaluate("element => getComputedStyle(element).opacity")) < 0.6
    expect(page.locator("#summary")).to_contain_text("before your change")
    page.locator("#query").fill(BORN_IN_ULM)
    expect(page.locator("#answers")).not_to_have_class("old")
    expect(page.locator("#summary")).to_contain_text("s")
    expect(page.locator("#summary")).not_to_contain_text("before your change")


def test_answers_are_saved_as_csv_and_json(page):
    asked(page, 'SELECT ?x ?y { "Albert Einstein" "educated at" ?x . ?x "located in" ?y }')
    expect(page.locator(".ranking > li").first).to_be_visible()
    saved = {}
    for form in ("CSV", "JSON"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Download {form}").click()
        assert download.value.suggested_filename == f"answers.{form.lower()}"
        saved[form] = Path(download.value.path()).read_text(encoding="utf-8")
    rows = list(csv.DictReader(io.StringIO(saved["CSV"], newline="")))
    assert list(rows[0]) == ["x", "label", "status", "probability", "y"]
    found = json.loads(saved["JSON"])
    assert found["query"].startswith("SELECT ?x ?y")
    assert [row["x"] for row in rows] == [answer["entity"] for answer in found["answers"]]
    assert {"known", "predicted"} >= {row["status"] for row in rows}


def test_counts_and_calibration_are_shown_as_the_service_says(page):
    exact = {"known": 76, "known_exact": True, "known_shown": 1, "predicted_shown": 9}
    changes = iter([(False, exact), (True, {**exact, "known": 1_000, "known_exact": False})])

    def changed(route) -> None:
        response = route.fetch()
        calibrated, counts = next(changes)
        route.fulfill(response=response, json={**response.json(), "calibrated": calibrated, "counts": counts})

    page.route("**/api/ask", changed)  # once: a browser may let a request pass while its routes change
    asked(page, TWO_STEPS)
    expect(page.get_by_role("heading", name="Known: 1 of 76")).to_be_visible()
    expect(page.get_by_role("heading", name="Predicted: 10")).to_contain_text("not calibrated")
    expect(page.locator("#status")).to_have_text("Known: 1 of 76. Predicted: 10.")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="Known: 1 of at least 1,000")).to_be_visible()
    expect(page.locator(".chip")).to_have_count(0)


def test_an_example_is_asked_by_a_click(page):
    page.locator(".example").nth(1).click()
    expect(page.locator(".ranking > li.known").first).to_be_visible()
    assert "#q=" in page.url


SEVERAL = 'SELECT ?p ?what ?when { "Albert Einstein" ?p ?what {| "point in time" ?when |} }'


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
def test_several_columns_are_shown_and_a_row_is_explained(open_page, home, viewport):
    page = open_page(home, viewport=viewport)
    asked(page, SEVERAL)
    first = page.locator(".ranking > li.known").first
    expect(first.locator(".cell .label")).to_have_count(3)
    assert page.locator(".column-names").first.is_visible() == (viewport == DESK)
    assert first.locator(".cell .column").first.is_visible() == (viewport == PHONE)
    values = first.locator(".cell .label").all_inner_texts()
    first.locator(".answer").click()
    expect(first.locator(".reasons > li.fact")).to_have_count(1)
    said = first.locator(".explanation").inner_text()
    assert [value for value in values if value not in said] == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_union_is_drawn_and_its_explanation_has_all_options(page):
    branches = '{ ?x "doctoral advisor" "Arnold Sommerfeld" } UNION { ?x "student of" ?y . ?y "employer" "ETH Zurich" }'
    asked(page, f"SELECT ?x {{ {branches} }}")
    expect(page.locator("#drawing .tag.option text")).to_have_text(["option A", "option B", "option B"])
    page.locator(".ranking > li.known .answer").first.click()
    panel = page.locator(".explanation:not([hidden])")
    expect(panel.locator(".branch")).to_have_count(2)
    expect(panel.locator(".branch").first).to_contain_text("This option explains it (100%)")
    assert panel.locator(".branch").first.locator("li.predicted").count() == 0
    assert panel.locator(".graph .edge.unused").count() >= 1


def test_a_negation_is_drawn_and_names_what_it_relies_on(page):
    without = 'FILTER NOT EXISTS { ?x "award received" "Nobel Prize in Physics" } FILTER (?x != "Albert Einstein")'
    asked(page, f'SELECT ?x {{ ?x "educated at" "ETH Zurich" . {without} }}')
    expect(page.locator("#drawing .edge.negated")).to_have_count(1)
    expect(page.locator("#drawing .conditions")).to_have_text("?x ≠ Albert Einstein")
    page.locator(".ranking > li.known .answer").first.click()
    panel = page.locator(".explanation:not([hidden])")
    expect(panel.locator("li.missing")).to_contain_text("award received Nobel Prize in Physics")
    expect(panel.locator("li.missing")).to_contain_text(re.compile(r"missing; probability that it is true: <?\d"))
    expect(panel).to_contain_text("Relies on: no such statement")

import csv
import io
import json
import os
import random
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed: pip install 'starqe[dev]'")
from playwright.sync_api import Page, expect, sync_playwright

from starqe.ask import Answerer
from starqe.kg import Vocabulary, embedded_graph
from starqe.queries import SHAPES
from tests.places import ROOT
from tests.serve.browser import CHROMIUM, running, watched

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine: apt-get install chromium"),
]

FOLDER = ROOT / "src" / "starqe" / "serve" / "page"
PREFIXES = "PREFIX : <https://starqe.example/science/>\nPREFIX p: <https://starqe.example/science/relation/>\n"
TWO_STEPS = PREFIXES + (
    "SELECT ?university WHERE {\n"
    "  :LawOfThePhotoelectricEffect p:discovererOrInventor ?who .\n"
    "  ?who p:educatedAt ?university {| p:academicDegree :BachelorOfScience |} .\n"
    "}"
)
BORN_IN_ULM = PREFIXES + "SELECT ?who WHERE { ?who p:bornIn :Ulm }"
PHONE, DESK = {"width": 360, "height": 780}, {"width": 1360, "height": 900}
EVIL = '<img src=x onerror="alert(1)"><script>alert(2)</script>'
expect.set_options(timeout=30_000)  # a busy machine decides no test


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
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

    def opened(address: str, **options) -> Page:
        context = browser.new_context(**{"viewport": DESK, "reduced_motion": "reduce", **options})
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


def asked(page: Page, query: str) -> None:
    """Writes a query and asks it by the keyboard."""
    page.locator("#query").fill(query)
    page.keyboard.press("Control+Enter")


def sideways(page: Page) -> int:
    return page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


def test_the_page_begins_with_the_graph_and_its_first_example(page):
    expect(page.get_by_role("heading", name="science")).to_be_visible()
    expect(page).to_have_title("science · starqe")
    expect(page.locator("#graph-size")).to_have_text("2,403 statements · 644 entities · 38 relations")
    expect(page.locator("#query")).to_have_value(re.compile('"law of the photoelectric effect" "discoverer or inventor" [?]who'))
    expect(page.locator("#drawing .node")).to_have_count(3)
    expect(page.locator("#answers")).to_contain_text("choose an example")


def test_an_example_that_comes_late_does_not_get_between_the_words_of_a_writer(page, home):
    held = []
    page.route("**/api/examples", lambda route: held.append(route))  # playwright marks the function, so it is one of ours
    page.goto(home)
    page.locator("#query").focus()
    expect(page.locator("#graph-name")).to_have_text("science")
    held[0].continue_()
    expect(page.locator("#examples button").first).to_be_visible()
    page.keyboard.insert_text(BORN_IN_ULM)
    expect(page.locator("#query")).to_have_value(BORN_IN_ULM)


def test_a_query_is_drawn_while_one_types(page):
    expect(page.locator("#drawing .node")).to_have_count(3)
    page.locator("#query").fill("")
    expect(page.locator("#drawing .node")).to_have_count(0)
    page.locator("#query").press_sequentially(BORN_IN_ULM)
    expect(page.locator("#drawing .edge")).to_have_count(1)
    expect(page.locator("#drawing .node.anchor .name")).to_have_text("Ulm")
    expect(page.locator("#drawing .node.target .name")).to_have_text("?who")
    expect(page.locator("#drawing .relation")).to_have_text("place of birth")
    page.locator("#query").fill(TWO_STEPS)
    expect(page.locator("#drawing .edge")).to_have_count(2)
    expect(page.locator("#drawing .node.variable .name")).to_have_text("?who")
    expect(page.locator("#drawing .tag title")).to_have_text("academic degree: Bachelor of Science")
    expect(page.locator("#drawing svg")).to_have_attribute(
        "aria-label", re.compile("educated at, .university .academic degree: Bachelor of Science")
    )


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
    expect(panel.locator(".views")).to_contain_text("The model's view of the whole question")
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


def test_an_error_is_shown_at_its_place(page):
    query = '# 🧪 two units in the browser, one character in the service\nSELECT ?x WHERE {\n  "Albert Einstein" "educated att" ?x\n}'
    page.locator("#query").fill(query)
    expect(page.locator("#mirror .wrong")).to_have_text('"educated att"')
    problem = page.locator("#problem")
    expect(problem).to_contain_text(re.compile("^Line 3, column 21: no relation of this graph is called 'educated att'"))
    expect(page.locator("#query")).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#drawing")).to_have_class(re.compile("old"))
    problem.get_by_role("button", name="Line 3").click()
    assert page.evaluate("getSelection().toString()") == '"educated att"'
    page.keyboard.type('"educated at"')
    expect(problem).to_be_hidden()
    expect(page.locator("#mirror .wrong")).to_have_count(0)
    expect(page.locator("#drawing .node")).to_have_count(2)


def test_the_mark_lies_under_the_text_that_it_marks(page):
    page.locator("#query").fill("\n" * 40 + 'SELECT ?x WHERE { ?x "nothing" "nothing" }')
    wrong = page.locator("#mirror .wrong")
    expect(wrong).to_have_text('"nothing"')
    page.locator("#problem button").first.click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")  # the browser scrolls to the caret, and the mark has to come along
    box, editor = wrong.bounding_box(), page.locator("#editor").bounding_box()
    assert editor["y"] <= box["y"] <= editor["y"] + editor["height"]
    styles = [
        page.locator(of).evaluate("e => { const s = getComputedStyle(e); return [s.font, s.padding, e.clientWidth] }")
        for of in ("#mirror", "#query")
    ]
    assert styles[0] == styles[1]


def test_a_query_that_ends_too_early_is_marked_at_its_end(page):
    page.locator("#query").fill("SELECT ?x WHERE { ?x ")
    expect(page.locator("#mirror .wrong.here")).to_have_count(1)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#answers")).to_contain_text("cannot be answered yet")


def test_labels_are_completed_by_the_keyboard(page):
    area = page.locator("#query")
    area.fill("")
    area.press_sequentially('SELECT ?x WHERE { "albert ein')
    options = page.get_by_role("listbox").get_by_role("option")
    expect(options.first).to_contain_text("Albert Einstein")
    expect(area).to_have_attribute("aria-expanded", "true")
    page.keyboard.press("Escape")
    expect(options).to_have_count(0)
    area.press_sequentially("s")
    expect(options.first).to_contain_text("Albert Einstein")
    expect(options.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowUp")
    expect(area).to_have_attribute("aria-activedescendant", options.first.get_attribute("id"))
    page.keyboard.press("Enter")
    expect(options).to_have_count(0)
    area.press_sequentially(' "educated at" ?x }')
    expect(area).to_have_value('SELECT ?x WHERE { "Albert Einstein" "educated at" ?x }')
    expect(page.locator("#drawing .edge")).to_have_count(1)


@pytest.mark.parametrize(
    ("text", "completed"),
    [
        ('{ "albert e|', '{ "Albert Einstein"'),
        ('{ "albert e|"', '{ "Albert Einstein"'),
        ('{ "albert e|xample"', '{ "Albert Einstein"'),
        ('{ "albert e| "educated at" ?x', '{ "Albert Einstein" "educated at" ?x'),
    ],
)
def test_completion_replaces_the_string_and_nothing_else(page, text, completed):
    before, _, after = text.partition("|")
    page.locator("#query").fill(before[:-1] + after)
    page.evaluate("place => document.getElementById('query').setSelectionRange(place, place)", len(before) - 1)
    page.keyboard.type(before[-1])
    expect(page.get_by_role("option").first).to_contain_text("Albert Einstein")
    page.keyboard.press("Enter")
    expect(page.locator("#query")).to_have_value(completed)


def test_a_name_is_completed_from_the_middle_and_tab_takes_it(page):
    area = page.locator("#query")
    area.fill("")
    area.press_sequentially('SELECT ?x { "einst')
    expect(page.get_by_role("option").first).to_contain_text("Albert Einstein")
    page.keyboard.press("Tab")
    expect(area).to_have_value('SELECT ?x { "Albert Einstein"')
    expect(area).to_be_focused()
    area.press_sequentially(' "birth')  # the place of a relation
    expect(page.get_by_role("option")).to_have_count(1)
    expect(page.get_by_role("option")).to_contain_text(re.compile("place of birth.*statements"))
    page.keyboard.press("Tab")
    area.press_sequentially(" ?x }")
    expect(page.locator("#drawing .edge")).to_have_count(1)  # until then the drawing of the example stands there
    expect(page.locator("#drawing .relation")).to_have_text("place of birth")


def test_entities_and_relations_are_suggested_together(page):
    area = page.locator("#query")
    area.fill("")
    area.press_sequentially('SELECT ?x { "Albert Einstein" "e')
    texts = page.get_by_role("option")
    expect(texts.first).to_contain_text("relation, ")
    kinds = ["relation, " in text for text in texts.all_inner_texts()]
    assert kinds == sorted(kinds, reverse=True)
    assert kinds.count(False) == 3


KINDS = [
    ('SELECT ?x { "', False),
    ('SELECT ?x { "Ulm" "', True),
    ('SELECT ?x { "Ulm" "country" "', False),
    ('SELECT ?x { ?x r:country "Germany" . ?x "', True),
    ('SELECT ?x { ?x "country" "Germany" ; "', True),
    ('SELECT ?x { ?x "country" "Germany" , "', False),
    ('SELECT ?x { ?x "country" ?y {| "', True),
    ('SELECT ?x { ?x "country" ?y {| "point in time" "', False),
    ('SELECT ?x { << ?x "country" ?y >> "', True),
    ('SELECT ?x { # "a" "b"\n "', False),
    ('SELECT ?x { { ?x "country" "Germany" } UNION { ?x "', True),
    ('SELECT ?x { ?x "country" ?y FILTER NOT EXISTS { ?x "', True),
    ('SELECT ?x { ?x "country"/"', True),
    ('SELECT ?x { ?x "country"/"capital" "', False),
    ('SELECT ?x { ?x ^"', True),
    ('SELECT ?x { ?x ("country"|"', True),
    ('SELECT ?x { ?x "country" [ "', True),
    ('SELECT ?x { ?x "country" ?y FILTER (?y != "', False),
    ('"', False),
]


def test_the_place_in_a_pattern_says_whether_a_relation_stands_there(page):
    found = page.evaluate(
        """async (texts) => {
          const { isRelationAt } = await import("/completion.js");
          return texts.map((text) => isRelationAt(text, text.length - 1));
        }""",
        [text for text, _ in KINDS],
    )
    assert found == [expected for _, expected in KINDS]


def test_relations_are_listed_with_their_use_found_and_inserted(page):
    listed = page.get_by_role("list", name="Relations of this graph").get_by_role("button")
    expect(listed).to_have_count(38)
    expect(listed.first).to_contain_text(re.compile(r"\d+ statements"))
    page.locator("#query").fill('SELECT ?x { "Albert Einstein"')
    page.get_by_role("searchbox", name="Find a relation").fill("birth")
    expect(listed).to_have_count(1)
    listed.first.click()
    expect(page.locator("#query")).to_have_value('SELECT ?x { "Albert Einstein" "place of birth" ')
    expect(page.locator("#query")).to_be_focused()
    page.get_by_role("searchbox", name="Find a relation").fill("no such thing")
    expect(page.locator("#relations-more")).to_have_text("No relation found.")


def test_what_was_meant_replaces_what_was_written_by_a_click(page):
    page.locator("#query").fill('SELECT ?x { "Albert Einstien" "educated at" ?x }')
    expect(page.locator("#problem")).to_contain_text("no entity of this graph is called 'Albert Einstien'")
    expect(page.locator("#problem")).not_to_contain_text('Did you mean "')  # the buttons say it
    page.get_by_role("button", name="Albert Einstein", exact=True).click()
    expect(page.locator("#query")).to_have_value('SELECT ?x { "Albert Einstein" "educated at" ?x }')
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#drawing .edge")).to_have_count(1)


def test_nothing_is_marked_wrong_while_one_types(page):
    page.clock.install()
    with page.expect_response("**/api/check"):
        page.locator("#query").fill("SELECT ?x WHERE { ?x nonsense")
        page.clock.run_for(250)
    page.clock.run_for(600)
    expect(page.locator("#drawing")).to_have_class(re.compile("old"))
    expect(page.locator("#problem")).to_be_hidden()
    expect(page.locator("#mirror .wrong")).to_have_count(0)
    page.clock.run_for(1_000)
    expect(page.locator("#problem")).to_be_visible()
    expect(page.locator("#mirror .wrong")).to_have_text("nonsense")


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


def test_on_a_phone_a_link_opens_at_its_answers(open_page, home):
    page = open_page(f"{home}/#q={quote(TWO_STEPS)}", viewport=PHONE, has_touch=True, is_mobile=True)
    expect(page.locator(".ranking > li").first).to_be_in_viewport()
    expect(page.locator("#relations button").first).to_be_attached()  # what is loaded later moves nothing
    expect(page.locator(".ranking > li").first).to_be_in_viewport()


def test_the_help_is_put_away_and_brought_back(page):
    help_ = page.locator("#help")
    expect(help_).to_contain_text('"entity" "relation" ?x')
    page.get_by_role("button", name="Got it").click()
    expect(help_).to_be_hidden()
    expect(page.locator("#query")).to_be_focused()
    page.reload()
    expect(page.locator(".example").first).to_be_visible()
    expect(help_).to_be_hidden()
    page.get_by_role("button", name="How to ask").click()
    expect(help_).to_be_visible()
    expect(page.get_by_role("button", name="How to ask")).to_have_attribute("aria-expanded", "true")


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
    def changed(route) -> None:
        response = route.fetch()
        counts = {"known": 76, "known_exact": True, "known_shown": 1, "predicted_shown": 9}
        route.fulfill(response=response, json={**response.json(), "calibrated": False, "counts": counts})

    page.route("**/api/ask", changed)
    asked(page, TWO_STEPS)
    expect(page.get_by_role("heading", name="Known: 1 of 76")).to_be_visible()
    expect(page.get_by_role("heading", name="Predicted: 10")).to_contain_text("not calibrated")
    expect(page.locator("#status")).to_have_text("Known: 1 of 76. Predicted: 10.")
    page.unroute("**/api/ask")
    page.route("**/api/ask", lambda route: inexact(route))
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("heading", name="Known: 1 of at least 1,000")).to_be_visible()
    expect(page.locator(".chip")).to_have_count(0)


def inexact(route) -> None:
    response = route.fetch()
    counts = {"known": 1_000, "known_exact": False, "known_shown": 1, "predicted_shown": 9}
    route.fulfill(response=response, json={**response.json(), "calibrated": True, "counts": counts})


def test_the_tab_key_leaves_the_editor(page):
    page.locator("#query").focus()
    page.keyboard.press("Tab")
    expect(page.locator("#query")).not_to_be_focused()


def test_an_example_is_asked_by_a_click(page):
    page.locator(".example").nth(1).click()
    expect(page.locator(".ranking > li.known").first).to_be_visible()
    assert "#q=" in page.url


def test_labels_are_text_whatever_stands_in_them(open_page, askable_run):
    graph = embedded_graph()

    def renamed(vocabulary: Vocabulary) -> Vocabulary:
        return Vocabulary(vocabulary, {"": {id_: f"{EVIL} {identifier}" for id_, identifier in enumerate(vocabulary)}})

    evil = replace(graph, entities=renamed(graph.entities), relations=renamed(graph.relations))
    with running(Answerer.open(askable_run, evil), name=EVIL) as address:
        page = open_page(address)
        asked(page, TWO_STEPS)
        expect(page.locator("#graph-name")).to_have_text(EVIL)
        expect(page.locator(".answer .label").first).to_have_text(f"{EVIL} ETHZurich")
        page.locator(".answer").first.click()
        expect(page.locator(".reasons > li")).to_have_count(2)
        page.locator("#query").fill("")
        page.locator("#query").press_sequentially(f'"{EVIL[:8]}')
        expect(page.get_by_role("option").first).to_contain_text(EVIL)
        assert page.locator("img").count() == 1  # the sign of the page itself
        assert page.locator("script").count() == 2
        page.close()  # before the service is: a page that lives on would ask it in vain


def test_a_token_is_asked_for_and_kept_until_the_tab_is_closed(open_page, answerer):
    with running(answerer, token="sésame 🔑") as address:
        page = open_page(address)
        dialogue = page.get_by_role("dialog")
        for given in ("wrong", "sésame 🔑"):
            dialogue.get_by_label("Token").fill(given)
            dialogue.get_by_role("button", name="Use it").click()
            if given == "wrong":
                expect(dialogue).to_contain_text("The token was refused")
        expect(dialogue).to_be_hidden()
        expect(page.locator(".example").first).to_be_visible()
        page.reload()
        asked(page, BORN_IN_ULM)
        expect(page.locator(".ranking > li").first).to_contain_text("Albert Einstein")
        expect(dialogue).to_be_hidden()
        page.close()


def test_without_a_connection_one_can_try_again(page):
    expect(page.locator("#drawing .node")).to_have_count(3)
    page.context.set_offline(True)
    asked(page, BORN_IN_ULM)
    expect(page.locator(".failure")).to_contain_text("cannot be reached")
    page.context.set_offline(False)
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".ranking > li").first).to_contain_text("Albert Einstein")


def test_a_busy_service_is_shown_with_its_own_words(page):
    error = {"error": {"kind": "Busy", "message": "128 requests are worked on already. Try again later"}}
    page.route("**/api/ask", lambda route: route.fulfill(status=503, json=error))
    asked(page, BORN_IN_ULM)
    expect(page.locator(".failure")).to_contain_text("128 requests are worked on already")
    page.unroute("**/api/ask")
    page.get_by_role("button", name="Try again").click()
    expect(page.locator(".ranking > li").first).to_contain_text("Albert Einstein")


def drawing_of(edges: list[tuple[str, str]], qualifiers: int = 1) -> dict:
    """A drawing as the service gives it, with long labels; upper-case nodes are anchors, "?" is the target."""

    def named(text: str) -> dict:
        return {"entity": text, "label": text}

    kinds = {name: "target" if name == "?" else "anchor" if name[0].isupper() else "variable" for edge in edges for name in edge}
    nodes = [{"id": n, "kind": kind, "entity": n if kind == "anchor" else None, "label": f"the label of {n}"} for n, kind in kinds.items()]
    pairs = [{"relation": named("point in time"), "value": named("the nineteenth century")}] * qualifiers
    marks = [{"kind": "option", "text": "option A", "title": "One of 2 options"}, {"kind": "not", "text": "not together", "title": ""}]
    made = [
        {
            "from": a,
            "to": b,
            "relation": named(f"relation {a} {b}"),
            "qualifiers": pairs,
            "marks": marks[: place % 3],
            "used": True,
            "fact": None,
            "probability": None,
        }
        for place, (a, b) in enumerate(edges)
    ]
    return {"nodes": nodes, "edges": made, "conditions": []}


BOXES = """async ([drawings, width]) => {
  const { drawIn } = await import("/drawing.js");
  const found = [];
  for (const drawing of drawings) {
    const element = document.createElement("div");
    element.style.width = `${width}px`;
    document.body.append(element);
    drawIn(element).show(drawing);
    const rect = (part) => { const { left, top, right, bottom } = part.getBoundingClientRect(); return [left, top, right, bottom]; };
    const frame = rect(element.firstChild);
    const boxes = [...element.querySelectorAll(".node, .label")].map(rect);
    found.push({ frame, boxes, edges: element.querySelectorAll(".edge").length });
    element.remove();
  }
  return found;
}"""


def overlap(a: list[float], b: list[float]) -> bool:
    return min(a[2], b[2]) - max(a[0], b[0]) > 0.5 and min(a[3], b[3]) - max(a[1], b[1]) > 0.5


@pytest.mark.parametrize("width", [600, 328])
def test_nothing_overlaps_in_a_drawing(page, width):
    edges = [[tuple(edge.split(">")) for edge in shape.text.split()] for shape in SHAPES.values()]
    chance = random.Random(1)
    for _ in range(60):  # connected graphs with cycles, parallel and opposite edges, and nodes that lead to themselves
        names = ["?", "x", "y", "z", "A", "B"][: chance.randint(2, 6)]
        tree = [(name, chance.choice(names[:i])) for i, name in enumerate(names) if i]
        more = [tuple(chance.choices(names, k=2)) for _ in range(chance.randint(0, 4))]
        edges.append([edge if chance.random() < 0.5 else edge[::-1] for edge in tree + more])
    drawings = [drawing_of(of, qualifiers=i % 3) for i, of in enumerate(edges)]
    expect(page.locator("#drawing .node")).to_have_count(3)
    for drawing, found in zip(drawings, page.evaluate(BOXES, [drawings, width]), strict=True):
        boxes, frame = found["boxes"], found["frame"]
        assert (len(boxes), found["edges"]) == (len(drawing["nodes"]) + len(drawing["edges"]), len(drawing["edges"]))
        assert not [(a, b) for i, a in enumerate(boxes) for b in boxes[:i] if overlap(a, b)]
        assert all(frame[0] <= b[0] and frame[1] <= b[1] and b[2] <= frame[2] and b[3] <= frame[3] for b in boxes)


CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const seen = (colours) => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const [r, g, b] = [...canvas.getImageData(0, 0, 1, 1).data].map((v) => linear(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const found = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    if (!own || element.closest(".hidden, svg, noscript, dialog, textarea") || !element.getClientRects().length) continue;
    const grounds = [];
    for (let up = element; up; up = up.parentElement) grounds.unshift(getComputedStyle(up).backgroundColor);
    const [text, ground] = [seen([...grounds, getComputedStyle(element).color]), seen(grounds)];
    found.push([(Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05), element.className || element.tagName]);
  }
  return found;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_the_page_fits_its_screen_and_can_be_read(open_page, home, tmp_path, scheme, viewport):
    phone = viewport is PHONE
    page = open_page(home, viewport=viewport, color_scheme=scheme, has_touch=phone, is_mobile=phone)
    expect(page.locator(".example").first).to_be_visible()
    page.locator("#query").fill("SELECT ?x WHERE { ?x nonsense")
    expect(page.locator("#problem")).to_be_visible()
    assert sideways(page) == 0
    asked(page, TWO_STEPS)
    page.locator(".ranking > li.predicted .answer").first.click()
    expect(page.locator(".reasons > li")).to_have_count(2)
    assert sideways(page) == 0
    assert page.evaluate("document.querySelector('#drawing').scrollWidth <= document.querySelector('#drawing').clientWidth")
    ratios = page.evaluate(CONTRAST)
    assert len(ratios) > 40
    assert [worst for worst in ratios if worst[0] < 4.5] == []
    folder = Path(os.environ.get("STARQE_SCREENSHOTS", tmp_path))
    page.screenshot(path=folder / f"page-{scheme}-{'phone' if phone else 'desk'}.png", full_page=True)


def test_light_or_dark_is_chosen_and_remembered(page):
    def paper() -> str:
        return page.evaluate("getComputedStyle(document.documentElement).backgroundColor")

    light = paper()
    page.get_by_role("button", name="Dark").click()
    expect(page.get_by_role("button", name="Dark")).to_have_attribute("aria-pressed", "true")
    dark = paper()
    assert dark != light
    page.reload()
    assert paper() == dark


def test_the_page_works_in_a_browser_that_keeps_nothing(browser, home):
    context = browser.new_context()
    context.add_init_script(
        "for (const name of ['localStorage', 'sessionStorage'])"
        " Object.defineProperty(window, name, { get() { throw new Error('no storage') } })"
    )
    page, wrongs = watched(context, home)
    page.goto(home)
    page.get_by_role("button", name="Dark").click()
    asked(page, BORN_IN_ULM)
    expect(page.locator(".ranking > li").first).to_contain_text("Albert Einstein")
    context.close()
    assert wrongs == []


def test_every_field_and_button_has_a_name(page):
    expect(page.locator(".example").first).to_be_visible()
    tree = page.locator("body").aria_snapshot()
    assert not re.findall(r"- (?:button|textbox|searchbox|spinbutton|radio|checkbox|link|img)(?! [\"/])[^\n]*", tree)
    for role, name in (
        ("textbox", "Query"),
        ("spinbutton", "Number of answers of each kind"),
        ("spinbutton", "Lowest probability in percent"),
        ("searchbox", "Find a relation"),
        ("checkbox", "known only"),
    ):
        expect(page.get_by_role(role, name=name)).to_be_visible()


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_files_of_the_page_load_nothing_from_elsewhere_and_make_no_markup_from_text(path):
    text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
    assert (
        re.findall(r"https?://\w|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function|\bstyle=|\son\w+=", text)
        == []
    )


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

"""The page: writing a query, errors in it, and completion."""

import re

import pytest

from tests.serve.page.pages import BORN_IN_ULM, IN_A_BROWSER, TWO_STEPS, asked, expect

pytestmark = IN_A_BROWSER


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


def test_an_error_without_suggestions_is_its_message_alone(page):
    asked(page, 'SELECT ?x { "Albert Einstein" "place of birth" ?x }}')
    expect(page.locator("#problem")).to_contain_text("found '}'")
    expect(page.locator("#problem")).not_to_contain_text("false")


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


def test_the_place_in_a_pattern_says_whether_a_relation_belongs_there(page):
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


def test_the_tab_key_leaves_the_editor(page):
    page.locator("#query").focus()
    page.keyboard.press("Tab")
    expect(page.locator("#query")).not_to_be_focused()

"""The page: layout, accessibility, and a service that is busy, gone or closed."""

import os
import random
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from starqe.ask import Answerer
from starqe.kg import Vocabulary, embedded_graph
from starqe.queries import SHAPES
from tests.places import ROOT
from tests.serve.browser import running, watched
from tests.serve.page.pages import BORN_IN_ULM, DESK, IN_A_BROWSER, PHONE, TWO_STEPS, asked, expect, sideways

pytestmark = IN_A_BROWSER


FOLDER = ROOT / "src" / "starqe" / "serve" / "page"
EVIL = '<img src=x onerror="alert(1)"><script>alert(2)</script>'


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


def test_labels_are_text_whatever_they_contain(open_page, askable_run):
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

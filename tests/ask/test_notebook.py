"""Answers in a notebook: by index, in a loop, and as a table."""

from html.parser import HTMLParser

import pytest

from starqe.ask import Answer, Answers, Binding, Counts
from starqe.ask.notebook import SHOWN
from starqe.queries import Atom, Query, Variable

X, Y = map(Variable, "xy")
QUERY = Query(Atom(X, "knows", Y, (("since", "1900"),)), (X, Y))


def row(x: str, y: str | None, known: bool = True, probability: float = 1.0) -> Answer:
    bindings = {"x": Binding("entity", x, x.upper()), "y": None if y is None else Binding("entity", y, y.upper())}
    return Answer(bindings, known, probability)


def answers(*rows: Answer, notes: tuple[str, ...] = (), known: int | None = None) -> Answers:
    counted = sum(one.known for one in rows)
    counts = Counts(counted if known is None else known, True, counted, len(rows) - counted)
    return Answers(QUERY, ("x", "y", "score"), rows, ("train",), counts, notes)


class Cells(HTMLParser):
    """Reads the tables of a page back: a list of texts for each row."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.feed(content)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= dict(attrs).keys()
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data):
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_answers_are_a_sequence():
    first, second = row("a", "b"), row("c", "d", known=False, probability=0.25)
    found = answers(first, second)
    assert (len(found), found[0], found[-1], found[:1], list(found)) == (2, first, second, (first,), [first, second])
    with pytest.raises(IndexError):
        found[2]
    assert not answers()


def test_a_notebook_shows_known_and_predicted_rows_apart():
    found = Cells(answers(row("a", "b"), row("a", None), row("c", "d", known=False, probability=0.256))._repr_html_())
    assert found.rows == [
        ["?x", "?y", "probability"],
        ["known: 2"],
        ["A", "B", ""],
        ["A", "", ""],
        ["predicted: 1"],
        ["C", "D", "0.26"],
    ]


def test_no_text_of_a_graph_becomes_markup():
    evil = '<img src=x onerror="alert(1)">'
    parsed = Cells(answers(row(evil, 'b" onclick="x'), notes=(f"note {evil}",))._repr_html_())
    assert set(parsed.tags) == {"table", "thead", "tbody", "tr", "th", "td", "p"}
    assert parsed.attributes == {"class", "colspan", "style", "title"}
    assert parsed.rows[2][0] == evil.upper()


def test_a_long_table_says_how_much_it_shows():
    rows = [row(f"a{number}", "b") for number in range(SHOWN + 5)]
    found = Cells(answers(*rows, known=500)._repr_html_())
    assert found.rows[1] == [f"known: {SHOWN} of 500"]
    assert len(found.rows) == 1 + 2 + SHOWN

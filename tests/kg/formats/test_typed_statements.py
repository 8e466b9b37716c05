import csv
from collections import Counter
from functools import partial

import pytest

from starqe.errors import InputError
from starqe.kg import Statement
from starqe.kg import import_graph as import_with_literals
from starqe.kg import literal as types
from starqe.kg.formats.typed_statements import read_typed_statements
from starqe.kg.literal import Literal
from starqe.kg.reading.import_task import ImportTask
from tests.places import DATA

import_graph = partial(import_with_literals, literals="drop")  # tests/kg/test_literals.py has what is kept


HN_YG = DATA / "hn-yg"
TEXT = (
    "4\n"
    'Leicester\thasArea\t"73.32"^^<km2>\n'
    'Spacek\tbornOn\t"949-12-25"^^xsd:date\toccursSince\t"949-12-25"^^xsd:date\n'
    'Caan\tisCitizenOf\tUnited_States\toccursSince\t"1949-12-25"^^xsd:date\tplace\tBronx\n'
    'Caan\tsaid\t"hello "you""@en-US\n'
)


def rows_of(path):
    rows = []

    class Task(ImportTask):
        def add(self, more, split):
            rows.extend(more)

    read_typed_statements(Task(), path, "train")
    return rows


def test_types_units_and_languages_are_read(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    born, since = Literal("0949-12-25", types.DATE), Literal("1949-12-25", types.DATE)
    assert rows_of(path) == [
        ["Leicester", "hasArea", Literal("73.32", types.DECIMAL, unit="km2")],
        ["Spacek", "bornOn", born, "occursSince", born],
        ["Caan", "isCitizenOf", "United_States", "occursSince", since, "place", "Bronx"],
        ["Caan", "said", Literal('hello "you"', types.LANGUAGE_STRING, "en-US")],
    ]
    graph, report = import_graph(path)
    assert list(graph.statements("train")) == [Statement("Caan", "isCitizenOf", "United_States", (("place", "Bronx"),))]
    assert report.left_out == {
        "xsd:decimal": {"hasArea": 1},
        "xsd:date": {"bornOn": 1, "occursSince": 1},
        "rdf:langString": {"said": 1},
    }
    assert report.forms == {"typed-statements": 1}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT.replace("4\n", "5\n"), r"a.txt:1: the first line is the number of statements \(5\), found 4. Was the file cut off\?"),
        (TEXT.replace("4\n", "5\n") + "a\tb\n", "a.txt:6: a statement has 3 fields and then pairs, found 2 fields"),
        (TEXT.replace("4\n", "5\n") + "a\tb\t\n", "a.txt:6: an identifier is a line of text, found '': it is empty"),
    ],
)
def test_malformed_lines_are_refused_with_their_place_or_skipped(tmp_path, text, message):
    (tmp_path / "a.txt").write_text(text)
    with pytest.raises(InputError, match=message):
        import_graph(tmp_path / "a.txt")
    assert import_graph(tmp_path / "a.txt", on_error="skip")[1].skipped == 1


@pytest.mark.full
@pytest.mark.skipif(not HN_YG.is_dir(), reason="needs HN-YG")
def test_hn_yg_is_read_to_the_last_literal():
    for name in ("train", "valid", "test"):
        with (HN_YG / f"{name}.txt").open(encoding="utf-8", newline="") as file:
            count, *lines = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
        rows = rows_of(HN_YG / f"{name}.txt")
        assert len(rows) == len(lines) == int(count[0])
        marks = Counter(field.partition('"^^')[2] for line in lines for field in line[2::2] if field.startswith('"'))
        ours = Counter(f"<{value.unit}>" if value.unit else value.kind for row in rows for value in row[2::2] if isinstance(value, Literal))
        assert ours == marks
        assert [[value for value in row if isinstance(value, str)] for row in rows] == [
            [field for place, field in enumerate(line) if not (place >= 2 and place % 2 == 0 and field.startswith('"'))] for line in lines
        ]


@pytest.mark.full
@pytest.mark.skipif(not HN_YG.is_dir(), reason="needs HN-YG")
def test_hn_yg_becomes_a_graph_with_its_splits():
    graph, report = import_graph(HN_YG)
    assert report.forms == {"typed-statements": 3}
    assert {split: len(graph.known([split])) > 0 for split in ("train", "valid", "test")} == dict.fromkeys(("train", "valid", "test"), True)
    assert set(report.literals) == {"xsd:date", "xsd:integer", "xsd:decimal"}

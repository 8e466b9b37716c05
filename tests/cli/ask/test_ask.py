"""`starqe ask`: in one go, and as a conversation on a real terminal."""

import csv
import io
import json
import sys
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from starqe.cli.ask.ask import _safe_csv, common_start
from starqe.cli.ask.reasons import shown_label
from starqe.cli.show import as_probability, print_json, print_pairs, print_table, say

Starqe = Callable[..., tuple[int, str, str]]

EINSTEIN = 'SELECT ?university { "Albert Einstein" "educated at" ?university }'
PUPILS = 'SELECT ?pupil ?advisor { ?pupil "doctoral advisor" ?advisor . ?advisor "educated at" "University of Cambridge" }'


def cells(printed: str) -> list[list[str]]:
    """Returns the rows of the table that was printed: cells stand at least three spaces apart."""
    return [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in printed.splitlines() if line.strip()]


def test_known_answers_are_marked_and_come_before_predicted_ones(starqe: Starqe, askable_run: Path) -> None:
    code, out, err = starqe("ask", askable_run, EINSTEIN, "--top", 4)
    assert (code, err) == (0, "")
    table = [row for row in cells(out) if len(row) == 4]
    assert table[0] == ["answer", "identifier", "status", "probability"]
    assert table[1:3] == [["ETH Zurich", "ETHZurich", "known", "-"], ["University of Zurich", "UniversityOfZurich", "known", "-"]]
    assert [row[2] for row in table[3:]] == ["predicted"] * 4
    assert all(0 <= float(row[3].lstrip("<>")) <= 1 for row in table[3:])
    assert out.rstrip().endswith("2 known (by train, valid, test), 4 predicted: a model's guess, not a fact")


def test_numbers_are_aligned(starqe: Starqe, askable_run: Path) -> None:
    _, out, _ = starqe("ask", askable_run, EINSTEIN, "--top", 5)
    lines = [line.rstrip() for line in out.splitlines() if " known " in line or " predicted " in line]
    assert len({len(line) for line in lines[:5]}) == 1


def test_json_has_columns_answers_and_what_counts_as_known(starqe: Starqe, askable_run: Path) -> None:
    _, out, _ = starqe("ask", askable_run, EINSTEIN, "--top", 1, "--json", "--explain")
    found = json.loads(out)
    assert found["columns"] == ["university"]
    assert found["known_splits"] == ["train", "valid", "test"]
    assert found["answers"][0] == {"university": "ETHZurich", "label": "ETH Zurich", "known": True, "probability": 1.0}
    assert [one["answer"]["entity"] for one in found["explanations"]] == [one["university"] for one in found["answers"]]
    assert found["explanations"][0]["reasons"][0]["statements"][0]["tail"] == "ETHZurich"


def test_csv_has_one_line_per_answer(starqe: Starqe, askable_run: Path) -> None:
    _, out, _ = starqe("ask", askable_run, EINSTEIN, "--top", 3, "--csv")
    rows = list(csv.DictReader(io.StringIO(out)))
    assert list(rows[0]) == ["university", "label", "known", "probability"]
    assert [row["known"] for row in rows] == ["True", "True", "False", "False", "False"]


def test_without_a_number_only_probable_guesses_are_shown(starqe: Starqe, askable_run: Path) -> None:
    _, out, _ = starqe("ask", askable_run, EINSTEIN, "--threshold", 1)
    assert out.rstrip().endswith("0 predicted with a probability of 1 or more. --top 5 shows the best guesses")
    _, out, _ = starqe("ask", askable_run, EINSTEIN, "--threshold", 0)
    assert out.rstrip().endswith("100 predicted with a probability of 0 or more: a model's guess, not a fact")


def test_limit_counts_as_a_number(starqe: Starqe, askable_run: Path) -> None:
    _, out, _ = starqe("ask", askable_run, f"{EINSTEIN} LIMIT 3")
    assert out.rstrip().endswith("2 known (by train, valid, test), 1 predicted: a model's guess, not a fact")


def test_counts_tell_what_is_shown_from_what_there_is(starqe: Starqe, askable_run: Path) -> None:
    question = 'SELECT ?who { ?who "educated at" "University of Cambridge" }'  # 33 rows
    _, out, _ = starqe("ask", askable_run, question, "--known-only", "--json", "--top", 1000)
    total = json.loads(out)["counts"]["known"]
    assert len(json.loads(out)["answers"]) == total > 20
    _, out, _ = starqe("ask", askable_run, question, "--top", 5)
    assert f"5 of {total} known (by train, valid, test), 5 predicted: a model's guess, not a fact" in out
    _, out, _ = starqe("ask", askable_run, question, "--threshold", 1)
    assert f"20 of {total} known (by train, valid, test); --top {total} shows all, 0 predicted" in out


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0.00"), (0.004, "<0.01"), (0.005, "0.01"), (0.22, "0.22"), (0.996, ">0.99"), (1.0, "1.00")]
)
def test_a_probability_is_never_rounded_to_what_it_is_not(value: float, text: str) -> None:
    assert as_probability(value) == text


def test_labels_never_command_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(("answer",), [["\x1b[31mred\x9b2J\x07"]])
    say("\x1b]0;title\x07 two\nlines")
    print_pairs({"na\x9bme": "val\x1bue"}, "ti\x1btle")
    print_json({"label": "\x9b2J\x7f\x1b"})
    say("\x1bnote", error=True)
    out, err = capsys.readouterr()
    assert err == "\ufffdnote\n"
    assert "\\u009b2J\\u007f\\u001b" in out
    assert not [c for c in out if c != "\n" and unicodedata.category(c) == "Cc"]
    assert "red" in out
    assert " two\nlines" in out


def test_csv_cells_are_not_formulas() -> None:
    assert _safe_csv('x,label\n=1+1,"a, ""b"""\n@sum,\x1b[31m\n') == 'x,label\n\'=1+1,"a, ""b"""\n\'@sum,\ufffd[31m\n'


def test_known_only_says_nothing_of_predictions(starqe: Starqe, askable_run: Path) -> None:
    _, out, _ = starqe("ask", askable_run, EINSTEIN, "--known-only")
    assert "predicted" not in out
    assert out.rstrip().endswith("2 known (by train, valid, test)")


def test_splits_decide_what_is_known(starqe: Starqe, askable_run: Path) -> None:
    marie = 'SELECT ?prize { "Albert Einstein" "award received" ?prize }'  # one in train, one in valid, one in test
    counts = []
    for splits in ("train", "train,valid", "train,valid,test"):
        _, out, _ = starqe("ask", askable_run, marie, "--known-only", "--splits", splits, "--json")
        counts.append(len(json.loads(out)["answers"]))
        assert json.loads(out)["known_splits"] == splits.split(",")
    assert counts == [1, 2, 3]
    code, _, err = starqe("ask", askable_run, marie, "--splits", "train,dev")
    assert code == 1
    assert "splits are one or more of train, valid, test" in err


def test_further_variables_are_shown_by_their_labels(starqe: Starqe, askable_run: Path) -> None:
    _, out, _ = starqe("ask", askable_run, PUPILS, "--known-only")
    header, first = (row for row in cells(out) if row[0] in ("?pupil", "Dennis Sciama"))
    assert header == ["?pupil", "?advisor", "status", "probability"]
    assert first == ["Dennis Sciama", "Paul Dirac", "known", "-"]


def test_an_explanation_lists_facts_and_predictions(starqe: Starqe, askable_run: Path) -> None:
    _, out, _ = starqe("ask", askable_run, EINSTEIN, "--top", 2, "--explain")
    assert "ETH Zurich: known\n  fact           Albert Einstein - educated at - ETH Zurich\n" in out
    assert out.count("\n  predicted ") == 1
    assert out.count("the model's score for the whole question: ") == 1
    assert out.count("A prediction is not a fact.") == 1


def test_the_pairs_of_a_predicted_statement_are_weighed(starqe: Starqe, askable_run: Path) -> None:
    question = 'SELECT ?x { "Marie Curie" "educated at" ?x {| "academic degree" "Bachelor of Science" |} }'
    _, out, _ = starqe("ask", askable_run, question, "--top", 1, "--explain")
    assert "(academic degree: Bachelor of Science)\n      academic degree: Bachelor of Science contributed " in out


def test_a_question_comes_from_a_file_or_from_standard_input(
    starqe: Starqe, askable_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = starqe("ask", askable_run, EINSTEIN, "--csv")
    (tmp_path / "question.rq").write_text(EINSTEIN.replace(" {", "\n{  # where?\n"), encoding="utf-8")
    assert starqe("ask", askable_run, tmp_path / "question.rq", "--csv") == expected
    for arguments in (["-"], []):
        monkeypatch.setattr(sys, "stdin", io.StringIO(EINSTEIN))
        assert starqe("ask", askable_run, *arguments, "--csv") == expected


def test_an_ambiguous_label_lists_what_it_can_mean(starqe: Starqe, askable_run: Path) -> None:
    code, out, err = starqe("ask", askable_run, 'SELECT ?who { ?who "educated at" ?school . ?school "located in" "Cambridge"@en }')
    assert (code, out) == (1, "")
    assert err == (
        "starqe: 'Cambridge' names 2 entities (line 1, column 65). Write the identifier of one: "
        '"Cambridge", "CambridgeMassachusetts" (Cambridge)\n'
    )


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("SELECT ?x {\n  e:Ulm r:country }", "line 2, column 19"),
        ("SELECT ?x {\n  SERVICE <urn:x> { e:Ulm r:country ?x } }", "line 2, column 3"),
    ],
)
def test_a_text_that_cannot_be_read_is_exit_code_1_with_its_place(starqe: Starqe, askable_run: Path, text: str, place: str) -> None:
    code, out, err = starqe("ask", askable_run, text)
    assert (code, out) == (1, "")
    assert place in err


def test_a_text_that_is_too_long_for_a_file_name_is_a_text(starqe: Starqe, askable_run: Path) -> None:
    code, _, err = starqe("ask", askable_run, "SELECT ?x " * 1000)
    assert code == 1
    assert "line 1, column 11" in err


def test_a_folder_that_is_not_a_run_is_refused(starqe: Starqe, tmp_path: Path) -> None:
    code, out, err = starqe("ask", tmp_path, EINSTEIN)
    assert (code, out) == (1, "")
    assert "not a run folder" in err


def test_the_common_start_of_iris_is_shown_once() -> None:
    assert common_start(["http://a.example/x/Q1", "http://a.example/x/Q2"]) == "http://a.example/x/"
    assert common_start(["http://a.example/x#Q1"]) == "http://a.example/x#"
    assert common_start(["http://a.example/x/Q1", "http://a.example/y/Q2"]) == ""
    assert common_start(["http://a.example/x/Q1", "_:b"]) == ""
    assert common_start([]) == ""
    assert [shown_label(label) for label in ("http://a.example/x/Q1", "http://a.example", "ratio a/b", "note: see http://a/b")] == [
        "Q1",
        "http://a.example",
        "ratio a/b",
        "note: see http://a/b",
    ]


def test_names_between_colons_are_not_taken_for_pictures(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name"], [["urn:book:17"]])
    assert "urn:book:17" in capsys.readouterr().out


@pytest.mark.parametrize("more", [["--json"], ["--explain"]])
def test_rows_alone_are_not_asked_for_more(starqe: Starqe, askable_run: Path, more: list[str]) -> None:
    assert starqe("ask", askable_run, "SELECT ?x { ?x r:country e:Germany }", "--csv", *more)[0] == 2


def test_probabilities_fitted_on_one_statement_are_marked_wherever_they_are_shown(starqe: Starqe, six_statements_run: Path) -> None:
    query = 'SELECT ?x { "a" "knows" ?x }'
    _, out, _ = starqe("ask", six_statements_run, query, "--top", 4, "--explain")
    assert cells(out)[0] == ["answer", "status", "probability (not calibrated)"]
    assert "the probabilities are not calibrated: they were fitted on 1 validation statements" in out
    assert "predicted, probability (not calibrated) 0." in out
    assert not [line for line in out.splitlines() if line.startswith("  predicted") and "(not calibrated)" not in line]
    _, out, _ = starqe("ask", six_statements_run, query, "--top", 4, "--json", "--explain")
    found = json.loads(out)
    assert found["calibrated"] is False
    assert {one["calibrated"] for one in found["explanations"] if not one["answer"]["known"]} == {False}
    _, out, err = starqe("ask", six_statements_run, query, "--top", 4, "--csv")
    assert out.startswith("x,label,known,probability\n")
    assert "not calibrated" in err


def test_nothing_is_marked_where_nothing_is_predicted_or_the_data_was_enough(
    starqe: Starqe, six_statements_run: Path, askable_run: Path
) -> None:
    assert "not calibrated:" not in starqe("ask", six_statements_run, 'SELECT ?x { "a" "knows" ?x }', "--known-only")[1]
    assert "calibrated" not in starqe("ask", askable_run, EINSTEIN, "--top", 4, "--explain")[1]
    assert json.loads(starqe("ask", askable_run, EINSTEIN, "--top", 4, "--json")[1])["calibrated"] is True


UNION = """PREFIX p: <https://starqe.example/science/relation/>
SELECT ?who { { ?who p:bornIn ?x } UNION { ?who p:diedIn ?x } } ORDER BY ?who LIMIT 2"""


def test_a_form_that_is_not_predicted_is_answered_from_known_facts(starqe: Starqe, askable_run: Path) -> None:
    _, shown, _ = starqe("ask", askable_run, UNION)
    assert "?who" in shown
    assert "2 rows" in shown
    assert "known facts only (by train, valid, test); nothing is predicted: ORDER BY" in shown
    _, out, _ = starqe("ask", askable_run, UNION, "--json")
    found = json.loads(out)
    assert (found["columns"], len(found["rows"]), found["complete"]) == (["who"], 2, True)
    assert "nothing is predicted" in found["notes"][0]
    _, out, err = starqe("ask", askable_run, UNION, "--csv")
    assert out.splitlines() == ["who", *(row["who"]["value"] for row in found["rows"])]
    assert "nothing is predicted" in err


def test_a_misspelled_name_in_a_count_is_pointed_out(starqe: Starqe, askable_run: Path) -> None:
    _, shown, _ = starqe("ask", askable_run, 'SELECT (COUNT(*) AS ?n) { ?who "place of birth" "Vienna town" }')
    assert "no entity of this graph is called 'Vienna town'" in shown


def test_ask_is_answered_yes_or_no_and_construct_by_triples(starqe: Starqe, askable_run: Path) -> None:
    assert starqe("ask", askable_run, "ASK { ?s ?p ?o }")[1].startswith("yes\n")
    assert starqe("ask", askable_run, "ASK { ?s <urn:nothing> ?o } ORDER BY ?s")[1].startswith("no\n")
    code, _, err = starqe("ask", askable_run, "ASK { ?s <urn:nothing> ?o }")
    assert (code, "there is no relation 'urn:nothing'" in err) == (1, True)
    _, shown, _ = starqe("ask", askable_run, "ASK { e:Ulm r:bornIn e:Bern }")
    assert shown.startswith("not known; probability ")
    assert "0.5 or more" not in shown  # nothing is counted, whatever the probability
    _, shown, _ = starqe("ask", askable_run, "CONSTRUCT { ?s <urn:p> ?o } { ?s ?p ?o } LIMIT 1")
    assert "<urn:p>" in shown.splitlines()[0]

import bz2
import dataclasses
import gzip
import zipfile
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given

from starqe.errors import InputError, StorageError
from starqe.kg import Draft, Graph, Report, Statement, export_graph, graph_of, import_graph
from starqe.kg.formats.statements import write_statements
from tests.kg.strategies import graphs

ONE, TWO = Statement("a", "r", "b"), Statement("a", "r", "c", (("q", "v"), ("q", "w")))
CLEAN = Report(forms=Counter(statements=1))
COMMA = " Or is a comma part of a name? Put such names in quotation marks"
PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de")


def read(tmp_path: Path, content: bytes | str, name: str = "file.txt", **options) -> tuple[Graph, Report]:
    path = tmp_path / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return import_graph(path, **options)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    "text",
    [
        "a,r,b\na,r,c,q,v,q,w\n",
        "a,r,b\na,r,c,q,v,q,w",
        "a\tr\tb\na\tr\tc\tq\tw\tq\tv\n",
        "a,r,b\r\na,r,c,q,v,q,w\r\n",
        "\n\na,r,b\n \na,r,c,q,v,q,w\n\n",
        "\t\na\tr\tb\n\t\t\na\tr\tc\tq\tw\tq\tv\n",
        " a , r,b \na,r,c,\tq,v,q,w\n",
        "\ufeffa,r,b\na,r,c,q,v,q,w\n",
    ],
)
def test_one_statement_per_line_with_commas_or_tabs(tmp_path, text):
    graph, report = read(tmp_path, text)
    assert list(graph.statements("train")) == [ONE, TWO]
    assert report == CLEAN


@pytest.mark.parametrize("separator", [",", "\t"])
@pytest.mark.parametrize("extension", [".txt", ".csv", ".tsv"])
def test_the_separator_is_detected_by_the_text_and_not_by_the_name(tmp_path, separator, extension):
    graph, _ = read(tmp_path, separator.join(TWO.fields()), f"file{extension}")
    assert list(graph.statements("train")) == [TWO]


def test_a_header_word_elsewhere_is_an_identifier_like_any_other(tmp_path):
    statements = [Statement("head", "relation", "b"), Statement("a", "r", "b"), Statement("head", "relation", "tail")]
    graph, _ = read(tmp_path, "".join(",".join(one.fields()) + "\n" for one in statements))
    assert set(graph.statements("train")) == set(statements)


def test_commas_follow_the_rules_of_csv(tmp_path):
    text = 'a,r,b\r\n"Rome, Italy","r","say ""ciao"""\r\n"Q1" , r ,"x"\r\n a, "r, s", "b" ,"q,q","v"\r\na,5" disc,b\r\n'
    graph, report = read(tmp_path, text.replace('"Q1" ', '"Q1"').replace('"b" ', '"b"'))
    assert set(graph.statements("train")) == {
        ONE,
        Statement("Rome, Italy", "r", 'say "ciao"'),
        Statement("Q1", "r", "x"),
        Statement("a", "r, s", "b", (("q,q", "v"),)),
        Statement("a", '5" disc', "b"),
    }
    assert report == CLEAN


def test_a_file_that_is_quoted_throughout_gives_the_graph_of_the_plain_file(tmp_path):
    rows = [
        [f"e{number % 7}", f"r{number % 3}", f"e{number % 11}", *(["q", f"v{number % 2}"] if number % 2 else [])] for number in range(200)
    ]
    plain, _ = read(tmp_path, "".join(",".join(row) + "\n" for row in rows))
    quoted, _ = read(tmp_path, "".join(",".join(f'"{field}"' for field in row) + "\n" for row in rows), "quoted.csv")
    assert quoted.fingerprint == plain.fingerprint


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            '"Rome, Italy,r,b',
            "a field in quotation marks ends on its line, found '\"Rome, Italy,r,b'. A quotation mark in a name is doubled",
        ),
        ('"Rome" Italy,r,b', "a field in quotation marks ends at its mark (',' expected after '\"'), found"),
        ('a,r,""', "an identifier is a line of text, found '': it is empty"),
        ('a,r,"b",q', "a statement has 3 fields and then pairs, found 4 fields"),
    ],
)
def test_quotation_marks_that_break_the_rules_are_refused_with_their_line(tmp_path, line, message):
    with pytest.raises(InputError) as caught:
        read(tmp_path, f'a,r,b\n"a",r,c\n{line}\na,r,d\n')
    assert str(caught.value).startswith(f"{tmp_path}/file.txt:3: {message}")


def test_a_name_over_several_lines_is_one_problem_and_makes_no_statement(tmp_path):
    graph, report = read(tmp_path, 'a,r,b\n"New\nYork",r,b\n"a",r,"c"\n', on_error="skip")
    assert set(graph.statements("train")) == {ONE, Statement("a", "r", "c")}
    assert report.skipped == 1


def test_of_several_problems_the_first_line_is_named(tmp_path):
    with pytest.raises(InputError, match=r"file.txt:2: a statement has 3 fields"):
        read(tmp_path, 'a,r,b\na,r\n"open,r,b\n')


def test_with_tabs_a_quotation_mark_is_a_part_of_an_identifier(tmp_path):
    kept = [Statement('"Heroes"', "r", 'a 5" disc'), Statement('"half', "r", "b")]
    graph, _ = read(tmp_path, "".join("\t".join(one.fields()) + "\n" for one in kept))
    assert set(graph.statements("train")) == set(kept)
    assert list(graph.statements("train")) == list(import_graph(write_statements(graph, tmp_path / "out")[0])[0].statements("train"))


@pytest.mark.parametrize("separator", [",", "\t"])
def test_an_iri_in_angle_brackets_loses_them(tmp_path, separator):
    graph, _ = read(tmp_path, separator.join(["<http://example.org/a>", "<urn:r>", "<b>", "<q>", "<not an:iri>"]))
    assert list(graph.statements("train")) == [Statement("http://example.org/a", "urn:r", "<b>", (("<q>", "<not an:iri>"),))]


def test_names_with_unquoted_commas_are_noticed_by_qualifier_relations_that_occur_once(tmp_path):
    text = "Ada,livesIn,London\nBob,livesIn,Washington, D.C., USA\n"
    _, report = read(tmp_path, text)
    assert report.notes == [
        f"1 of 1 qualifier relations occur only once, such as 'D.C.' ({tmp_path}/file.txt:2): is a comma part of a name there? "
        "Put such names in quotation marks"
    ]
    once = "".join(f"e{number},r,e1,q{number},e2\n" for number in range(4))
    assert "4 of 4 qualifier relations occur only once, such as 'q0' (" in read(tmp_path, once)[1].notes[0]
    assert read(tmp_path, once.replace(",", "\t"))[1].notes == []  # a tab is no part of a name
    assert read(tmp_path, once + once.replace("r,e1", "r,e3"))[1].notes == []  # each occurs twice


def test_numbers_that_became_entities_are_counted_unless_they_are_identifiers(tmp_path):
    _, report = read(tmp_path, "Ada,born,1815\nAda,height,1.65\nAda,died,1852-11-27\nAda,knows,Bob\n")
    assert report.notes == [
        "3 numbers and dates became entities (such as '1.65', '1815', '1852-11-27'): a statement file cannot distinguish them from names. "
        "In RDF they are literals"
    ]
    assert read(tmp_path, "1,0,2\n2,0,3\n")[1].notes == []


@pytest.mark.full
def test_a_line_beyond_the_limit_is_refused_inside_a_block_too(tmp_path):
    text = b"a,r,b\n" * 1000 + b"a,r," + b"x" * 3 * 2**20 + b"\n" + b"a,r,b\n" * 1000
    with pytest.raises(InputError, match=r"file.txt:1001: a line has at most 1 MiB"):
        read(tmp_path, text)


def test_with_tabs_a_comma_is_a_part_of_an_identifier(tmp_path):
    graph, _ = read(tmp_path, "Rome, Italy\tr\tb\n")
    assert list(graph.statements("train")) == [Statement("Rome, Italy", "r", "b")]


COMPRESS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True)}


@pytest.mark.parametrize("extension", COMPRESS)
def test_files_may_be_compressed(tmp_path, extension):
    graph, _ = read(tmp_path, COMPRESS[extension](b"a,r,b\na,r,c,q,v,q,w\n"), f"file.txt{extension}")
    assert graph.fingerprint == graph_of([ONE, TWO]).fingerprint


@pytest.mark.full
def test_a_large_file_is_read_in_pieces_without_losing_a_line(tmp_path):
    count = 600_000  # 10 MB: two pieces
    lines = [f"e{number % 1000},r{number % 7},f{number}" for number in range(count)]
    counts = []
    graph, report = read(tmp_path, "\n".join(lines) + "\n", advance=counts.append)
    assert len(graph) == sum(counts) == count
    assert len(counts) > 1
    assert report == CLEAN
    lines[count - 2] = "broken"
    with pytest.raises(InputError, match=rf"file.txt:{count - 1}: "):
        read(tmp_path, "\n".join(lines))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a,r", "a statement has 3 fields and then pairs, found 2. Is the separator a tab, or the file in another format?"),
        ("a b c", "a statement has 3 fields and then pairs, found 1. Is the separator a tab, or the file in another format?"),
        ("a,r,b,q", "a statement has 3 fields and then pairs, found 4 fields. Is a qualifier value missing?" + COMMA),
        ("a,r,b,q,v,q", "a statement has 3 fields and then pairs, found 6 fields. Is a qualifier value missing?" + COMMA),
        ("a,,b", "an identifier is a line of text, found '': it is empty"),
        ("a,r,b,q, ", "an identifier is a line of text, found '': it is empty"),
        (",,", "an identifier is a line of text, found '': it is empty"),
        ("a,r,b\x00b", r"an identifier is a line of text, found 'b\x00b': it contains a control character or a line break"),
        ("a,r,b\rb", r"an identifier is a line of text, found 'b\rb': it contains a control character or a line break"),
        ("a,r,\ufeffb", r"an identifier is a line of text, found '\ufeffb': it contains a control character or a line break"),
    ],
)
def test_a_malformed_line_is_refused_with_its_file_and_number(tmp_path, line, message):
    with pytest.raises(InputError) as caught:
        read(tmp_path, f"x,r,y\n\n{line}\nx,r,z\n")
    assert str(caught.value) == f"{tmp_path}/file.txt:3: {message} (the option on-error skip leaves such statements out and counts them)"


def test_a_tab_too_many_is_not_passed_over(tmp_path):
    for line in ("\ta\tr\tb", "a\tr\tb\t"):
        with pytest.raises(InputError, match=r"file.txt:2: a statement has 3 fields and then pairs, found 4 fields"):
            read(tmp_path, f"a\tr\tb\n{line}\n")


def test_an_error_repeats_only_the_beginning_of_a_long_field(tmp_path):
    with pytest.raises(InputError) as caught:
        read(tmp_path, "a,r," + "x" * 100_000 + "\x01\n")
    assert len(str(caught.value)) < 400


def test_malformed_lines_can_be_left_out_counted_and_the_first_ten_listed(tmp_path):
    lines = ["a,r,b", *["a,r"] * 12, "a,r,c,q,v,q,w", "a,r,b,q"]
    graph, report = read(tmp_path, "\n".join(lines), on_error="skip")
    assert list(graph.statements("train")) == [ONE, TWO]
    assert report.skipped == 13
    expected = "a statement has 3 fields and then pairs, found 2. Is the separator a tab, or the file in another format?"
    assert report.problems == [f"{tmp_path}/file.txt:{number}: {expected}" for number in range(2, 12)]


def test_a_file_of_which_nothing_is_left_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"file.txt: a graph has at least one statement, found none"):
        read(tmp_path, "a,r\nb,r\n", on_error="skip")


@pytest.mark.parametrize("on_error", ["stop", "skip"])
@pytest.mark.parametrize(
    ("content", "line", "byte"),
    [
        ("a,r,b\nZürich,r,b\n".encode("latin-1"), 2, "fc"),
        ("a,r,b\n".encode("utf-16"), 1, "ff"),
        (PNG, 1, "89"),
        (b"a,r,b\n" + b"\xed\xa0\x80,r,b\n", 2, "ed"),  # half a surrogate pair
    ],
    ids=["latin-1", "UTF-16", "PNG", "surrogate"],
)
def test_text_that_is_not_utf8_is_refused_also_if_errors_are_skipped(tmp_path, content, line, byte, on_error):
    with pytest.raises(InputError) as caught:
        read(tmp_path, content, on_error=on_error)
    assert str(caught.value) == (
        f"{tmp_path}/file.txt:{line}: text is UTF-8, found the byte 0x{byte}. Convert the file, or is it in another format?"
    )


def test_utf16_without_a_mark_is_refused_for_its_zero_bytes(tmp_path):
    with pytest.raises(InputError, match=r"file.txt:1: an identifier is a line of text, found 'a\\x00': it contains a control character"):
        read(tmp_path, "a,r,b\nb,r,c\n".encode("utf-16-le"))


def test_a_zip_file_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "file.txt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("train.txt", "".join(f"a{number * 7919 % 1009},r,b\n" for number in range(2000)))
    with pytest.raises(InputError, match=r"file.txt:\d+: .*in another format\?"):
        import_graph(tmp_path / "file.txt")


@pytest.mark.parametrize("content", [b"", b"\n", b" \n\t\n", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("extension", COMPRESS)
def test_an_empty_file_is_refused(tmp_path, content, extension):
    with pytest.raises(InputError, match=r"file.txt\S*: a statement file has one statement per line, found an empty file"):
        read(tmp_path, COMPRESS[extension](content), f"file.txt{extension}")


def test_labels_beside_the_file_are_picked_up(tmp_path):
    (tmp_path / "labels.tsv").write_text("\ufeffa\tA a\n\na\tdas A\tde\r\nr\tis for\ten\nnobody\tx\n", newline="")
    graph, report = read(tmp_path, "a,r,b\n")
    assert graph.entities.labels == {"": {0: "A a"}, "de": {0: "das A"}}
    assert graph.relations.labels == {"en": {0: "is for"}}
    assert report.idle_labels == 1


@pytest.mark.parametrize(("line", "count"), [("a", 1), ("a\tA\ten\tx", 4), ("\tA", 2), ("a\t ", 2)])
def test_a_malformed_label_is_refused_or_skipped_with_its_line(tmp_path, line, count):
    # A line separator in a label is no line end of the file.
    (tmp_path / "labels.tsv").write_text(f"b\tB\u2028B\n{line}\nr\tR\n")
    message = f"{tmp_path}/labels.tsv:2: a label line is identifier, tab, label (tab, language), found {count} fields"
    with pytest.raises(InputError) as caught:
        read(tmp_path, "a,r,b\n")
    assert str(caught.value).startswith(message)
    graph, report = read(tmp_path, "a,r,b\n", on_error="skip")
    assert report.problems == [message]
    assert graph.relations.label(0) == "R"


@pytest.mark.full
@given(graphs())
def test_statement_files_written_and_read_again_give_the_same_graph(tmp_path_factory, graph):
    folder = tmp_path_factory.mktemp("statements") / "out"
    write_statements(graph, folder)
    again, report = import_graph(folder)
    assert again.fingerprint == graph.fingerprint
    assert dataclasses.replace(report, notes=[], forms=Counter()) == Report()
    for ours, theirs in ((graph.entities, again.entities), (graph.relations, again.relations)):
        one_line = {tag: {id_: " ".join(label.split()) for id_, label in by_id.items()} for tag, by_id in ours.labels.items()}
        kept = {tag: {id_: label for id_, label in by_id.items() if label} for tag, by_id in one_line.items()}
        assert theirs.labels == {tag: by_id for tag, by_id in kept.items() if by_id}


def test_an_export_is_a_file_for_each_split_there_is(tmp_path):
    graph = graph_of([ONE], test=[TWO])
    assert [path.name for path in export_graph(graph, tmp_path / "out")] == ["test.txt", "train.txt"]
    assert (tmp_path / "out" / "train.txt").read_text() == "a,r,b\n"
    assert (tmp_path / "out" / "test.txt").read_text() == "a,r,c,q,v,q,w\n"
    assert names(tmp_path) == ["out"]


def test_identifiers_with_commas_are_exported_with_tabs(tmp_path):
    write_statements(graph_of([Statement("a,b", "r", "c")]), tmp_path / "out")
    assert names(tmp_path / "out") == ["train.tsv"]
    assert (tmp_path / "out" / "train.tsv").read_text() == "a,b\tr\tc\n"


def test_labels_are_exported_one_line_each(tmp_path):
    draft = Draft()
    draft.add([["a", "r", "b"]], "train")
    for identifier, text, language in (("a", "An  A\nof mine", "en"), ("b", " \n ", "en"), ("r", "R", "")):
        draft.label(identifier, text, language)
    write_statements(draft.finish(), tmp_path / "out")
    assert (tmp_path / "out" / "labels.tsv").read_text() == "a\tAn A of mine\ten\nr\tR\n"


def test_an_export_replaces_an_earlier_export_and_nothing_else(tmp_path):
    write_statements(graph_of([ONE]), tmp_path / "out")
    with pytest.raises(StorageError, match="exists already"):
        write_statements(graph_of([TWO]), tmp_path / "out")
    write_statements(graph_of([TWO]), tmp_path / "out", overwrite=True)
    assert (tmp_path / "out" / "train.txt").read_text() == "a,r,c,q,v,q,w\n"
    (tmp_path / "out" / "thesis.doc").touch()
    with pytest.raises(StorageError, match=r"out is not replaced: it holds 'thesis.doc', which is not part of an export"):
        write_statements(graph_of([ONE]), tmp_path / "out", overwrite=True)
    assert names(tmp_path / "out") == ["thesis.doc", "train.txt"]


def test_many_malformed_lines_are_left_out_in_time_that_grows_with_their_number(tmp_path, monkeypatch):
    sums, cumsum = [], np.cumsum

    def counted(values, *arguments, **options):
        sums.append(len(values))
        return cumsum(values, *arguments, **options)

    monkeypatch.setattr(np, "cumsum", counted)
    (tmp_path / "facts.txt").write_text("a,r,b\n" + "x\n" * 1_000)
    graph, report = import_graph(tmp_path / "facts.txt", on_error="skip")
    assert (len(graph), report.skipped) == (1, 1_000)
    assert sum(sums) < 20_000

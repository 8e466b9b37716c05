import io
import re
from collections.abc import Iterator

import pytest
from pyoxigraph import RdfFormat

from starqe.errors import InputError
from starqe.kg.rdf.parse import BLOCK, parse_rdf
from starqe.kg.reading.report import Report
from tests.kg.rdf.documents import SYNTAX


def lines(text: str | bytes, format_: str, report: Report | None = None) -> Iterator[str]:
    stream = io.BytesIO(text if isinstance(text, bytes) else text.encode())
    quads, _ = parse_rdf(stream, f"file.{format_}", SYNTAX[format_], report or Report())
    return (f"{quad.subject} {quad.predicate} {quad.object}" for quad in quads)


@pytest.mark.parametrize("on_error", ["stop", "skip"])
@pytest.mark.parametrize(("format_", "name"), [("turtle", "Turtle"), ("trig", "TriG")])
def test_an_error_in_a_document_names_the_line_and_cannot_be_skipped(on_error, format_, name):
    quads = lines("<a:a> <a:p> <a:b> .\n<a:a> x:p <a:b> .\n<a:a> <a:p> <a:c> .", format_, Report(on_error))
    assert next(quads) == "<a:a> <a:p> <a:b>"
    with pytest.raises(InputError, match=re.escape(f"file.{format_}:2: The prefix x: has not been declared. {name} cannot be read past")):
        list(quads)


@pytest.mark.parametrize("format_", ["ntriples", "nquads", "reification"])
@pytest.mark.parametrize("bad", ["<a:a> <a:p> .", "<a:a> <a:p x> <a:b> .", "nonsense", '<a:a> <a:p> "open .', "<a:a> <a:p> <a:b>"])
def test_a_malformed_line_is_named_and_costs_no_other(format_, bad):
    text = f"<a:a> <a:p> <a:b> .\n{bad}\n<a:a> <a:p> <a:c> .\n"
    with pytest.raises(InputError, match=rf"^file\.{format_}:2: (?!Parser error)"):
        list(lines(text, format_))
    report = Report("skip")
    assert list(lines(text, format_, report)) == ["<a:a> <a:p> <a:b>", "<a:a> <a:p> <a:c>"]
    assert report.skipped == 1


def test_a_malformed_line_far_into_a_file_has_its_number():
    many = [f"<a:a{number}> <a:p> <a:b> ." for number in range(1, 10_001)]
    many[7_776] = "<a:a> <a:p>"
    text = "\n".join(many)
    assert len(text) > 2 * BLOCK
    report = Report("skip")
    assert len(list(lines(text, "ntriples", report))) == 9_999
    assert report.problems[0].startswith("file.ntriples:7777: ")


def test_a_line_longer_than_a_block_is_read_whole():
    long = f'<a:a> <a:p> "{"x" * 3 * BLOCK}"'
    assert list(lines(f"{long} .\n<a:a> <a:p> <a:b> .", "ntriples")) == [long, "<a:a> <a:p> <a:b>"]


def test_text_that_is_not_utf8_is_an_error_of_its_line():
    with pytest.raises(InputError, match=r"file\.ntriples:2: .*UTF-8"):
        list(lines(b"<a:a> <a:p> <a:b> .\n<a:a> <a:p> <a:\xff> .\n", "ntriples"))


def test_an_error_of_the_stream_passes_through():
    class Limited:
        def read(self, size: int) -> bytes:
            raise InputError("a line is too long")

    for format_ in ("turtle", "trig", "ntriples", "nquads"):
        quads, _ = parse_rdf(Limited(), "file", SYNTAX[format_], Report("skip"))
        with pytest.raises(InputError, match=r"^a line is too long$"):
            list(quads)


@pytest.mark.parametrize("format_", ["turtle", "trig", "ntriples", "nquads"])
def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(format_):
    assert list(lines(b"\xef\xbb\xbf<a:a> <a:p> <a:b> .\r\n\r\n# end\r\n", format_)) == ["<a:a> <a:p> <a:b>"]


def test_labels_that_the_parser_invents_are_distinguished_from_written_ones():
    written = "abcdef0123456789abcdef0123456789"
    for padding in range(BLOCK - 50, BLOCK + 10):  # also where it stands across two blocks
        text = "#" * padding + f"\n_:{written} <a:p> _:x , [] ."
        quads, generated = parse_rdf(io.BytesIO(text.encode()), "file", RdfFormat.TURTLE, Report())
        one, two = quads
        assert [generated(node.value) for node in (one.subject, one.object, two.object)] == [False, False, True]

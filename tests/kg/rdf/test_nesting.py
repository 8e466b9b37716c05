import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from starqe.errors import InputError
from starqe.kg.iris import Names
from starqe.kg.rdf.nesting import MAX_DEPTH, NestingGuard
from starqe.kg.reading.report import Report
from tests.kg.rdf.documents import SYNTAX, read_document

NAMES = Names("e:", "r:")
RDF = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="a:"'
AWKWARD = f"""
<a:a> <a:p> "{"<<" * 300}" , '{"<<" * 300}' , "a \\" {"<<" * 300}" . # {"<<" * 300} " '
<a:a> <a:p> \"\"\" "{"<<" * 150}"" \\\"\"\"
{"<<" * 150} \"\"\" , ''' {"<<" * 300} \n \" ''' .
<a:#{"x" * 300}> <a:p#> <a:b> .
"""


def nested(depth: int) -> str:
    return "<a:a> <a:p> " + "<<( <a:a> <a:p> " * depth + "<a:b>" + " )>>" * depth + " .\n"


def feed(guard: NestingGuard, text: bytes, size: int) -> None:
    for start in range(0, len(text), size):
        guard.feed(text[start : start + size])


@pytest.mark.parametrize("form", ["turtle", "trig", "ntriples", "nquads", "n3"])
@pytest.mark.parametrize("depth", [MAX_DEPTH + 1, 100_000])
def test_triple_terms_nested_too_deeply_are_refused_before_they_crash_the_parser(form, depth):
    with pytest.raises(InputError, match=r"file\.\w+:2: triple terms are nested at most 100 deep, found more"):
        read_document("<a:a> <a:p> <a:b> .\n" + nested(depth), form, NAMES, Report("skip"))


@pytest.mark.parametrize("form", ["turtle", "ntriples"])
def test_as_deep_as_allowed_and_as_often_as_one_likes_is_read(form):
    text = "<a:a> <a:p> <a:b> .\n" + nested(MAX_DEPTH) * 40
    assert len(read_document(text, form, NAMES).draft) == 1


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 100_000])
def test_marks_in_strings_iris_and_comments_do_not_count_however_the_text_is_cut(size):
    text = (AWKWARD + nested(3)).encode() * 3
    assert b"\\" in text
    guard = NestingGuard("file", SYNTAX["turtle"])
    feed(guard, text, size)
    deep = (AWKWARD + nested(MAX_DEPTH + 1)).encode()
    guard = NestingGuard("file", SYNTAX["turtle"])
    with pytest.raises(InputError, match="found more"):
        feed(guard, deep, size)


def test_the_awkward_text_is_turtle():
    assert len(read_document(AWKWARD, "turtle", NAMES).draft) == 1


def test_a_nest_hidden_behind_a_long_string_at_the_end_of_a_block_is_found():
    text = b'<a:a> <a:p> "x" .\n' * 5000
    guard = NestingGuard("file", SYNTAX["turtle"])
    guard.feed(text + b'<a:a> <a:p> ""')
    with pytest.raises(InputError, match="found more"):
        guard.feed(b'" long """ . ' + nested(MAX_DEPTH + 1).encode() + b'<a:a> <a:p> """ """ .')


def test_elements_nested_too_deeply_are_refused():
    text = f"<rdf:RDF {RDF}>" + "<a:x><a:p>" * 100 + "</a:p></a:x>" * 100 + "</rdf:RDF>"
    with pytest.raises(InputError, match=r"file\.rdfxml:1: elements are nested at most 100 deep"):
        read_document(text, "rdfxml", NAMES)
    flat = f"<rdf:RDF {RDF}>" + '<a:x rdf:about="a:y"><!-- <a> --><a:p rdf:resource="a:z>"/></a:x>\n' * 300 + "</rdf:RDF>"
    read_document(flat.replace("a:z>", "a:z"), "rdfxml", NAMES)


TAGS = ["<a>", "</a>", "<b/>", '<c d="e">', '<c d="e"/>', '<c d="/>">', "<c d='>'>", "<c d='\"'/>", '<c d="\'">', '<c d="<">']
OTHERS = [
    "text",
    " > ",
    ' " ',
    "it's",
    "\n",
    "<!-- <a> -->",
    "<!-- ' -->",
    "<![CDATA[<a>]]>",
    "<?x <a>?>",
    "<",
    ">",
    "</",
    '<c d="',
    "'",
    "/>",
]


@given(st.lists(st.sampled_from(TAGS) | st.sampled_from(OTHERS), max_size=20), st.integers(1, 30))
@example(["<a>", '<c d="/>">', '<c d="/>">'], 30)
@example(["<c d='>'>", "<c d='>'>", "</a>"], 7)
@example(["<a>", '<c d="', '<c d="e">'], 2)
def test_tags_are_counted_in_arrays_as_one_by_one(parts, size):
    text = "".join(parts).encode()
    quick, slow = (NestingGuard("file", SYNTAX["rdfxml"]) for _ in range(2))
    feed(quick, text, size)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("starqe.kg.rdf.nesting._plain_elements", lambda _: None)
        feed(slow, text, size)
    assert room(quick) == room(slow)


def room(guard: NestingGuard) -> int | None:
    """Returns how many more elements may be nested; None if the text is within a tag or comment that does not end."""
    for more in range(1, MAX_DEPTH + 3):
        try:
            guard.feed(b"<z>\n")
        except InputError:
            return more
    return None


def test_entities_that_could_expand_without_end_are_refused():
    entities = '<!ENTITY a "aaaaaaaaaa">\n' + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(9))
    text = f'<!DOCTYPE r [{entities}]><rdf:RDF {RDF}><rdf:Description rdf:about="a:s"><a:p>&j;</a:p></rdf:Description></rdf:RDF>'
    with pytest.raises(InputError, match=r"file\.rdfxml:2: an entity has at most 1000 bytes and mentions no other, found '<!ENTITY b"):
        read_document(text, "rdfxml", NAMES)
    text = f'<!DOCTYPE r [<!ENTITY ex "a:">]><rdf:RDF {RDF}><a:x rdf:about="&ex;s"/></rdf:RDF>'
    assert len(read_document(text, "rdfxml", NAMES).draft) == 1


@pytest.mark.full
@pytest.mark.parametrize("form", ["turtle", "trig"])
@pytest.mark.parametrize("mark", ['"', '"""'])
def test_a_literal_beyond_the_room_of_the_parser_is_refused_with_its_place(form, mark):
    text = f"<a:a> <a:p> <a:b> .\n<a:a> <a:p> {mark}{'x' * (17 * 2**20)}{mark} ."
    with pytest.raises(InputError, match=rf"file\.{form}:2: a term has at most 16 MiB"):
        read_document(text, form, NAMES)


@pytest.mark.parametrize("form", ["turtle", "trig", "n3"])
@pytest.mark.parametrize("before", ["", "<a:a> <a:p> <a:b> .\n"])
def test_a_name_that_the_parser_would_take_long_for_is_refused(form, before):
    with pytest.raises(InputError, match=rf"file\.{form}:{2 if before else 1}: a name has at most 1 MiB, found a longer one"):
        read_document(f"{before}<a:a> a:{'x' * (3 * 2**19)} <a:b> .", form, NAMES)


@pytest.mark.parametrize("term", ["<a:{}>", '"{}"', '"""{}"""', "'{}'", "<a:b> . # {}\n"])
def test_a_term_that_is_no_name_may_be_longer(term):
    text = f"<a:s> <a:p> <a:o> , {term.format('x' * (3 * 2**19))} ."
    assert len(read_document(text.replace("\n .", "\n"), "turtle", NAMES).draft) >= 1


def test_many_names_without_a_space_are_no_long_name():
    text = "<a:s><a:p>" + ",".join(f"<a:o{number}>" for number in range(150_000)) + "."
    assert len(text) > 2**20
    assert len(read_document(text, "turtle", NAMES).draft) == 150_000

"""Random requests: from texts of the language, and from arbitrary bytes."""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, quote_from_bytes, urlencode

from hypothesis import strategies as st

from starqe.bench.serving import questions
from starqe.kg import embedded_graph
from starqe.serve.negotiation import FORMS
from tests.queries.sparql.test_read import MEANINGS
from tests.queries.sparql.test_syntax import REFUSED
from tests.serve.questions import PREFIXES, SCIENCE

DIRECT, FORM, JSON = "application/sparql-query", "application/x-www-form-urlencoded", "application/json"
ENTITIES = {"a": "AlbertEinstein", "b": "ETHZurich", "c": "UniversityOfZurich", "v": "BachelorOfScience", "w": "Physics", "u": "Ulm"}
RELATIONS = {"r": "educatedAt", "s": "employer", "q": "academicDegree", "p": "academicMajor"}


@dataclass(frozen=True)
class Sent:
    """One request: what kind of mischief it is, and all that goes over the wire."""

    kind: str
    method: str
    path: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    text: str | None = field(default=None, compare=False)
    """The query in it, if there is one."""


def of_embedded_graph(text: str) -> str:
    """Returns a text about the small graph of the tests of the language with names that the embedded graph has."""
    text = re.sub(r"<http://example\.org/r/(\w)>", lambda found: f"<{SCIENCE}relation/{RELATIONS[found[1]]}>", text)
    text = re.sub(r"<http://example\.org/(\w)>", lambda found: f"<{SCIENCE}{ENTITIES[found[1]]}>", text)
    text = re.sub(r"\br:([rsqp])\b", lambda found: f"p:{RELATIONS[found[1]]}", text)
    return re.sub(r"(?<![\w_]):([abcvwu])\b", lambda found: f":{ENTITIES[found[1]]}", text)


VALID = [PREFIXES + f"SELECT ?x {{ {of_embedded_graph(body)} }}" for body, _ in MEANINGS]
VALID += [text.replace("}", "} LIMIT 3 OFFSET 1", 1) for text in VALID[:2]]
VALID += [f'VERSION "1.2" BASE <{SCIENCE}> SELECT DISTINCT ?x ?score WHERE {{ ?x <relation/bornIn> <Ulm> }} VALUES ?z {{ }}']
VALID += ['SELECT ?x ?y { ?x "educated at"@en ?y . ?y "located in" "Zurich"^^<http://www.w3.org/2001/XMLSchema#string> } OFFSET 2']
E = ":AlbertEinstein"
WHOLE = [
    "SELECT * FROM <urn:g> FROM NAMED :g { ?x p:bornIn :Ulm }",
    "SELECT REDUCED ?x (COUNT(DISTINCT ?y) + 1 AS ?n) { ?x p:educatedAt ?y } GROUP BY ?x HAVING (?n > 1) ORDER BY DESC(?n) ?x LIMIT 5",
    "SELECT ?x (GROUP_CONCAT(?y; SEPARATOR = ',') AS ?all) { ?x p:educatedAt ?y } GROUP BY ?x (STR(?x) AS ?s) STRLEN(STR(?x))",
    "ASK { ?x p:bornIn :Ulm }",
    "CONSTRUCT { ?x p:bornIn ?y . ?y :of ?x } WHERE { ?x p:bornIn ?y } LIMIT 3",
    "CONSTRUCT WHERE { ?x p:bornIn ?y }",
    f"DESCRIBE {E} ?x WHERE {{ ?x p:bornIn :Ulm }}",
    "SELECT ?x { ?x p:bornIn :Ulm OPTIONAL { ?x p:educatedAt ?y } MINUS { ?x p:employer ?y } }",
    "SELECT ?x { { ?x p:bornIn :Ulm } UNION { ?x p:educatedAt :ETHZurich } UNION { ?x p:employer :ETHZurich } }",
    "SELECT ?x { { SELECT ?x { ?x p:bornIn ?y } LIMIT 2 } }",
    "SELECT ?x { SERVICE SILENT <urn:starqe:known> { ?x p:bornIn ?y } GRAPH ?g { ?x p:bornIn ?y } }",
    "SELECT ?x { ?x p:bornIn ?y FILTER (?x != ?y && ?y = :Ulm || ?x IN (:a, :b) || ?x NOT IN (:c)) }",
    "SELECT ?x { ?x p:bornIn ?y FILTER NOT EXISTS { ?x p:employer ?z } FILTER EXISTS { ?x p:educatedAt ?z } }",
    'SELECT ?x { ?x p:bornIn ?y FILTER (!BOUND(?z) && -1 < 2 * 3 / 4 + 5 - 1 && REGEX(?x, "a", "i")) FILTER (1 +2 <= 3 || 3 >= 1) }',
    "SELECT ?x { ?x p:bornIn ?y BIND (?y AS ?z) BIND (:f(?x, 1) AS ?w) FILTER (<urn:f>(DISTINCT ?x)) FILTER (<<( ?x :p ?y )>> = ?t) }",
    f"SELECT ?x {{ ?x (p:bornIn/p:locatedIn*|^p:child+)? ?y . ?x !(p:bornIn|^a) ?z . {E} !p:employer ?w }}",
    "SELECT ?x { ?x p:bornIn ( :Ulm [ p:locatedIn ?y ] 1 2.5 true ) VALUES (?x ?y) { (UNDEF :Ulm) (:a 'b'@en) } VALUES ?z { 1 :a } }",
    "SELECT ?x { << ?x p:educatedAt ?y ~ ?r >> p:academicDegree ?z . ?x p:educatedAt ?y ~ ?s {| p:academicDegree ?z |} }",
]
"""Texts that have every rule of the grammar between them."""
VALID += [PREFIXES + text for text in WHOLE]
DRAWN = list(questions(embedded_graph(), per_shape=60))
TEXTS = [*VALID * 2, *DRAWN[:200], *(PREFIXES + of_embedded_graph(text) for text, _, _ in REFUSED)]
TOKEN = re.compile(r'<<\(|\)>>|<<|>>|\{\||\|\}|"[^"]*"|[\w:?$]+|<[^ <>]*>|\S')
TOKENS = sorted({token for text in TEXTS for token in TOKEN.findall(text)})
CHARACTERS = st.sampled_from(list(" \n\t\"'\\<>{}[]()|~.;,?$@#:_-/*+%0aüλ🦉\u00b7\u2028\x00")) | st.text(max_size=3)
PRINTABLE = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30)
OPTIONS = {
    "top": ["1", "5", "0", "-1", "1000", "1001", "9" * 40, "x", "", "1e3", "٣"],
    "threshold": ["0", "1", "0.5", "nan", "inf", "-0.1", "1e-400", "x", ""],
    "predicted": ["true", "false", "1", "yes", ""],
    "known_only": ["true", "false", "1", "TRUE", "yes", ""],
    "update": ["INSERT DATA {}"],
    "default-graph-uri": ["x"],
    "format": ["json"],
}
CONTENT_TYPES = (
    DIRECT,
    FORM,
    JSON,
    "",
    "text/plain",
    "multipart/form-data; boundary=x",
    f"{DIRECT}; charset=utf-16",
    f"{FORM};charset=UTF-8",
    ";",
)


def sort_of(token: str) -> str:
    """Says what a token is at first sight: tokens of one sort may stand in the same places."""
    return "relation" if f"{SCIENCE}relation/" in token or token.startswith("p:") else token[0] if token[0] in '<:?"' else "other"


ALIKE = {sort: [token for token in TOKENS if sort_of(token) == sort] for sort in map(sort_of, TOKENS)}


@st.composite
def tokens_changed(draw: st.DrawFn) -> str:
    found = TOKEN.findall(draw(st.sampled_from(TEXTS)))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.sampled_from(range(len(found))))
        match draw(st.integers(0, 7)):
            case 0:
                found[place : place + 1] = []
            case 1:
                found.insert(place, draw(st.sampled_from(TOKENS)))
            case 2:
                found[place:place] = found[place : place + draw(st.integers(1, 8))]
            case 3:
                found[place] = draw(st.sampled_from(TOKENS))
            case _:
                found[place] = draw(st.sampled_from(ALIKE[sort_of(found[place])]))
    return " ".join(found)


@st.composite
def characters_changed(draw: st.DrawFn) -> str:
    text = draw(st.sampled_from(TEXTS))
    for _ in range(draw(st.integers(1, 3))):
        place, length = draw(st.integers(0, len(text))), draw(st.integers(0, 6))
        text = text[:place] + draw(CHARACTERS) + text[place + length :]
    return text


@st.composite
def nested(draw: st.DrawFn) -> str:
    opening, closing = draw(
        st.sampled_from([("[ :p ", "]"), ("<< ", " :p :o >>"), ("<<( ", " )>>"), ("{", "}"), ("(", ")"), ("{| :q ", "|}")])
    )
    depth = draw(st.integers(1, 3_000))
    inner = draw(st.sampled_from(["?x", ":a", "", '"'])) + closing * draw(st.sampled_from([0, 1, depth, depth + 1]))
    return (
        PREFIXES
        + draw(st.sampled_from(["SELECT ?x { ", "SELECT ?x { ?x :p ", ""]))
        + opening * depth
        + inner
        + draw(st.sampled_from(["", " }"]))
    )


@st.composite
def many(draw: st.DrawFn) -> str:
    """Draws a text that is long in one of its parts."""
    count = draw(st.integers(2, 4_000))
    part = draw(
        st.sampled_from(["?x p:bornIn :Ulm . ", "?x p:bornIn ?y{0} . ?y{0} p:child ?x . ", ";", "# \n", 'p:bornIn "{0}" , ', "?x{0} "])
    )
    return (
        PREFIXES
        + "SELECT ?x { ?x p:bornIn :Ulm . "
        + "".join(part.replace("{0}", str(i)) for i in range(min(count, 60_000 // len(part))))
        + "}"
    )


def accepts() -> st.SearchStrategy[str]:
    return (
        st.sampled_from([*FORMS, "*/*", "text/*;q=0.5, application/json;q=1e9", "text/html", ";", ",,", "a/b;q=0", "*/*;q=x"]) | PRINTABLE
    )


@st.composite
def asking(draw: st.DrawFn, kind: str, texts: st.SearchStrategy[str]) -> Sent:
    """Sends a text by one of the ways in which a query comes."""
    text = draw(texts)
    accept = (("Accept", draw(accepts() if draw(st.integers(0, 9)) == 0 else st.sampled_from(sorted(FORMS)))),)
    match draw(st.integers(0, 5)):
        case 0 if len(text) < 5_000:
            return Sent(kind, "GET", "/sparql?" + urlencode({"query": text}, errors="replace"), accept, text=text)
        case 1:
            body = urlencode({"query": text}, errors="replace").encode()
            return Sent(kind, "POST", "/sparql", (*accept, ("Content-Type", FORM)), body, text)
        case 2:
            content = {"query": text, "top": draw(st.integers(1, 30))}
            return Sent(kind, "POST", "/api/ask", (("Content-Type", JSON),), json.dumps(content).encode(), text)
        case 3:
            return Sent(kind, "POST", "/api/check", (("Content-Type", JSON),), json.dumps({"query": text}).encode(), text)
        case 4:
            content = {"query": text, "entity": draw(st.sampled_from(["AlbertEinstein", "Ulm", "Nobody", ""]))}
            return Sent(kind, "POST", "/api/explain", (("Content-Type", JSON),), json.dumps(content).encode(), text)
    return Sent(kind, "POST", "/sparql", (*accept, ("Content-Type", DIRECT)), text.encode(errors="replace"), text)


@st.composite
def with_parameters(draw: st.DrawFn) -> Sent:
    names = draw(st.lists(st.sampled_from(sorted(OPTIONS)), max_size=4))
    given = [("query", draw(st.sampled_from(DRAWN)))] * draw(st.sampled_from([1, 1, 1, 1, 0, 2]))
    given += [(name, draw(st.sampled_from(OPTIONS[name]))) for name in names] + draw(
        st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=2)
    )
    query = urlencode(given, errors="replace") + draw(st.sampled_from(["", "&", "&&=", "&%", "&query=%ff", "&a" * 200]))
    if draw(st.booleans()):
        return Sent("parameters", "GET", f"/sparql?{query}")
    return Sent("parameters", "POST", "/sparql", (("Content-Type", FORM),), query.encode())


@st.composite
def wrong_bodies(draw: st.DrawFn) -> Sent:
    path = draw(st.sampled_from(["/sparql", "/api/ask", "/api/check", "/api/explain"]))
    header = (("Content-Type", draw(st.sampled_from(CONTENT_TYPES) | PRINTABLE)),)
    return Sent("content types", "POST", path, header, draw(st.sampled_from(DRAWN)).encode())


@st.composite
def any_bytes(draw: st.DrawFn) -> Sent:
    path = draw(st.sampled_from(["/sparql", "/api/ask", "/api/check", "/api/explain"]))
    body = draw(st.binary(max_size=300))
    if draw(st.booleans()):
        return Sent("bytes", "GET", f"/sparql?query={quote_from_bytes(body)}")
    return Sent("bytes", "POST", path, (("Content-Type", draw(st.sampled_from([DIRECT, FORM, JSON]))),), body)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(DRAWN[:20]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def any_json(draw: st.DrawFn) -> Sent:
    path = draw(st.sampled_from(["/api/ask", "/api/check", "/api/explain"]))
    keys = st.sampled_from(["query", "top", "threshold", "known_only", "entity", "more"])
    content = json.dumps(draw(st.dictionaries(keys, VALUES, max_size=5) | VALUES))
    if draw(st.integers(0, 9)) == 0:
        content = draw(st.sampled_from(["[", '{"query":'])) * draw(st.integers(1, 3_000)) + content
    return Sent("JSON", "POST", path, (("Content-Type", JSON),), content.encode())


@st.composite
def any_address(draw: st.DrawFn) -> Sent:
    method = draw(st.sampled_from(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "QUERY"]))
    start = draw(
        st.sampled_from(["/", "/sparql", "/api/", "/api/entities", "/api/examples", "/api/graph", "/health", "/metrics", "/openapi.json"])
    )
    path = start + quote(draw(st.text(max_size=12)), safe="/?&=%;.", errors="replace")
    name = draw(
        st.sampled_from(["Host", "Accept", "Content-Type", "Authorization", "Origin", "Range", "If-None-Match", "Expect-CT", "Cookie"])
    )
    return Sent("addresses", method, path, ((name, draw(PRINTABLE)),), draw(st.binary(max_size=20)) if method in ("POST", "PUT") else b"")


@st.composite
def names_looked_up(draw: st.DrawFn) -> Sent:
    given = {"prefix": draw(st.text(max_size=12) | st.sampled_from(["a", "ä", "z" * 201])), "count": str(draw(st.integers(-1, 102)))}
    return Sent("names", "GET", "/api/entities?" + urlencode(given, errors="replace"))


KINDS: Mapping[str, Callable[[], st.SearchStrategy[Sent]]] = {
    "valid": lambda: asking("valid", st.sampled_from([*VALID, *DRAWN])),
    "tokens": lambda: asking("tokens", tokens_changed()),
    "characters": lambda: asking("characters", characters_changed()),
    "nesting": lambda: asking("nesting", nested()),
    "many": lambda: asking("many", many()),
    "parameters": with_parameters,
    "content types": wrong_bodies,
    "bytes": any_bytes,
    "JSON": any_json,
    "addresses": any_address,
    "names": names_looked_up,
}
"""The kinds of requests; `requests` draws from all of them, texts and their mutations the most."""


def requests() -> st.SearchStrategy[Sent]:
    """Draws requests of all kinds."""
    return st.sampled_from([*KINDS, *["tokens"] * 3, *["characters"] * 2, *["valid"] * 2]).flatmap(lambda kind: KINDS[kind]())

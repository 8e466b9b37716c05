"""Random SPARQL texts over a small graph, from the whole language that is predicted and some of the rest; and a store in this process."""

import re
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import strategies as st
from pyoxigraph import DefaultGraph, Quad, RdfFormat, Store, parse

from starqe.kg import Graph, Statement, Vocabulary, graph_of
from starqe.kg.rdf.write import write_nquads
from starqe.queries.sparql.terms import predefined_prefixes
from starqe.queries.store import process as store_process
from starqe.queries.store.known_store import Rows

ENTITIES, RELATIONS, PAIR_RELATIONS = "abcd", "rs", "pq"
LABELS = {"en": {"a": "Anna", "b": "Bob"}, "de": {"a": "Anne"}, "": {"c": "Carl"}}
ALWAYS = [
    Statement("a", "r", "b", (("p", "c"),)),
    Statement("c", "s", "d", (("q", "a"), ("p", "b"))),
    Statement("a", "r", "b", (("p", "d"),)),
    Statement("b", "s", "c"),
]
ENTITY, RELATION, PAIR = (st.sampled_from(names) for names in (ENTITIES, RELATIONS, PAIR_RELATIONS))
statements = st.builds(
    Statement, ENTITY, st.sampled_from("rrrsssp"), ENTITY, st.lists(st.tuples(PAIR, ENTITY), max_size=2, unique=True).map(tuple)
)


def labelled_graph(more: list[Statement]) -> Graph:
    """A graph of four entities, some of which have labels in several languages."""
    graph = graph_of(ALWAYS + more)
    labels = {tag: {graph.entities.id(entity): label for entity, label in own.items()} for tag, own in LABELS.items()}
    return replace(graph, entities=Vocabulary(graph.entities.identifiers, labels))


graphs = st.lists(statements, max_size=6).map(labelled_graph)


class StoreHere:
    """Answers SPARQL as `KnownStore` does, without a process of its own."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.store = graph, Store()
        with tempfile.TemporaryDirectory() as place:
            (path,) = write_nquads(graph, Path(place) / "graph.nq", graph.names)
            self.store.bulk_extend(
                Quad(quad.subject, quad.predicate, quad.object, DefaultGraph()) for quad in parse(path=str(path), format=RdfFormat.N_QUADS)
            )

    def query(self, text: str, *, prefixes=None, max_rows: int = 100_000, deadline=None, urgent=False) -> Rows:
        del deadline, urgent
        request = {"query": text, "prefixes": prefixes or {}, "max_rows": max_rows, "base": None, "dataset": None}
        found = store_process._result(self.store, request)
        assert "vars" in found, (found, text)
        return Rows(tuple(found["vars"]), tuple(found["rows"]), found["complete"])

    def rows(self, text: str) -> Rows:
        return self.query(text, prefixes=predefined_prefixes(self.graph))


VARIABLES = ["?x", "?y", "?z"]


@st.composite
def paths(draw: st.DrawFn, depth: int = 2) -> str:
    kind = draw(st.sampled_from(["name", "name", "/", "|", "^", "?"])) if depth else "name"
    if kind == "name":
        return "r:" + draw(RELATION)
    one = draw(paths(depth - 1))
    match kind:
        case "^":
            return f"^({one})"
        case "?":
            return f"({one})?"
    return f"({one}{kind}{draw(paths(depth - 1))})"


@st.composite
def triples(draw: st.DrawFn, anywhere: bool) -> str:
    """A triple pattern, with qualifiers or not; ``anywhere``: variables stand as relations and in qualifiers too."""
    node = st.sampled_from([*VARIABLES, *VARIABLES, *(f"e:{name}" for name in ENTITIES), "[]"])
    relation = draw(st.sampled_from(["r:r", "r:s", "r:r", "r:s", *(["?rel", "r:p"] if anywhere else [])]))
    if not draw(st.integers(0, 4)):
        return f"{draw(node)} {draw(paths())} {draw(node)} ."
    value = st.sampled_from([*(f"e:{name}" for name in ENTITIES), *(["?v", "?y"] if anywhere else [])])
    key = st.sampled_from(["r:p", "r:q", *(["?key"] if anywhere else [])])
    pairs = " ; ".join(f"{draw(key)} {draw(value)}" for _ in range(draw(st.sampled_from([0, 0, 0, 1, 1, 2]))))
    head, tail = draw(node), draw(node)
    if not pairs:
        return f"{head} {relation} {tail} ."
    if draw(st.booleans()) or "[]" in (head, tail):
        return f"{head} {relation} {tail} {{| {pairs} |}} ."
    return f"<< {head} {relation} {tail} >> {pairs} ."


@st.composite
def expressions(draw: st.DrawFn, depth: int, anywhere: bool) -> str:
    variable = st.sampled_from(VARIABLES)
    name = st.sampled_from([*(f"e:{name}" for name in ENTITIES), "<http://elsewhere.org/z>"])
    simple, composed = ["=", "!=", "in", "not in", "bound", "same"], ["&&", "||", "!", "exists", "not exists"]
    kind = draw(st.sampled_from([*simple, *(2 * composed if depth else [])]))
    match kind:
        case "=" | "!=":
            return f"{draw(variable)} {kind} {draw(variable | name)}"
        case "in" | "not in":  # never of an empty list, which is an error for Oxigraph and false (true with NOT) in SPARQL
            return f"{draw(variable)} {kind.upper()} ({', '.join(draw(st.lists(name, min_size=1, max_size=3)))})"
        case "bound":
            return f"BOUND({draw(variable)})"
        case "same":
            return f"sameTerm({draw(variable)}, {draw(variable | name)})"
        case "&&" | "||":
            return f"({draw(expressions(depth - 1, anywhere))} {kind} {draw(expressions(depth - 1, anywhere))})"
        case "!":
            return f"!({draw(expressions(depth - 1, anywhere))})"
    return f"{kind.upper()} {draw(groups(depth - 1, anywhere))}"


@st.composite
def values(draw: st.DrawFn) -> str:
    names = draw(st.lists(st.sampled_from(VARIABLES), max_size=2, unique=True))
    value = st.sampled_from([*(f"e:{name}" for name in ENTITIES), "UNDEF", "<http://elsewhere.org/z>"])
    rows = [f"({' '.join(draw(value) for _ in names)})" for _ in range(draw(st.integers(1, 3)))]
    return f"VALUES ({' '.join(names)}) {{ {' '.join(rows)} }}"


@st.composite
def groups(draw: st.DrawFn, depth: int, anywhere: bool) -> str:
    parts = [draw(triples(anywhere)) for _ in range(draw(st.integers(1, 2)))]
    if depth:
        for _ in range(draw(st.integers(0, 2))):
            kind = draw(st.sampled_from(["union", "optional", "minus", "group", *4 * ["filter"], "values", "known", "label", "label"]))
            match kind:
                case "union":
                    parts.append(" UNION ".join(draw(groups(depth - 1, anywhere)) for _ in range(draw(st.integers(2, 3)))))
                case "optional" | "minus":
                    parts.append(f"{kind.upper()} {draw(groups(depth - 1, anywhere))}")
                case "group":
                    parts.append(draw(groups(depth - 1, anywhere)))
                case "filter":
                    parts.append(f"FILTER ({draw(expressions(depth, anywhere))})")
                case "values":
                    parts.append(draw(values()))
                case "known":
                    parts.append(f"SERVICE <urn:starqe:known> {draw(groups(depth - 1, anywhere))}")
                case "label":
                    text = f"{draw(st.sampled_from(VARIABLES))} rdfs:label "
                    text += draw(st.sampled_from(["?label .", '"Anna"@en .', '"Carl" .', '?label FILTER (LANG(?label) = "en")']))
                    parts.append(f"OPTIONAL {{ {text} }}" if draw(st.booleans()) else text)
            if draw(st.booleans()):
                parts.append(draw(triples(anywhere)))
    return f"{{ {' '.join(parts)} }}"


@st.composite
def texts(draw: st.DrawFn, anywhere: bool | None = None, depth: int = 2) -> str:
    """A query: SELECT of some variables or of all, ASK, or CONSTRUCT of one or two triples."""
    body = draw(groups(depth, draw(st.booleans()) if anywhere is None else anywhere))
    more = draw(st.just("") | st.just("") | values())
    names = [name for name in (*VARIABLES, "?v", "?rel", "?key", "?label") if name in body]
    form = draw(st.sampled_from(["SELECT", "SELECT", "SELECT", "SELECT", "ASK", "CONSTRUCT"]))
    if form == "ASK":
        return f"ASK {body}{more}"
    if form == "CONSTRUCT" and names:
        term = st.sampled_from([*names, *names, "e:a"])
        triple = st.tuples(term, st.sampled_from(["<urn:made>", "r:r", *(["?rel"] if "?rel" in names else [])]), term).map(" ".join)
        return f"CONSTRUCT {{ {' . '.join(draw(st.lists(triple, min_size=1, max_size=2)))} }} WHERE {body}{more}"
    columns = " ".join(draw(st.lists(st.sampled_from(names), min_size=1, unique=True))) if names and draw(st.integers(0, 3)) else "*"
    return f"SELECT {draw(st.sampled_from(['', 'DISTINCT ']))}{columns} {body}{more}"


def plain(text: str) -> str:
    """The text as any store takes it."""
    return text.replace("SERVICE <urn:starqe:known>", "")


def every_row(text: str) -> str:
    """The text in any form, as SELECT of all its variables."""
    return f"SELECT * {text.partition('WHERE ')[2] if text.startswith('CONSTRUCT') else text[text.index('{') :]}"


_TRIPLE = re.compile(r"(<< )?(\?[xyz]|e:\w|\[\]) (\?rel|r:\w) (\?[xyz]|e:\w|\[\])( >> [^.]+?| {\|[^.]+?\|})? \.")


def of_statements(text: str) -> str:
    """The text as it finds in a store what statements say, and not their nodes or labels, where a relation is open or one of qualifiers."""
    count = 0

    def guarded(found: re.Match[str]) -> str:
        nonlocal count
        quoted, head, relation, tail, pairs = (part or "" for part in found.groups())
        conditions = ["?rel IN (r:r, r:s, r:p, r:q)"] if relation == "?rel" else []
        conditions += ["?key IN (r:p, r:q)"] if "?key" in pairs else []
        if relation in ("?rel", "r:p") and not head.startswith("e:"):
            count += 1
            head = f"?head{count}" if head == "[]" else head
            conditions.append(f"isIRI({head})")
        return f"{{ {quoted}{head} {relation} {tail}{pairs} FILTER ({' && '.join(conditions)}) }}" if conditions else found[0]

    return _TRIPLE.sub(guarded, text)

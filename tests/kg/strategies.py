"""Random small graphs, with the cases in them that readers and writers get wrong."""

from hypothesis import strategies as st

from starqe.kg import literal
from starqe.kg.draft import Draft
from starqe.kg.graph import Graph
from starqe.kg.iris import ENTITY_BASE, RELATION_BASE
from starqe.kg.literal import Literal
from starqe.kg.statement import SPLITS, identifier_problem

AWKWARD = [
    "a b",
    "100%",
    "%41",
    "<a>",
    '"quoted"',
    "back\\slash",
    "Zürich",
    "東京",
    "🦉",
    "e\u0301",
    "-a",
    "a.",
    "~a",
    "a,b|c",
    "http://example.org/a",
    "http://example.org/a b",
    "mailto:a@example.org",
    f"{ENTITY_BASE}a",
    f"{ENTITY_BASE}%61",
    f"{ENTITY_BASE}a/b",
    f"{RELATION_BASE}a",
    ENTITY_BASE,
    "_:a",
    "_:r0",
    "_:r_1",
    "_:anon0",
    "_:x y",
    "_:x:y",
    "_:",
    "_:abcdef0123456789abcdef0123456789",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#subject",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#type",
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#Statement",
    "http://www.w3.org/2000/01/rdf-schema#label",
]


def identifiers() -> st.SearchStrategy[str]:
    """Draws any identifier that a statement allows: short ones, awkward ones, and any text."""
    text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
    return st.sampled_from("abc") | st.sampled_from(AWKWARD) | text.filter(lambda word: identifier_problem(word) is None)


LITERALS = [
    Literal("1949-12-25", literal.DATE),
    Literal("949-1-1", literal.DATE),
    Literal("1949-01-01T00:00:00Z", literal.DATE_TIME),
    Literal("1949-01-01T00:00:00Z", literal.DATE_TIME, precision=9),
    Literal("1949-01-01T00:00:00Z", literal.DATE_TIME, precision=11, calendar="julian"),
    Literal("-0044-03-15T00:00:00Z", literal.DATE_TIME, precision=11),
    Literal("+73.32", literal.DECIMAL, unit="km2"),
    Literal("+73.32", literal.DECIMAL),
    Literal("+5", literal.DECIMAL, unit="Q11573", lower="+4", upper="+6"),
    Literal("1921", literal.YEAR),
    Literal("007", literal.INTEGER),
    Literal("1e3", literal.DOUBLE),
    Literal("INF", literal.DOUBLE),
    Literal("true", literal.BOOLEAN),
    Literal("1", literal.BOOLEAN),
    Literal("Point(13.38 52.52)", literal.WKT, precision=0.0001),
    Literal("Point(13.38 52.52)", literal.WKT),
    Literal("<http://www.wikidata.org/entity/Q405> Point(1 2)", literal.WKT),
    Literal("http://example.org/", literal.ANY_URI),
    Literal("text"),
    Literal(""),
    Literal(' a\tb\n"c"\\d|e;f%g '),
    Literal("café", literal.LANGUAGE_STRING, "fr"),
    Literal("colour", literal.LANGUAGE_STRING, "en-gb"),
    Literal("x", "http://example.org/type"),
]


def literals() -> st.SearchStrategy[Literal]:
    """Draws literals of every kind, and any text."""
    return st.sampled_from(LITERALS) | st.text(st.characters(exclude_categories=["Cs"]), max_size=6).map(Literal)


def rows(pool: st.SearchStrategy[str], values: st.SearchStrategy[str] | None = None) -> st.SearchStrategy[list[str]]:
    """Draws statements as rows of fields over a pool of identifiers; tails and values may come from a larger pool."""
    values = pool if values is None else values
    pairs = st.lists(st.tuples(pool, values), max_size=3)
    return st.tuples(pool, pool, values, pairs).map(lambda parts: [*parts[:3], *(field for pair in parts[3] for field in pair)])


@st.composite
def graphs(draw: st.DrawFn, labels: bool = True, with_literals: bool = False) -> Graph:
    """Draws a graph of few identifiers, so that statements share main triples, within a split and across splits."""
    pool = st.sampled_from(draw(st.lists(identifiers(), min_size=1, max_size=4, unique=True)))
    values = pool
    if with_literals:
        values |= st.sampled_from([value.key for value in draw(st.lists(literals(), min_size=1, max_size=4))])
    draft = Draft()
    for row in draw(st.lists(rows(pool, values), min_size=1, max_size=5)):
        splits = st.lists(st.sampled_from(SPLITS), min_size=1, max_size=2)
        for split in draw(splits):
            draft.add([row], split)
        if draw(st.booleans()):
            draft.add([row[:3]], draw(st.sampled_from(SPLITS)))
    if labels:
        for identifier in draw(st.lists(pool, max_size=3)):
            text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
            draft.label(identifier, draw(text), draw(st.sampled_from(["", "en", "de", "pt-br"])))
    return draft.finish()

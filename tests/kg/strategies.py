"""Random small graphs, with the cases in them that readers and writers get wrong."""

from hypothesis import strategies as st

from starqe.kg.draft import Draft
from starqe.kg.graph import Graph
from starqe.kg.iris import ENTITY_BASE, RELATION_BASE
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
    """Gives any identifier that a statement allows: short ones, awkward ones, and any text."""
    text = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=8)
    return st.sampled_from("abc") | st.sampled_from(AWKWARD) | text.filter(lambda word: identifier_problem(word) is None)


def rows(pool: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    """Gives statements as rows of fields over a pool of identifiers."""
    pairs = st.lists(st.tuples(pool, pool), max_size=3)
    return st.tuples(pool, pool, pool, pairs).map(lambda parts: [*parts[:3], *(field for pair in parts[3] for field in pair)])


@st.composite
def graphs(draw: st.DrawFn, labels: bool = True) -> Graph:
    """Gives a graph of few identifiers, so that statements share main triples, within a split and across splits."""
    pool = st.sampled_from(draw(st.lists(identifiers(), min_size=1, max_size=4, unique=True)))
    draft = Draft()
    for row in draw(st.lists(rows(pool), min_size=1, max_size=5)):
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

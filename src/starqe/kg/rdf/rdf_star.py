"""RDF-star as it was before RDF 1.2: a quoted triple ``<< s p o >>`` is one term, and all that is said about it belongs together.

The parser follows RDF 1.2. There every ``<< s p o >>`` is a new reifier, and N-Triples and N-Quads do not have it at all.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b

from pyoxigraph import BlankNode, Quad, RdfFormat, Triple, parse

from starqe.kg.iris import REIFIES

QUOTED = re.compile(rb"<<(?!\()")
"""The beginning of a quoted triple, in contrast to a triple term of RDF 1.2."""
_TOKEN = re.compile(
    rb"\s*(?:(?P<open><<(?!\())|(?P<close>>>)|(?P<end>\.\s*(?:\#.*)?$)"
    rb'|(?P<term><[^<>"\s]*+>|_:[^\s<>]*[^\s<>.]|"(?:[^"\\]++|\\.)*+"(?:@[A-Za-z0-9-]+|\^\^<[^<>"\s]*+>)?))'
)


def parse_star_lines(block: bytes, syntax: RdfFormat) -> Iterator[Quad]:
    """Parses lines of N-Triples or N-Quads, those of RDF-star among them.

    Raises:
        SyntaxError: A line is malformed.
    """
    stars, others = [], []
    for line in block.split(b"\n"):
        text = _as_trig(line, syntax) if QUOTED.search(line) else None
        if text is None:
            others.append(line)
        else:
            stars.append(text)
    yield from parse(b"\n".join(others), format=syntax)
    yield from join_reifiers(parse(b"\n".join(stars), format=RdfFormat.TRIG), lambda _: True)


def _as_trig(line: bytes, syntax: RdfFormat) -> bytes | None:
    """Returns a line as TriG, or None if it is neither three terms nor (in N-Quads) four."""
    terms: list[int] = []  # where each term begins
    depth = position = 0
    while token := _TOKEN.match(line, position):
        if token.lastgroup == "end":
            break
        if depth == 0:
            terms.append(token.start(token.lastgroup or 0))
        depth += {"open": 1, "close": -1}.get(token.lastgroup or "", 0)
        position = token.end()
    if not token or depth or len(terms) not in ((3, 4) if syntax == RdfFormat.N_QUADS else (3,)):
        return None
    end = terms[3] if len(terms) > 3 else position
    return line[end:position] + b" { " + line[:end] + b" }"


def join_reifiers(quads: Iterable[Quad], generated: Callable[[str], bool]) -> Iterator[Quad]:
    """Gives all reifiers without a name of one triple the same name, and turns quoted triples as objects into triple terms.

    Args:
        quads: As the parser gives them: a quoted triple that is an object right before its reifier, any other right after.
        generated: Returns whether the parser generated the label of a blank node.
    """
    joined: dict[object, tuple[BlankNode, Triple]] = {}  # reifier -> the one of its triple, and this triple
    waiting: Quad | None = None  # its object may be a reifier that comes next
    for quad in quads:
        subject, predicate, value, graph = quad
        subject = joined[subject][0] if subject in joined else subject
        if isinstance(value, Triple) and predicate.value == REIFIES and isinstance(subject, BlankNode) and generated(subject.value):
            triple = _joined(value, joined)
            name = blake2b(str(triple).encode(), digest_size=15).hexdigest()
            joined[subject] = BlankNode(f"a{name}"), triple
            if waiting and waiting.object == subject:
                waiting = Quad(waiting.subject, waiting.predicate, triple, waiting.graph_name)
            subject, value = joined[subject]
        if waiting:
            yield waiting
            waiting = None
        quad = Quad(subject, predicate, value, graph)
        if isinstance(value, BlankNode):
            waiting = quad
        else:
            yield quad
    if waiting:
        yield waiting


def _joined(triple: Triple, joined: Mapping[object, tuple[BlankNode, Triple]]) -> Triple:
    subject, value = triple.subject, triple.object
    subject = joined[subject][0] if subject in joined else subject
    return Triple(subject, triple.predicate, joined[value][1] if value in joined else value)

"""Writes a query for people: as a formula of logic, as a tree for terminals, as hyperedges, and as reified triples."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from starqe.errors import UnsupportedError
from starqe.queries.formula import And, Atom, Formula, Not, Same, Term, Variable, free_variables

if TYPE_CHECKING:
    from starqe.queries.query import Query

Label = Callable[[str], str]

REIFYING = ("rdf:subject", "rdf:predicate", "rdf:object")
"""The relations of standard RDF reification, in the order that reified tables give their ids after the relations of the graph."""


def term_text(term: Term, label: Label = str) -> str:
    """Writes a variable as ``?name`` and a constant by its label."""
    return str(term) if isinstance(term, Variable) else label(term)


def relation_text(atom: Atom, label: Label = str) -> str:
    """Writes the relation of an atom with its qualifiers: ``educatedAt{degree: BSc}``."""
    pairs = ", ".join(f"{term_text(relation, label)}: {term_text(value, label)}" for relation, value in atom.qualifiers)
    return term_text(atom.relation, label) + ("⁻¹" if atom.inverted else "") + (f"{{{pairs}}}" if pairs else "")


def atom_text(atom: Atom, label: Label = str) -> str:
    """Writes an atom: ``educatedAt{degree: BSc}(Einstein, ?x)``."""
    return f"{relation_text(atom, label)}({term_text(atom.head, label)}, {term_text(atom.tail, label)})"


def logic(query: "Query", label: Label = str) -> str:
    """Writes a query as a formula of first-order logic, with its answer variables in front."""
    answers = ", ".join(map(str, query.answers))
    return f"{answers} : {_quantified(query.formula, set(query.answers), label)}"


def _quantified(formula: Formula, bound: set[Variable], label: Label, inside: bool = False) -> str:
    """Writes a formula after the quantifier of the variables that it uses and that are not bound yet."""
    new = free_variables(formula) - bound
    some = f"∃{', '.join(variable.name for variable in sorted(new))} . " if new else ""
    return some + _formula_text(formula, bound | new, label, inside)


def _formula_text(formula: Formula, bound: set[Variable], label: Label, inside: bool) -> str:
    match formula:
        case Atom():
            return atom_text(formula, label)
        case Same():
            return " = ".join(str(term) if isinstance(term, Variable) else label(term) for term in formula.terms)
        case Not():
            return "¬" + _quantified(formula.part, bound, label, inside=True)
    sign = " ∧ " if isinstance(formula, And) else " ∨ "
    whole = sign.join(_formula_text(part, bound, label, inside=True) for part in formula.parts)
    return f"({whole})" if inside else whole


def picture(query: "Query", label: Label = str) -> str:
    """Draws a conjunctive query as a tree below its first answer variable.

        ?city
        ├◀─ bornIn ── Einstein
        └─▶ capitalOf{since: 1848} ── ?state
            └◀─ memberOf ── Bern

    An arrow that points right leads away from the node above. A node is drawn again where edges meet.

    Raises:
        UnsupportedError: The query is not conjunctive.
    """
    if not query.conjunctive:
        raise UnsupportedError(f"a picture shows conjunctive queries only. As logic it is: {logic(query, label)}")
    left = list(query.all_atoms)
    lines: list[str] = []

    def draw(node: Term, indent: str) -> None:
        incident = [atom for atom in left if node in (atom.head, atom.tail)]
        for atom in incident:
            left.remove(atom)
        for atom in incident:
            last = atom is incident[-1]
            away = atom.head == node
            other = atom.tail if away else atom.head
            corner, arrow = "└" if last else "├", "─▶" if away else "◀─"
            lines.append(f"{indent}{corner}{arrow} {relation_text(atom, label)} ── {term_text(other, label)}")
            draw(other, indent + ("    " if last else "│   "))

    start: Term = query.answers[0]
    while True:
        lines.append(term_text(start, label))
        draw(start, "")
        if not left:
            return "\n".join(lines)
        # Atoms joined only by a variable in a qualifier or as a relation are a tree of their own.
        start = left[0].head


def hypergraph(query: "Query", label: Label = str) -> str:
    """Writes a conjunctive query as a hypergraph, one line per hyperedge: its type, and the terms that it groups.

        educatedAt|academicDegree {AlbertEinstein, Doctorate, ?university}

    The type is the composition of all relations. The terms are a set: which of them is head, tail or value is lost.

    Raises:
        UnsupportedError: The query is not conjunctive.
    """
    lines = []
    for atom in query.conjuncts("a hypergraph"):
        plain = atom.plain
        relations = [plain.relation, *sorted({relation for relation, _ in plain.qualifiers}, key=str)]
        terms = {plain.head, plain.tail, *(value for _, value in plain.qualifiers)}
        names = sorted((term_text(term, label) for term in terms), key=lambda name: (name.startswith("?"), name))
        lines.append(f"{'|'.join(term_text(relation, label) for relation in relations)} {{{', '.join(names)}}}")
    return "\n".join(lines)


def reified(query: "Query", label: Label = str) -> str:
    """Writes a conjunctive query as plain triples by standard RDF reification: one blank node per edge, and a line per triple.

    Raises:
        UnsupportedError: The query is not conjunctive.
    """
    lines = []
    for number, atom in enumerate(query.conjuncts("a reified form")):
        plain = atom.plain
        parts: list[tuple[Term, Term]] = list(zip(REIFYING, (plain.head, plain.relation, plain.tail), strict=True))
        for relation, term in [*parts, *plain.qualifiers]:
            written = str(relation) if relation in REIFYING else term_text(relation, label)
            lines.append(f"_:{number} {written} {term_text(term, label)}")
    return "\n".join(lines)

"""A query for people: as a formula of logic, and as a small picture for shells."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from starqe.errors import UnsupportedError
from starqe.queries.formula import And, Atom, Formula, Not, Term, Variable, free_variables

if TYPE_CHECKING:
    from starqe.queries.query import Query

Label = Callable[[str], str]


def term_text(term: Term, label: Label = str) -> str:
    """Writes a variable as ``?name`` and a constant by its label."""
    return str(term) if isinstance(term, Variable) else label(term)


def relation_text(atom: Atom, label: Label = str) -> str:
    """Writes what stands between the two ends of an atom: ``educatedAt{degree: BSc}``."""
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
        mine = [atom for atom in left if node in (atom.head, atom.tail)]
        for atom in mine:
            left.remove(atom)
        for atom in mine:
            last = atom is mine[-1]
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
        # What is joined by a variable in a qualifier or as a relation only is a tree of its own.
        start = left[0].head

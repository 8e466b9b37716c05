"""Queries and explanations as the page draws them: nodes and edges with their labels."""

from dataclasses import asdict

from starqe.ask import Answer, Explanation
from starqe.kg import Graph, Statement, Vocabulary
from starqe.queries import Query, Variable
from starqe.queries.formula import Term
from starqe.serve.bodies import Drawing, Edge, ExplainAnswer, Named, Node, OneAnswer, Pair, Reason, Views, WeighedPair


def named(vocabulary: Vocabulary, term: Term) -> Named:
    """Returns an entity or a relation with its label; a variable is its own."""
    if isinstance(term, Variable):
        return Named(entity=str(term), label=str(term))
    return Named(entity=term, label=vocabulary.label(vocabulary.id(term)))


def draw(query: Query, graph: Graph, explanation: Explanation | None = None) -> Drawing:
    """Draws a query; an explanation fills in its variables and says which edges are facts.

    Edges are in the order of the atoms of the plain form. A variable is one node; an entity is one node for each place where it
    is given, whose id no variable can have.
    """
    filled = explanation.assignment if explanation else {}
    nodes: dict[str, Node] = {}
    edges = []
    for number, atom in enumerate(query.plain_form().all_atoms):
        ends = []
        for side, term in (("head", atom.head), ("tail", atom.tail)):
            node = _node(query, graph, term, f"{number}.{side}", filled.get(term.name) if isinstance(term, Variable) else None)
            ends.append(nodes.setdefault(node.id, node).id)
        reason = explanation.reasons[number] if explanation else None
        edges.append(
            Edge(
                from_=ends[0],
                to=ends[1],
                relation=named(graph.relations, atom.relation),
                qualifiers=[Pair(relation=named(graph.relations, r), value=named(graph.entities, v)) for r, v in atom.qualifiers],
                fact=reason.fact if reason else None,
                probability=reason.probability if reason else None,
            )
        )
    return Drawing(nodes=list(nodes.values()), edges=edges)


def _node(query: Query, graph: Graph, term: Term, place: str, filled: str | None) -> Node:
    if isinstance(term, Variable):
        kind = "target" if term in query.answers else "variable"
        label = named(graph.entities, filled).label if filled is not None else str(term)
        return Node(id=term.name, kind=kind, entity=filled, label=label)
    return Node(id=place, kind="anchor", entity=term, label=named(graph.entities, term).label)


def explained(explanation: Explanation, graph: Graph) -> ExplainAnswer:
    """Returns an explanation with its labels and its drawing."""
    reasons = []
    for number, reason in enumerate(explanation.reasons):
        atom = reason.atom
        differences = {(c.relation, c.value): c.difference for c in reason.contributions}
        pairs = [
            WeighedPair(relation=named(graph.relations, r), value=named(graph.entities, v), difference=differences.get((str(r), str(v))))
            for r, v in atom.qualifiers
        ]
        reasons.append(
            Reason(
                edge=number,
                head=named(graph.entities, atom.head),
                relation=named(graph.relations, atom.relation),
                tail=named(graph.entities, atom.tail),
                qualifiers=pairs,
                fact=reason.fact,
                probability=reason.probability,
                statements=[statement_text(statement, graph) for statement in reason.statements],
            )
        )
    return ExplainAnswer(
        answer=one_answer(explanation.answer),
        assignment={name: named(graph.entities, entity) for name, entity in explanation.assignment.items()},
        note=explanation.note,
        calibrated=explanation.calibrated,
        drawing=draw(explanation.query, graph, explanation),
        reasons=reasons,
        views=Views(**asdict(explanation.views)) if explanation.views else None,
    )


def one_answer(answer: Answer) -> OneAnswer:
    """Returns an answer without its support."""
    return OneAnswer(entity=answer.entity, label=answer.label, known=answer.known, probability=answer.probability)


def statement_text(statement: Statement, graph: Graph) -> str:
    """Writes a statement with labels: ``head · relation · tail (relation: value, …)``."""
    main = (named(graph.entities, statement.head), named(graph.relations, statement.relation), named(graph.entities, statement.tail))
    pairs = ", ".join(f"{named(graph.relations, r).label}: {named(graph.entities, v).label}" for r, v in statement.qualifiers)
    return " · ".join(part.label for part in main) + (f" ({pairs})" if pairs else "")

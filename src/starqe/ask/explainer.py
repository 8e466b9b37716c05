"""Builds explanations: the statements that prove a known answer, or the best derivation of a predicted one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np
import torch

from starqe.ask.answers import Answer, Binding
from starqe.ask.explanation import Explanation, Views
from starqe.ask.ranking import tables_of
from starqe.deadline import NEVER, Deadline
from starqe.errors import InputError, UnsupportedError
from starqe.kg import Graph, Vocabulary
from starqe.queries import Atom, Query, Variable
from starqe.queries.formula import Term, relation_variables
from starqe.queries.gaps import Gaps, gaps_of
from starqe.queries.layout import table_of_query
from starqe.queries.shape import ONE_HOP, Shape
from starqe.queries.sparql.request import Alternative, SparqlRequest
from starqe.reason.executor.derivation import Contribution, Derivation, Reason, RuleReason, groups_of, replaced
from starqe.reason.executor.executor import Executor
from starqe.reason.mixture import Mixture
from starqe.reason.rules.firing import RuleBook

PROOF = "A known answer is proved: all of its statements are facts of the graph."
ABSENCE = "It also relies on statements that the graph does not have; each is shown with the probability that it is true nevertheless."
GUESS = "A prediction is not a fact. Its statements are the best derivation that was found"
PREDICTION = f"{GUESS}; the probability of the answer also includes the model's score for the whole question."
UNPROVED = (
    "an explanation is made of statements, and this row is known by something else: a qualifier as a triple of its own, a statement as "
    "a node, or what an optional part lacks"
)
"""Why a known row is not explained."""
RULES_SHOWN = 3
"""The maximum number of rules shown for a predicted statement."""
NARROWED = "Not every candidate of its inner variables was tried (the beam was cut), so a better derivation may exist."

Row = str | Mapping[str, str] | Answer
"""A row to explain: the value of the first column, values of columns by name, or a row of answers."""


@dataclass(frozen=True, eq=False)
class Explainer:
    """Explains rows of answers.

    Args:
        executor: The executor, which derives answers.
        mixture: The mixture, which ranks the predicted answers of shapes.
        probability: Computes the probability of a predicted row: of an alternative of a request, by its index, for a query that asks for
            some of its answer variables.
        calibrated: Whether these probabilities were fitted on enough data.
        rules: The rules that are added to predictions, if any.
    """

    executor: Executor
    mixture: Mixture
    probability: Callable[[SparqlRequest, int, Query, tuple[int, ...], Deadline], float]
    calibrated: bool
    rules: RuleBook | None = None

    def explain(self, request: SparqlRequest, row: Row, deadline: Deadline = NEVER) -> Explanation:
        """Explains one row: by the statements that prove it, or by the best way in which it could hold.

        Raises:
            InputError: The row has a column or a value that the query does not.
            UnsupportedError: The row is known, but not by statements.
            DeadlineError: The time is up.
        """
        chosen = self._chosen(request, row)
        if (proof := self._proof(request, chosen, deadline)) is not None:
            return _with_texts(proof, row)
        if isinstance(row, Answer) and row.known:
            raise UnsupportedError(UNPROVED)
        options = [(self._derived(alternative.query, values, deadline), alternative, values) for alternative, values in chosen]
        found, alternative, values = max(options, key=lambda option: option[0].truth)
        return _with_texts(self._predicted(request, alternative, values, found, deadline), row)

    def proof(self, request: SparqlRequest, row: Row, deadline: Deadline = NEVER) -> Explanation | None:
        """Explains a known row; None if it is not known.

        Raises:
            InputError: The row has a column or a value that the query does not.
            DeadlineError: The time is up.
        """
        proof = self._proof(request, self._chosen(request, row), deadline)
        return None if proof is None else _with_texts(proof, row)

    def _proof(
        self, request: SparqlRequest, chosen: Sequence[tuple[Alternative, dict[str, int]]], deadline: Deadline
    ) -> Explanation | None:
        for alternative, values in chosen:
            ids = [values.get(variable.name) for variable in alternative.query.answers]
            if (found := self.executor.explain_known(alternative.query.plain_form(), ids, deadline)) is not None:
                answer = self._answer(request, alternative, values, known=True, probability=1.0)
                relies = any(part.kind == "not" for part in groups_of(found.root))
                return Explanation(alternative.query, answer, found, f"{PROOF} {ABSENCE}" if relies else PROOF)
        return None

    def _predicted(
        self, request: SparqlRequest, alternative: Alternative, values: Mapping[str, int], found: Derivation, deadline: Deadline
    ) -> Explanation:
        query, ids = _asked(alternative.query, values)
        probability = self.probability(request, request.alternatives.index(alternative), query, ids, deadline)
        answer = self._answer(request, alternative, values, known=False, probability=probability)
        views = views_of(self.mixture, self.executor, query, ids, deadline)
        weighed = {
            reason.edge: replace(
                reason,
                contributions=_contributions(self.executor, reason),
                rules=_rules(self.rules, reason) if self.rules is not None else (),
            )
            for reason in found.used
            if not reason.fact
        }
        note = f"{GUESS}." if views is None else PREDICTION if views.exact else f"{PREDICTION} {NARROWED}"
        derivation = replace(found, root=replaced(found.root, weighed))
        return Explanation(alternative.query, answer, derivation, note, self.calibrated, views)

    def _derived(self, query: Query, values: Mapping[str, int], deadline: Deadline) -> Derivation:
        asked, ids = _asked(query.plain_form(), values)
        return self.executor.explain(asked, [ids], deadline)[0]

    def _chosen(self, request: SparqlRequest, row: Row) -> list[tuple[Alternative, dict[str, int]]]:
        """Returns the alternatives that bind the columns of a row, each with the row's values of its answer variables, by ids.

        A row that leaves a column open belongs to the alternatives that leave it open too, if there are any.
        """
        if not request.predicted:
            raise UnsupportedError("an explanation is made of statements between entities, and this query asks for literals only")
        graph, found, exact = self.executor.known.graph, [], []
        values, bound = _values(request, row), _bound(request, row)
        if lost := values.keys() - {*request.shown}:
            columns = ", ".join(request.shown) or "none"
            raise InputError(f"a row has values for columns of the query ({columns}), found {min(lost)!r}. Leave it out")
        for _, alternative in request.predicted:
            given = {variable.name: graph.entities.id(entity) for variable, entity in alternative.given}
            if not values.keys() <= alternative.bound:
                continue
            ids = {name: self._vocabulary(alternative, name).resolve(value) for name, value in values.items()}
            if all(given.get(name, id_) == id_ for name, id_ in ids.items()):
                own = {name: id_ for name, id_ in ids.items() if name not in given}
                options = [(alternative, {**own, **more}) for more in self._labelled(alternative, row, own)]
                found += options
                exact += options if alternative.bound & {*request.shown} == bound else []
        if exact:
            return exact
        if isinstance(row, Answer) and row.known:
            raise UnsupportedError(UNPROVED)
        if not found:
            shown = ", ".join(f"{name}: {value}" for name, value in values.items())
            raise InputError(f"a row has the values that VALUES gives, and columns that the query binds together, found {shown}")
        return sorted(found, key=lambda option: len(option[0].bound & {*request.shown} - values.keys()))

    def _labelled(self, alternative: Alternative, row: Row, values: Mapping[str, int]) -> list[dict[str, int]]:
        """Returns the possible entities of columns that show only labels, by the names of their variables."""
        shown = row.bindings if isinstance(row, Answer) else {}
        choices: list[dict[str, int]] = [{}]
        for label in alternative.labels:
            binding = shown.get(label.variable.name)
            if label.absent or binding is None or not isinstance(label.subject, Variable) or label.subject.name in values:
                continue
            language = (binding.term or {}).get("xml:lang", "")
            ids = self._vocabulary(alternative, label.subject.name).find_label(binding.value, language)
            choices = [
                {**choice, label.subject.name: id_} for choice in choices for id_ in ids if choice.get(label.subject.name, id_) == id_
            ]
        return choices

    def _answer(
        self, request: SparqlRequest, alternative: Alternative, values: Mapping[str, int], *, known: bool, probability: float
    ) -> Answer:
        graph, bindings = self.executor.known.graph, dict[str, Binding]()
        ids = {**{variable.name: graph.entities.id(entity) for variable, entity in alternative.given}, **values}
        for name in (name for name in request.shown if name in ids):
            vocabulary = self._vocabulary(alternative, name)
            kind: Literal["relation", "entity"] = "relation" if vocabulary is graph.relations else "entity"
            bindings[name] = Binding(kind, vocabulary.identifier(ids[name]), vocabulary.label(ids[name]))
        return Answer(bindings, known, probability)

    def _vocabulary(self, alternative: Alternative, name: str) -> Vocabulary:
        graph = self.executor.known.graph
        return graph.relations if Variable(name) in relation_variables(alternative.query.formula) else graph.entities


def _values(request: SparqlRequest, row: Row) -> dict[str, str]:
    """Returns the values of a row by column."""
    if isinstance(row, Answer):
        named = ("entity", "relation")  # statements do not prove a label or a count
        return {name: binding.value for name, binding in row.bindings.items() if binding is not None and binding.kind in named}
    if isinstance(row, str):
        if not request.shown:
            raise InputError("this query has no column whose value could be explained")
        return {request.shown[0]: row}
    return dict(row)


def _with_texts(explanation: Explanation, row: Row) -> Explanation:
    """Returns an explanation whose answer also has the labels that the row shows, in the order of the row."""
    if not isinstance(row, Answer) or all(one is None or one.kind != "literal" for one in row.bindings.values()):
        return explanation
    own = explanation.answer.bindings
    bindings = {name: own.get(name, one) for name, one in row.bindings.items() if name in own or (one and one.kind == "literal")}
    return replace(explanation, answer=replace(explanation.answer, bindings=bindings))


def _bound(request: SparqlRequest, row: Row) -> frozenset[str] | None:
    """Returns the columns that a row of answers binds; None for one that is not given as a whole."""
    if not isinstance(row, Answer):
        return None
    return frozenset(name for name in request.shown if row.bindings.get(name) is not None)


def _asked(query: Query, values: Mapping[str, int]) -> tuple[Query, tuple[int, ...]]:
    """Returns the query with only the variables that have a value as answers, and these values."""
    answers = tuple(variable for variable in query.answers if variable.name in values)
    return Query(query.formula, answers), tuple(values[variable.name] for variable in answers)


def views_of(mixture: Mixture, executor: Executor, query: Query, ids: tuple[int, ...], deadline: Deadline = NEVER) -> Views | None:
    """Computes the two scores that the ranking of an answer mixes; None if it is not such a mixture, or has several parts.

    Raises:
        DeadlineError: The time is up.
    """
    tables = tables_of(query, executor.known.graph)
    if len(tables) != 1:
        return None
    (table,), (answer,) = tables, ids
    with torch.inference_mode():
        found = executor.rows_of([(table, np.array([0]))], deadline, wanted=0)
        share = mixture.encoder_share(table, 0, answer)
        truth, slack = float(found.rows[0].at(np.array([answer]))), float(found.slack[0])
    return Views(truth, slack == 0 or truth > slack, share, mixture.weights.of(table.shape))


def _question(graph: Graph, reason: Reason, pairs: Sequence[tuple[Term, Term]]) -> Gaps:
    """Returns the question that a predicted statement answers, with some of its pairs."""
    atom, target = reason.atom, Variable("answer")
    head, tail = (atom.head, target) if reason.given == "head" else (target, atom.tail)
    asked = Atom(head, atom.relation, tail, tuple(pairs))
    shapes: Mapping[str, Shape] = {shape.name: shape for shape in ONE_HOP.values()}
    return gaps_of(table_of_query(Query.conjunction([asked], target.name), graph, shapes=shapes), [0])


def _rules(book: RuleBook, reason: Reason) -> tuple[RuleReason, ...]:
    """Returns the most confident rules that support a predicted statement."""
    rules, graph = book.rules, book.rules.graph
    question = _question(graph, reason, reason.atom.qualifiers)
    answer = graph.entities.id(str(reason.atom.tail if reason.given == "head" else reason.atom.head))
    return tuple(
        RuleReason(
            rules.words(rule, partial(_label, graph.entities), partial(_label, graph.relations)),
            int(rules.support[rule]),
            int(rules.body[rule]),
            float(rules.confidence[rule]),
            tuple(graph.statement(row) for row in book.facts(question, answer, rule)),
        )
        for rule in book.why(question, answer, RULES_SHOWN)
    )


def _label(vocabulary: Vocabulary, identifier: str) -> str:
    return vocabulary.label(vocabulary.id(identifier))


def _contributions(executor: Executor, reason: Reason) -> tuple[Contribution, ...]:
    """Computes the probability without each of the pairs, from facts or else from the one-hop predictor, as the executor does."""
    graph, atom = executor.known.graph, reason.atom
    head, relation, tail = graph.entities.id(str(atom.head)), graph.relations.id(str(atom.relation)), graph.entities.id(str(atom.tail))
    wanted = tail if reason.given == "head" else head
    found = []
    for pair in atom.qualifiers:
        rest = tuple(other for other in atom.qualifiers if other != pair)
        pairs = [(graph.relations.id(str(relation)), graph.entities.id(str(value))) for relation, value in rest]
        if executor.known.holds(head, relation, tail, pairs):
            without = 1.0
        else:
            with torch.inference_mode():
                without = executor.probability(_question(graph, reason, rest), wanted)
        found.append(Contribution(str(pair[0]), str(pair[1]), reason.probability - without))
    return tuple(found)

"""The answerer: one query in, known and predicted answers out, with reasons."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Literal

import numpy as np

from starqe.ask.answers import Answer, Answers, Binding, Counts
from starqe.ask.explain import NARROWED, explain_known, explain_predicted, views_of
from starqe.ask.explanation import Explanation
from starqe.ask.ranking import MOST_PREDICTED, Ranked, Ranking, Wanted
from starqe.ask.window import THRESHOLD, Cut, Window, window
from starqe.deadline import NEVER, Deadline
from starqe.errors import QueryError, SparqlError, StorageError
from starqe.kg import SPLITS, Graph, Known
from starqe.learn import Run
from starqe.queries import Atom, Query, Variable, answer
from starqe.queries.exact.solutions import Solutions, solve
from starqe.queries.formula import relation_variables
from starqe.queries.sparql.read import read_sparql
from starqe.queries.sparql.request import Alternative, SparqlRequest
from starqe.queries.sparql.store import MAX_ROWS, KnownStore, StoreResult
from starqe.queries.sparql.terms import predefined_prefixes
from starqe.ragged import IntArray
from starqe.reason.calibration import AnswerProbability, RankedBy, load_calibration
from starqe.reason.mixture import ENCODER, Mixture, Weights
from starqe.reason.reasoner import Reasoner

Question = str | Query | SparqlRequest
"""SPARQL, a query that asks for its target, or a text that has been read already."""


class Answerer:
    """Answers queries about a graph.

    Args:
        reasoner: Predicts.
        probability: The fitted probability of answers.
        splits: The splits of the graph that count as known.
    """

    def __init__(self, reasoner: Reasoner, probability: AnswerProbability, splits: Collection[str] = SPLITS) -> None:
        self.graph: Graph = reasoner.graph
        self.reasoner, self.probability = reasoner, probability
        self.splits = tuple(split for split in SPLITS if split in splits)
        self._known: Known = self.graph.known(splits)
        self._executor = reasoner.executor(self.splits)
        self._mixture = Mixture(reasoner.encoder, self._executor, reasoner.weights)
        self._store = KnownStore(self.graph, self.splits)
        self._ranking = Ranking(self.graph, self._mixture, self._executor, probability.logistic)

    @classmethod
    def open(cls, folder: Path, graph: Graph | None = None, splits: Collection[str] = SPLITS, by: RankedBy = "mixture") -> "Answerer":
        """Opens the answerer of a run.

        Args:
            folder: The folder of the run.
            graph: Another graph of the same vocabulary, in place of the run's own.
            splits: The splits that count as known.
            by: What ranks: the mixture, or the encoder alone, which is faster. Each has probabilities of its own.

        Raises:
            StorageError: The run was not calibrated, or its files are damaged.
            MismatchError: The other graph has another vocabulary.
        """
        run = Run.open(folder, graph)
        calibration = load_calibration(folder, run.graph)
        if by not in calibration.answers:
            raise StorageError(f"{folder} was not calibrated for answering. Run: starqe calibrate {folder}")
        probability, reasoner = calibration.answers[by], Reasoner.of(run, calibration)
        return cls(reasoner if by == "mixture" else replace(reasoner, weights=ENCODER), probability, splits)

    def warm_up(self) -> None:
        """Builds now what the first queries would have to wait for: indexes of statements and names, and the grammar."""
        self._known.build_indexes()
        for vocabulary in (self.graph.entities, self.graph.relations):
            vocabulary.find("")
        with suppress(SparqlError):
            self.read('SELECT ?x WHERE { ?x "no such relation" "no such entity" }')
        for row in self._known.rows[:1].tolist():
            statement = self.graph.statement(row)
            query = Query.conjunction([Atom(statement.head, statement.relation, Variable("x"))], "x")
            self._ranking.best([Wanted(query, answer(self._known, query)[:, None], 1)])

    @property
    def calibrated(self) -> bool:
        """Whether the probabilities of answers were fitted on enough validation data to be taken as probabilities."""
        return self.probability.evidence.enough

    @property
    def weights(self) -> Weights:
        """How much the executor counts beside the encoder, by class of shapes."""
        return self._mixture.weights

    def label(self, entity: str) -> str:
        """Gives the label of an entity."""
        return self.graph.entities.label(self.graph.entities.id(entity))

    def relation_label(self, relation: str) -> str:
        """Gives the label of a relation."""
        return self.graph.relations.label(self.graph.relations.id(relation))

    def ask(
        self,
        question: Question,
        *,
        top: int | None = None,
        threshold: float = THRESHOLD,
        known_only: bool = False,
        max_atoms: int | None = None,
        deadline: Deadline = NEVER,
    ) -> Answers:
        """Answers a query.

        Args:
            question: SPARQL, or a `Query`.
            top: At most this many known rows, and at most this many predicted ones. Without it: all known rows, and the predicted
                ones that reach the threshold, at most `MOST_PREDICTED`. LIMIT and OFFSET count rows of the whole sequence, known ones
                first, as in SPARQL.
            threshold: The least probability of a predicted answer, where neither ``top`` nor LIMIT is given.
            known_only: Leave the predictions out.
            max_atoms: Refuse larger queries.
            deadline: When to stop.

        Raises:
            SparqlError: The text is not of the language.
            QueryError: The query breaks a rule.
            UnsupportedError: The query is valid, but nothing here can answer it.
            DeadlineError: The time is up.
        """
        return self.ask_many([question], top=top, threshold=threshold, known_only=known_only, max_atoms=max_atoms, deadline=deadline)[0]

    def ask_many(
        self,
        questions: Sequence[Question],
        *,
        top: int | None = None,
        threshold: float = THRESHOLD,
        known_only: bool = False,
        max_atoms: int | None = None,
        max_known: int | None = None,
        max_predicted: int | None = None,
        deadline: Deadline = NEVER,
    ) -> list[Answers]:
        """Answers several queries together, which is faster than one by one; the arguments are those of `ask`.

        At most ``max_known`` known and ``max_predicted`` predicted rows are given for each; a note says where there are more.
        Answers may differ in their last bits with the queries that are answered together: sums are added in another order.
        """
        cut = Cut(top, known_only, max_known, max_predicted)
        requests = [self.read(question, max_atoms) for question in questions]
        known = [solve(self._known, request.query, list(request.query.answers), deadline=deadline) for request in requests]
        windows = [window(request, found, cut) for request, found in zip(requests, known, strict=True)]
        wanted = [
            Wanted(request.query, self._known_values(request.query, found, deadline) if one.end else np.empty((0, 1), np.int64), one.end)
            for request, found, one in zip(requests, known, windows, strict=True)
        ]
        ranked = self._ranking.best(wanted, deadline)
        return [
            self._answers(request, found, one, *of_query, threshold, deadline)
            for request, found, one, of_query in zip(requests, known, windows, ranked, strict=True)
        ]

    def read(self, question: Question, max_atoms: int | None = None) -> SparqlRequest:
        """Reads a question: SPARQL text, or a query that asks for its target.

        Raises:
            SparqlError: The text is not of the language.
            QueryError: The query has more atoms than allowed.
        """
        if isinstance(question, str):
            return read_sparql(question, self.graph, max_atoms=max_atoms)
        request = SparqlRequest.of(question) if isinstance(question, Query) else question
        if max_atoms is not None and len(request.query.all_atoms) > max_atoms:
            raise QueryError(f"a query has at most {max_atoms} atoms here, found {len(request.query.all_atoms)}. Ask for less at once")
        return request

    def ask_known(self, text: str, *, base: str | None = None, max_rows: int = MAX_ROWS, deadline: Deadline = NEVER) -> StoreResult:
        """Answers any SPARQL query from what is known, as a store that holds the graph does; nothing is predicted.

        Args:
            text: SPARQL in any form; names are written as IRIs, or with the prefixes that need no declaration.
            base: What relative IRIs are resolved against, if the text has no BASE.
            max_rows: At most this many rows or triples.
            deadline: When to stop.

        Raises:
            QueryError: The text is not SPARQL.
            UnsupportedError: It asks another service, or needs too much memory.
            DeadlineError: The time is up.
        """
        return self._store.query(text, prefixes=predefined_prefixes(self.graph), base=base, max_rows=max_rows, deadline=deadline)

    def close(self) -> None:
        """Ends the process that answers any SPARQL, if it was started."""
        self._store.close()

    def explain(self, question: Question, entity: str, *, deadline: Deadline = NEVER) -> Explanation:
        """Explains one answer: by the statements that prove it, or by the best way in which it could hold.

        Raises:
            InputError: No entity of the graph is called so, or several are.
            UnsupportedError: It is not known, and the query has a form that cannot be predicted.
            DeadlineError: The time is up.
        """
        request = self.read(question)
        query = Query(request.query.formula, request.query.answers[:1])
        request = SparqlRequest.of(query)
        id_ = self.graph.entities.resolve(entity)
        known = answer(self._known, query, deadline=deadline)
        if id_ in known:
            return explain_known(self._executor, query, self._answer(request, 0, [id_], True, 1.0), deadline)
        found = self._explained_probability(query, known, id_, deadline)
        explanation = explain_predicted(self._executor, query, self._answer(request, 0, [id_], False, found), deadline)
        views = views_of(self._mixture, self._executor, query, id_, deadline)
        note = explanation.note if views.exact else f"{explanation.note} {NARROWED}"
        return replace(explanation, calibrated=self.calibrated, views=views, note=note)

    def _answers(
        self,
        request: SparqlRequest,
        solutions: Solutions,
        cut: Window,
        ranked: Ranked,
        note: str,
        threshold: float,
        deadline: Deadline,
    ) -> Answers:
        notes = [note] if note else []
        if not cut.counted:
            ranked = [(ids, chance) for ids, chance in ranked if chance >= threshold]
        predicted = ranked[cut.skipped : cut.end]
        if cut.predicted_capped and len(ranked) >= cut.end:
            notes.append(f"no more than {cut.end - cut.skipped:,} predicted answers are given")
        rows = solutions.rows(cut.known, request.offset, deadline)
        known = self._known_answers(request, rows)
        if cut.known_capped:
            about = "" if solutions.exact else "at least "
            first = "first" if request.offset == 0 else "next"
            notes.append(
                f"{about}{solutions.count:,} rows are known, and the {first} {len(known):,} are given. Ask for the others with OFFSET"
            )
        answers = (*known, *(self._answer(request, 0, ids, False, chance) for ids, chance in predicted))
        if predicted and not self.calibrated:
            notes.append(self.probability.evidence.note)
        counts = Counts(solutions.count, solutions.exact, len(known), len(predicted))
        return Answers(request.query, request.columns, answers, self.splits, counts, tuple(notes), self.calibrated)

    def _known_values(self, query: Query, solutions: Solutions, deadline: Deadline) -> IntArray:
        """Returns the values of the answer variables that are known: (n, A)."""
        if len(query.answers) == 1:
            return solutions.first[:, None]
        return np.stack(list(solutions.rows(deadline=deadline).values()), axis=1)

    def _known_answers(self, request: SparqlRequest, rows: dict[Variable, IntArray]) -> list[Answer]:
        values = zip(*(rows[variable].tolist() for variable in request.query.answers), strict=True)
        return [self._answer(request, 0, ids, True, 1.0) for ids in values]

    def _answer(self, request: SparqlRequest, place: int, ids: Sequence[int], known: bool, probability: float) -> Answer:
        """Makes a row of what one alternative binds."""
        alternative = request.alternatives[place]
        values = self._bindings(alternative, ids)
        return Answer({name: values.get(name) for name in request.shown}, known, probability)

    def _bindings(self, alternative: Alternative, ids: Sequence[int]) -> dict[str, Binding]:
        relations = relation_variables(alternative.query.formula)
        found = {variable.name: self._binding("entity", self.graph.entities.id(entity)) for variable, entity in alternative.given}
        for variable, id_ in zip(alternative.query.answers, ids, strict=True):
            found[variable.name] = self._binding("relation" if variable in relations else "entity", id_)
        return found

    def _binding(self, kind: Literal["entity", "relation"], id_: int) -> Binding:
        vocabulary = self.graph.relations if kind == "relation" else self.graph.entities
        return Binding(kind, vocabulary.identifier(id_), vocabulary.label(id_))

    def _explained_probability(self, query: Query, known: IntArray, id_: int, deadline: Deadline) -> float:
        """Returns the probability of an entity that may stand far down the ranking."""
        for most in (MOST_PREDICTED, len(self.graph.entities)):
            ((ranked, _),) = self._ranking.best([Wanted(query, known[:, None], most)], deadline)
            if (found := dict(ranked).get((id_,))) is not None:
                return found
        return 0.0

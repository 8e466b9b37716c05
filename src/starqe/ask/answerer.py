"""The answerer: known and predicted answers of a query, and their explanations."""

from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np

from starqe.ask.answers import Answer, Answers, Counts
from starqe.ask.explainer import UNPROVED, Explainer, Row
from starqe.ask.explanation import Explanation
from starqe.ask.known_rows import Binder, KnownRows, StoreRows, known_rows
from starqe.ask.newer import Newer, Nothing, known_to_the_model, newer_note
from starqe.ask.predicted_numbers import with_values
from starqe.ask.predicted_rows import Predicted, predicted_rows, wanted_of
from starqe.ask.ranking import MOST_PREDICTED, Ranking, Wanted
from starqe.ask.window import THRESHOLD, Cut, Window, rows_needed, window
from starqe.deadline import NEVER, Deadline
from starqe.errors import KnownOnlyError, QueryError, SparqlError, StorageError, UnsupportedError
from starqe.kg import SPLITS, Graph, Known
from starqe.learn import Run
from starqe.queries import Atom, Query, Variable, answer
from starqe.queries.sparql.read import known_text, read_sparql, unknown_names
from starqe.queries.sparql.request import SparqlRequest
from starqe.queries.sparql.terms import predefined_prefixes
from starqe.queries.store.kept_store import FACTS
from starqe.queries.store.known_store import MAX_ROWS, KnownStore, StoreResult
from starqe.reason.calibration import AnswerProbability, RankedBy, load_calibration
from starqe.reason.executor.executor import Executor
from starqe.reason.mixture import ENCODER, Mixture, Weights
from starqe.reason.reasoner import Reasoner

Question = str | Query | SparqlRequest
"""SPARQL text, a `Query`, or a request that was read before."""


WARMING = 8
"""The largest number of questions that are asked before the first client's."""
LITERALS = (
    "these are known facts only: texts are not predicted, and numbers and dates only of entities that are given or in another pattern"
)
"""The note of a query for literals that nothing is predicted for."""


class Answerer:
    """Answers queries about a graph.

    Args:
        reasoner: The models that predict.
        probability: The fitted probability of answers.
        splits: The splits of the graph that count as known.
        graph: The graph that is asked, if it is newer than the one that the reasoner knows.
        facts: The folder in which a store of the known facts of a large graph is kept; without it, the store is in memory.
    """

    def __init__(
        self,
        reasoner: Reasoner,
        probability: AnswerProbability,
        splits: Collection[str] = SPLITS,
        graph: Graph | None = None,
        facts: Path | None = None,
    ) -> None:
        self.graph: Graph = (graph or reasoner.graph).whole
        self.newer = Newer(self.graph, len(reasoner.graph.entities), len(reasoner.graph.relations))
        self.reasoner, self.probability = reasoner, probability
        self.splits = tuple(split for split in SPLITS if split in splits)
        self._known: Known = self.graph.known(splits)
        self._executor = reasoner.executor(self.splits)
        self._mixture = Mixture(reasoner.encoder, self._executor, reasoner.weights)
        self._store = KnownStore(self.graph, self.splits, folder=facts)
        self._binder = Binder(self.graph)
        self._numbers = reasoner.numbers(self.splits)
        self._ranking = Ranking(reasoner.graph, self._mixture, self._executor, probability.chance)

    @classmethod
    def open(cls, folder: Path, graph: Graph | None = None, splits: Collection[str] = SPLITS, by: RankedBy = "mixture") -> "Answerer":
        """Opens the answerer of a run.

        Args:
            folder: The folder of the run.
            graph: Another graph of the same vocabulary, in place of the run's own; or a newer one, to which updates have appended.
            splits: The splits that count as known.
            by: The ranker: the mixture, or the encoder alone, which is faster. Each has its own probabilities.

        Raises:
            StorageError: The run was not calibrated, or its files are damaged.
            MismatchError: The other graph has another vocabulary.
        """
        run = Run.open(folder, graph)
        calibration = load_calibration(folder, run.graph)
        if by not in calibration.answers:
            raise StorageError(f"{folder} was not calibrated for answering. Run: starqe calibrate {folder}")
        probability, reasoner = calibration.answers[by], Reasoner.of(run, calibration)
        return cls(reasoner if by == "mixture" else replace(reasoner, weights=ENCODER), probability, splits, graph, folder / FACTS)

    def warm_up(self) -> None:
        """Builds everything that the first queries would wait for: indexes of statements and names, and the grammar."""
        self._known.build_indexes()
        for vocabulary in (self.graph.entities, self.graph.relations):
            vocabulary.find("")
        with suppress(SparqlError):
            self.read('SELECT ?x WHERE { ?x "no such relation" "no such entity" }')
        known, wanted = self.reasoner.graph.known(self.splits), []
        for row in known.rows[:: len(known.rows) // WARMING + 1].tolist():
            statement = self.reasoner.graph.statement(row)
            query = Query.conjunction([Atom(statement.head, statement.relation, Variable("x"))], "x")
            wanted.append(Wanted(query, answer(known, query)[:, None], 1))
        for some in (wanted[:1], wanted):  # one question and several are compared with the entities by different products
            self._ranking.best(some)

    def start_store(self) -> None:
        """Loads the store of known facts now, so that processes that are forked later share it.

        One on disk, which may have to be built first, is prepared in the meantime: queries that need it are refused until it is ready.
        """
        if self._store.is_kept:
            self._store.prepare()
        else:
            self._store.start()

    @property
    def preparing(self) -> str | None:
        """What is still being prepared, with its progress; None if everything is ready."""
        return f"store of known facts ({self._store.progress:.0%})" if self._store.is_preparing else None

    @property
    def calibrated(self) -> bool:
        """Whether the probabilities of answers were fitted on enough validation data to be taken as probabilities."""
        return self.probability.evidence.enough

    @property
    def weights(self) -> Weights:
        """The executor's weight in the mixture, by class of shapes."""
        return self._mixture.weights

    def label(self, entity: str) -> str:
        """Returns the label of an entity."""
        return self.graph.entities.label(self.graph.entities.id(entity))

    def relation_label(self, relation: str) -> str:
        """Returns the label of a relation."""
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
            threshold: The minimum probability of a predicted answer, if neither ``top`` nor LIMIT is given.
            known_only: Leave the predictions out.
            max_atoms: Refuse larger queries.
            deadline: When to stop.

        Raises:
            SparqlError: The text is not valid.
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

        At most ``max_known`` known and ``max_predicted`` predicted rows are returned for each; a note says if there are more.
        The last bits of a probability may depend on the queries that are answered together: sums are added in another order.
        """
        cut = Cut(top, known_only, max_known, max_predicted)
        requests = [self.read(question, max_atoms) for question in questions]
        known = [known_rows(request, self._known, self._store, rows_needed(request, cut), deadline) for request in requests]
        windows = [window(request, found, cut) for request, found in zip(requests, known, strict=True)]
        unknown = [self.newer.mentioned(request) for request in requests]
        wanted = [
            wanted_of(request, found, one.end, deadline) if one.end and not names else []
            for request, found, one, names in zip(requests, known, windows, unknown, strict=True)
        ]
        ranked = iter(self._ranking.best([one for of_request in wanted for one in of_request], deadline))
        answers = []
        for request, found, one, of_request, names in zip(requests, known, windows, wanted, unknown, strict=True):
            parts = [next(ranked) for _ in of_request]
            least = 0.0 if one.counted or request.form == "ASK" else threshold  # rows that are not shown are not made
            shown = [[candidate for candidate in part if candidate[1] >= least] for part, _ in parts]
            wanted_numbers = self._numbers if one.end and not names else None
            if any(shown) or (wanted_numbers and any(alternative.facts for alternative in request.alternatives)):
                predicted = predicted_rows(request, shown, found, self._binder, deadline, wanted_numbers)
                predicted = [row for row in predicted if row[1] >= least]
            else:
                predicted = []
            notes = [newer_note(names)] if names and not known_only else list(dict.fromkeys(note for _, note in parts if note))
            answers.append(self._answers(request, found, one, predicted, notes, deadline))
        return answers

    def read(self, question: Question, max_atoms: int | None = None) -> SparqlRequest:
        """Reads a question: SPARQL text, or a query that asks for its target.

        Raises:
            SparqlError: The text is not valid.
            QueryError: The query has more atoms than allowed.
        """
        if isinstance(question, str):
            return read_sparql(question, self.graph, max_atoms=max_atoms)
        request = SparqlRequest.of(question) if isinstance(question, Query) else question
        if max_atoms is not None and len(request.query.all_atoms) > max_atoms:
            raise QueryError(f"a query has at most {max_atoms} atoms here, found {len(request.query.all_atoms)}. Ask for less at once")
        return request

    def ask_known(self, text: str, *, base: str | None = None, max_rows: int = MAX_ROWS, deadline: Deadline = NEVER) -> StoreResult:
        """Answers any SPARQL query from known facts, like a store that holds the graph; nothing is predicted.

        Args:
            text: SPARQL in any form; names are written as IRIs, or with the prefixes that need no declaration.
            base: What relative IRIs are resolved against, if the text has no BASE.
            max_rows: At most this many rows or triples.
            deadline: When to stop.

        Raises:
            QueryError: The text is not SPARQL.
            UnsupportedError: It asks another service, or needs too much memory.
            DeadlineError: The time is up.
            NotReadyError: The store of known facts is still being prepared.
        """
        own = known_text(text, self.graph)
        return self._store.query(own, prefixes=predefined_prefixes(self.graph), base=base, max_rows=max_rows, deadline=deadline)

    def known_notes(self, text: str, reason: KnownOnlyError) -> list[str]:
        """Returns the notes on an answer from known facts: why nothing is predicted, and strings that name no entity."""
        return [f"nothing is predicted: {reason}", *unknown_names(text, self.graph)]

    def close(self) -> None:
        """Ends the process that answers any SPARQL, if it was started."""
        self._store.close()

    def explain(self, question: Question, row: Row, *, deadline: Deadline = NEVER) -> Explanation:
        """Explains one answer: by the statements that prove it, or by the best way in which it could hold.

        Args:
            question: SPARQL, or a `Query`.
            row: What to explain: the value of the first column, values of columns by name, or a row of the answers.
            deadline: When to stop.

        Raises:
            InputError: The row has a column or a value that the query does not, or a name that several entities have.
            UnsupportedError: The row is not known, and the model is too old to predict it; or it is known, but not by statements.
            DeadlineError: The time is up.
        """
        request = self.read(question)
        explanation = self._explained(request, row, deadline)
        if self._numbers is None or not any(alternative.facts for alternative in request.alternatives):
            return explanation
        known = known_rows(request, self._known, self._store, MAX_ROWS, deadline)
        assert isinstance(known, StoreRows), "patterns with literals are answered by a store"
        return with_values(explanation, request, known, self._numbers, deadline)

    def _explained(self, request: SparqlRequest, row: Row, deadline: Deadline) -> Explanation:
        """Explains the entities of a row."""
        explainer = Explainer(self._executor, self._mixture, self._explained_probability, self.calibrated, self.reasoner.rules)
        if self.newer:
            facts = Executor(self._known, Nothing(), self.reasoner.settings)
            if (proof := replace(explainer, executor=facts).proof(request, row, deadline)) is not None:
                return proof
            if names := self.newer.mentioned(request):
                raise UnsupportedError(f"only known rows are explained here: {newer_note(names)}")
            with known_to_the_model():
                return explainer.explain(request, row, deadline)
        return explainer.explain(request, row, deadline)

    def _answers(
        self,
        request: SparqlRequest,
        found: KnownRows,
        cut: Window,
        predicted: Predicted,
        notes: list[str],
        deadline: Deadline,
    ) -> Answers:
        more = len(predicted) >= cut.end
        predicted = predicted[cut.skipped : cut.end]
        if cut.predicted_capped and more:
            notes.append(f"no more than {cut.end - cut.skipped:,} predicted answers are given")
        known = [Answer(row, True, 1.0) for row in found.rows(cut.known, request.offset, deadline)]
        if cut.known_capped:
            about = "" if found.exact else "at least "
            first = "first" if request.offset == 0 else "next"
            notes.append(f"{about}{found.count:,} rows are known, and the {first} {len(known):,} are given. Ask for the others with OFFSET")
        if predicted and not self.calibrated:
            notes.append(self.probability.evidence.note)
        if not request.predicted and not predicted and not (self._numbers and request.about_given and known):
            notes.append(LITERALS)
        rows = (*known, *(Answer(row, False, chance) for row, chance in predicted))
        counts = Counts(found.count, found.exact, len(known), len(predicted))
        return Answers(request.query, request.columns, rows, self.splits, counts, tuple(notes), self.calibrated)

    def _explained_probability(self, request: SparqlRequest, place: int, query: Query, ids: tuple[int, ...], deadline: Deadline) -> float:
        """Returns the probability of a row that may be far down the ranking; the query may ask for some of its columns only."""
        answers = request.alternatives[place].query.answers
        known = known_rows(request, self._known, self._store, MAX_ROWS, deadline).values(place, deadline)
        if query.answers != answers:
            known = np.array(sorted({tuple(row) for row in known[:, [answers.index(one) for one in query.answers]].tolist()}), np.int64)
            known = known.reshape(len(known), len(query.answers))
        if ids in set(map(tuple, known.tolist())):
            raise UnsupportedError(UNPROVED)
        for most in (MOST_PREDICTED, len(self.graph.entities)):
            ((ranked, _),) = self._ranking.best([Wanted(query, known, most)], deadline)
            if (found := dict(ranked).get(ids)) is not None:
                return found
        return 0.0

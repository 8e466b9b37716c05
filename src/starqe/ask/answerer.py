"""The answerer: one query in, known and predicted answers out, with reasons."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from starqe.ask.answers import Answer, Answers, Explanation
from starqe.ask.explain import explain_known, explain_predicted, predicted_assignments
from starqe.ask.names import NameIndex
from starqe.ask.probability import FEATURES, best_candidates, probabilities
from starqe.errors import QueryError, SparqlError, StorageError, UnsupportedError
from starqe.folders import new_file, read_header, write_header
from starqe.kg import SPLITS, Graph, Known
from starqe.learn import Run
from starqe.queries import Atom, Query, Shape, Variable, answer
from starqe.queries.exact import first_assignments
from starqe.queries.sparql import SparqlRequest, read_sparql
from starqe.queries.table import QueryTable, stack
from starqe.reason.logistic import Logistic
from starqe.reason.mixture import ENCODER, Mixture, Weights
from starqe.reason.reasoner import Reasoner

FORMAT, VERSION = "starqe answering", 1
HEADER = "answering.json"
MOST_PREDICTED = 100
"""How many predicted answers there are at most where nobody says how many."""
THRESHOLD = 0.5
"""How probable a predicted answer has to be where nobody says how many are wanted."""
_BATCH = 32
_KEPT, _KEPT_OF_EACH = 256, 1_000  # how many rankings are remembered, and how much of each

RankedBy = Literal["mixture", "encoder"]
"""What ranks the answers that are not known."""

Question = str | Query | SparqlRequest
"""SPARQL, a query that asks for its target, or a text that has been read already."""


class Answerer:
    """Answers queries about a graph.

    Args:
        reasoner: Predicts.
        probability: Turns what is predicted into probabilities.
        splits: The splits of the graph that count as known.
    """

    def __init__(self, reasoner: Reasoner, probability: Logistic, splits: Collection[str] = SPLITS) -> None:
        self.graph: Graph = reasoner.graph
        self.reasoner, self.probability = reasoner, probability
        self.splits = tuple(split for split in SPLITS if split in splits)
        self._known: Known = self.graph.known(splits)
        self._executor = reasoner.executor(self.splits)
        self._mixture = Mixture(reasoner.encoder, self._executor, reasoner.weights)
        self._kept: dict[Query, tuple[int, list[tuple[int, float]]]] = {}  # how many were asked for, and those that there are

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
        probability = load_probability(folder, by)
        reasoner = Reasoner.open(run)
        return cls(reasoner if by == "mixture" else replace(reasoner, weights=ENCODER), probability, splits)

    def warm_up(self) -> None:
        """Builds now what the first queries would have to wait for: indexes of statements and names, and the grammar."""
        self._known.build_indexes()
        self.names.find("")
        with suppress(SparqlError):
            self.read('SELECT ?x WHERE { ?x "no such relation" "no such entity" }')
        for row in self._known.rows[:1].tolist():
            statement = self.graph.statement(row)
            query = Query.conjunction([Atom(statement.head, statement.relation, Variable("x"))], "x")
            self._predict([query], [answer(self._known, query)], [1])

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

    @cached_property
    def names(self) -> NameIndex:
        """The labels of the entities, to be looked up by how they begin."""
        return NameIndex(self.graph.entities)

    def ask(
        self,
        question: Question,
        *,
        top: int | None = None,
        threshold: float = THRESHOLD,
        known_only: bool = False,
        max_atoms: int | None = None,
    ) -> Answers:
        """Answers a query.

        Args:
            question: SPARQL, or a `Query`.
            top: How many answers are wanted, known and predicted together; LIMIT says the same, and the smaller counts. Without
                either: all known answers, and the predicted ones that reach the threshold, at most `MOST_PREDICTED`.
            threshold: The least probability of a predicted answer where nobody says how many are wanted.
            known_only: Leave the predictions out.
            max_atoms: Refuse larger queries.

        Raises:
            SparqlError: The text is not of the language.
            QueryError: The query breaks a rule.
            UnsupportedError: The query is valid, but nothing here can answer it.
        """
        return self.ask_many([question], top=top, threshold=threshold, known_only=known_only, max_atoms=max_atoms)[0]

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
    ) -> list[Answers]:
        """Answers several queries together, which is faster than one by one; the arguments are those of `ask`.

        At most ``max_known`` known and ``max_predicted`` predicted answers are given for each, whatever it asks for; a note says
        where more were asked for.
        """
        requests = [self.read(question, max_atoms) for question in questions]
        known = [answer(self._known, request.query) for request in requests]
        wanted = [_wanted(request, top) for request in requests]
        room = [MOST_PREDICTED if most is None else max(0, most - len(k)) for most, k in zip(wanted, known, strict=True)]
        counts = [0 if known_only else most if max_predicted is None else min(most, max_predicted) for most in room]
        predicted, problems = self._predict([request.query for request in requests], known, counts)
        return [
            self._answers(request, known[i], predicted[i], problems[i], wanted[i], threshold, max_known, max_predicted)
            for i, request in enumerate(requests)
        ]

    def read(self, question: Question, max_atoms: int | None = None) -> SparqlRequest:
        """Reads a question: SPARQL text, or a query that asks for its target.

        Raises:
            SparqlError: The text is not of the language.
            QueryError: The query has more atoms than allowed.
        """
        if isinstance(question, str):
            return read_sparql(question, self.graph, max_atoms=max_atoms)
        request = SparqlRequest(question, (question.target.name,)) if isinstance(question, Query) else question
        if max_atoms is not None and len(request.query.all_atoms) > max_atoms:
            raise QueryError(f"a query has at most {max_atoms} atoms here, found {len(request.query.all_atoms)}. Ask for less at once")
        return request

    def explain(self, question: Question, entity: str) -> Explanation:
        """Explains one answer: by the statements that prove it, or by the best way in which it could hold.

        Raises:
            InputError: The entity does not occur in the graph.
            UnsupportedError: It is not known, and the query has a form that cannot be predicted.
        """
        query = self.read(question).query
        id_ = self.graph.entities.id(entity)
        known = answer(self._known, query)
        if id_ in known:
            return explain_known(self._known, query, self._answer(id_, True, 1.0, {}))
        found = self._explained_probability(query, known, id_)
        return explain_predicted(self._executor, query, self._answer(id_, False, found, {}))

    def _predict(
        self, queries: Sequence[Query], known: Sequence[np.ndarray], counts: Sequence[int]
    ) -> tuple[list[list[tuple[int, float]]], list[str]]:
        """Gives the best candidates of every query with their probabilities, and why there are none where it has no shape."""
        found: list[list[tuple[int, float]]] = [[] for _ in queries]
        problems = [""] * len(queries)
        members: list[tuple[int, QueryTable]] = []
        for i, query in enumerate(queries):
            if not counts[i]:
                continue
            asked, kept = self._kept.get(query, (0, []))
            if asked >= counts[i]:
                found[i] = kept[: counts[i]]
                continue
            try:
                table = query.to_table(self.graph)
            except UnsupportedError as error:
                problems[i] = str(error)
                continue
            members.append((i, table))
        for start in range(0, len(members), _BATCH):
            self._predict_batch(members[start : start + _BATCH], queries, known, counts, found)
        return found, problems

    def _predict_batch(
        self,
        members: Sequence[tuple[int, QueryTable]],
        queries: Sequence[Query],
        known: Sequence[np.ndarray],
        counts: Sequence[int],
        found: list[list[tuple[int, float]]],
    ) -> None:
        by_shape: dict[Shape, list[tuple[int, QueryTable]]] = {}
        for i, table in members:
            by_shape.setdefault(table.shape, []).append((i, table))
        tables = [stack([table for _, table in of_shape]) for of_shape in by_shape.values()]
        numbers = [i for of_shape in by_shape.values() for i, _ in of_shape]
        shapes = [shape for shape, of_shape in by_shape.items() for _ in of_shape]
        most = max(MOST_PREDICTED, *(counts[i] for i in numbers))  # whoever asks for few may ask for more, or for reasons, next
        with torch.inference_mode():
            parts = [(table, np.arange(len(table))) for table in tables]
            scores = self._mixture.scores_of(parts, torch.empty(len(members), len(self.graph.entities)))
            best = best_candidates(scores, [known[i] for i in numbers], most)
        chances = probabilities(self.probability, shapes, best)
        for place, i in enumerate(numbers):
            there = np.isfinite(best.scores[place])
            ranked = list(zip(best.entities[place][there].tolist(), chances[place][there].tolist(), strict=True))
            self._kept[queries[i]] = min(most, _KEPT_OF_EACH), ranked[:_KEPT_OF_EACH]
            found[i] = ranked[: counts[i]]
        while len(self._kept) > _KEPT:
            self._kept.pop(next(iter(self._kept)))

    def _answers(
        self,
        request: SparqlRequest,
        known: np.ndarray,
        predicted: list[tuple[int, float]],
        problem: str,
        wanted: int | None,
        threshold: float,
        max_known: int | None,
        max_predicted: int | None,
    ) -> Answers:
        notes = [f"nothing is predicted: {problem}"] if problem else []
        if wanted is None:
            predicted = [(id_, chance) for id_, chance in predicted if chance >= threshold]
        if len(predicted) == max_predicted and (wanted is None or wanted > len(known) + max_predicted):
            notes.append(f"no more than {max_predicted:,} predicted answers are given")
        ranked = [(int(id_), True, 1.0) for id_ in known] + [(id_, False, chance) for id_, chance in predicted]
        ranked = ranked[request.offset : wanted]
        entailed = sum(is_known for _, is_known, _ in ranked)
        if max_known is not None and entailed > max_known:
            ranked = ranked[:max_known] + ranked[entailed:]
            notes.append(f"{entailed:,} answers are known, and the first {max_known:,} of them are given. The others come after OFFSET")
        support = self._support(request, [(id_, is_known) for id_, is_known, _ in ranked])
        answers = tuple(self._answer(id_, is_known, chance, support[id_]) for id_, is_known, chance in ranked)
        return Answers(request.query, request.columns, answers, self.splits, tuple(notes))

    def _answer(self, id_: int, known: bool, probability: float, support: dict[str, str]) -> Answer:
        vocabulary = self.graph.entities
        return Answer(vocabulary.identifier(id_), vocabulary.label(id_), known, probability, support)

    def _support(self, request: SparqlRequest, ranked: Sequence[tuple[int, bool]]) -> dict[int, dict[str, str]]:
        """Gives what further variables stand for in one way to make each answer true; VALUES has said it of some."""
        given = {variable.name: entity for variable, entity in request.given}
        if not request.support:
            return {id_: given for id_, _ in ranked}
        identifier = self.graph.entities.identifier
        known = np.array([id_ for id_, is_known in ranked if is_known], np.int64)
        found = first_assignments(self._known, request.query, known)
        support = {
            id_: given | {variable.name: identifier(found[variable][place]) for variable in request.support}
            for place, id_ in enumerate(known.tolist())
        }
        guessed = [id_ for id_, is_known in ranked if not is_known]
        for id_, filled in zip(guessed, predicted_assignments(self._executor, request.query, guessed) if guessed else [], strict=True):
            support[id_] = given | {variable.name: filled[variable] for variable in request.support}
        return support

    def _explained_probability(self, query: Query, known: np.ndarray, id_: int) -> float:
        """Gives the probability of an entity that may stand far down the ranking."""
        for most in (MOST_PREDICTED, len(self.graph.entities)):
            predicted, _ = self._predict([query], [known], [most])
            if (found := dict(predicted[0]).get(id_)) is not None:
                return found
        return 0.0


def save_probability(folder: Path, fitted: Mapping[RankedBy, Logistic]) -> None:
    """Keeps the probabilities of answers in a run's folder, by what ranks.

    Raises:
        StorageError: The folder cannot be written.
    """
    with new_file(folder / HEADER, overwrite=True) as beside:
        write_header(beside, FORMAT, VERSION, {name: probability.written() for name, probability in fitted.items()})


def forget_probability(folder: Path) -> None:
    """Takes the probabilities out of a run's folder, if there are some."""
    (folder / HEADER).unlink(missing_ok=True)


def load_probability(folder: Path, by: RankedBy) -> Logistic:
    """Gives the probability that was kept in a run's folder for this ranking.

    Raises:
        StorageError: The run was not calibrated, or the file is damaged.
    """
    if not (folder / HEADER).exists():
        raise StorageError(f"{folder} was not calibrated, so its answers have no probabilities. Run: starqe calibrate {folder}")
    content = read_header(folder / HEADER, FORMAT, VERSION)
    return Logistic.read(content.get(by, {}), len(FEATURES), folder / HEADER)


def _wanted(request: SparqlRequest, top: int | None) -> int | None:
    """Gives the end of the ranking that is wanted, or None where nobody says it."""
    ends = [request.offset + most for most in (request.limit, top) if most is not None]
    return min(ends, default=None)

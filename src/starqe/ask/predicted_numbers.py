"""Rows with predicted numbers and dates: the values that are not known, and the probability that conditions on them hold.

A distribution becomes a number of equally probable samples. The store tests conditions on them, so that every function and comparison
of SPARQL has its own meaning: the probability of a condition is the share of the samples that meet it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from pyoxigraph import Literal as Term
from pyoxigraph import NamedNode

from starqe.ask.answers import Binding
from starqe.ask.explanation import Explanation
from starqe.ask.known_rows import Bindings, StoreRows
from starqe.deadline import Deadline
from starqe.kg.literal import STRING, Literal
from starqe.queries.formula import Variable
from starqe.queries.sparql.literal_facts import LiteralFact
from starqe.queries.sparql.request import Alternative, SparqlRequest
from starqe.reason.numbers import NumberPredictor

INTERVAL = 0.9
"""The probability that a predicted value lies in the interval that is given with it, if there is a value."""
SAMPLES = 50
"""The number of samples that conditions are tested on."""
AT_ONCE = 5_000
"""The number of samples that the store tests at once."""
VALUES = (
    "The number or date is predicted from those of other entities: the median of what is likely, and an interval that holds it with a "
    "probability of 0.9."
)
"""The note of an explanation with predicted values."""
MOST_ROWS = 200
"""The largest number of rows, the most probable first, whose values are predicted."""

Samples = list[Literal]
"""Values that are equally probable, ascending."""


def with_numbers(
    alternative: Alternative, rows: Sequence[tuple[Bindings, float]], known: StoreRows, numbers: NumberPredictor, deadline: Deadline
) -> Iterator[tuple[Bindings, float]]:
    """Yields rows with predicted values where the patterns of an alternative find no literal, with their probabilities.

    An entity with a known value gets no predicted one.

    Args:
        alternative: The alternative.
        rows: Its entities with their probabilities, the most probable first.
        known: The known rows, with their literals.
        numbers: The predictor of numbers and dates.
        deadline: When to stop.
    """
    patterns = [fact for fact in alternative.facts if fact.subject is not None]
    if not any(fact.value is not None and numbers.predicts(fact.relation) for fact in patterns):
        return
    chosen = list(rows[:MOST_ROWS])
    entities = [row for row, _ in chosen]
    facts = [known.with_facts(replace(alternative, facts=(fact,)), entities, deadline) for fact in patterns]
    made: list[_Row] = []
    for place, (row, chance) in enumerate(chosen):
        lacking = tuple(fact for fact, choices in zip(patterns, facts, strict=True) if not choices[place])
        if lacking and all(_predictable(fact, row, numbers) for fact in lacking):
            made.append(_Row(row, chance, tuple(choices[place] for choices in facts if choices[place]), lacking))
    made = _predicted(made, numbers)
    conditions = " ".join(fact.text for fact in alternative.facts if fact.subject is None)
    passed = _passing(conditions, made, known, deadline) if conditions else None
    for place, one in enumerate(made):
        kept = list(range(SAMPLES)) if passed is None else passed[place]
        if kept:
            share = INTERVAL ** len(one.predicted) if passed is None else len(kept) / SAMPLES
            yield one.bound(kept), one.chance * share


def with_values(
    explanation: Explanation, request: SparqlRequest, known: StoreRows, numbers: NumberPredictor, deadline: Deadline
) -> Explanation:
    """Adds the predicted numbers and dates of a row to the explanation of its entities; a row with predicted values is not known."""
    alternative = next(one for one in request.alternatives if one.query == explanation.query)
    entities = {name: Binding("entity", value, value) for name, value in explanation.assignment.items()}
    answer = explanation.answer
    for row, chance in with_numbers(alternative, [(entities, answer.probability)], known, numbers, deadline):
        values = {name: row[name] for name in request.shown if (one := row.get(name)) is not None and one.interval}
        note = VALUES if answer.known else f"{explanation.note} {VALUES}"
        explained = replace(answer, bindings={**answer.bindings, **values}, known=False, probability=chance)
        return replace(explanation, answer=explained, note=note, calibrated=True)
    return explanation


@dataclass(frozen=True)
class _Row:
    """A row whose values are partly known and partly predicted."""

    entities: Bindings
    chance: float
    """The probability of the entities; later times the probability that the predicted values exist."""
    known: tuple[list[Bindings], ...]
    """The known values of each pattern that has some."""
    lacking: tuple[LiteralFact, ...]
    """The patterns without a known value."""
    predicted: Mapping[str, Samples] = field(default_factory=dict)
    """The values of the variables of these patterns."""

    def written(self) -> list[dict[str, str]]:
        """Writes the values of each sample by the names of their variables."""
        found = []
        for number in range(SAMPLES):
            values = {name: _term(one) for choices in self.known for name, one in choices[number % len(choices)].items()}
            for place, (name, samples) in enumerate(self.predicted.items()):
                one = samples[_sample(number, place)]
                values[name] = str(Term(one.lexical, datatype=NamedNode(one.datatype)))
            found.append(values)
        return found

    def bound(self, kept: Sequence[int]) -> Bindings:
        """Returns the row, with the median of the samples that are kept and the interval around it."""
        found = dict(self.entities)
        for choices in self.known:
            found |= choices[0]
        for place, (name, samples) in enumerate(self.predicted.items()):
            own = sorted(_sample(number, place) for number in kept)
            low, middle, high = (samples[own[round(share * (len(own) - 1))]] for share in ((1 - INTERVAL) / 2, 0.5, (1 + INTERVAL) / 2))
            term = {"type": "literal", "value": middle.lexical, "datatype": middle.datatype}
            label = middle.label if low == high else f"{middle.label} ({low.label} to {high.label})"
            found[name] = Binding("literal", middle.lexical, label, term, (low.lexical, high.lexical))
        return found


def _sample(number: int, place: int) -> int:
    """Returns the sample of a predicted value with a number: a permutation, a different one for each place."""
    return number * int(pow(7, place)) % SAMPLES  # 7 and the number of samples have no common factor


def _predicted(rows: Sequence[_Row], numbers: NumberPredictor) -> list[_Row]:
    """Returns the rows with samples of their missing values, with one prediction for each relation."""
    ids, shares = numbers.scales.graph.entities.id, (np.arange(SAMPLES) + 0.5) / SAMPLES
    places: dict[str, list[tuple[int, LiteralFact]]] = {}
    for place, row in enumerate(rows):
        for fact in row.lacking:
            places.setdefault(fact.relation, []).append((place, fact))
    found = list(rows)
    for relation, asked in places.items():
        heads = [ids(_subject(fact, rows[place].entities)) for place, fact in asked]
        values, existence = numbers.tails(heads, relation), numbers.existence(heads, relation)
        for (place, fact), own, chance in zip(asked, values.quantiles(shares).tolist(), existence.tolist(), strict=True):
            assert fact.value is not None, "what is predicted is a variable"
            more = {fact.value.name: [numbers.literal(relation, number) for number in own]}
            found[place] = replace(found[place], chance=found[place].chance * chance, predicted={**found[place].predicted, **more})
    return found


def _passing(conditions: str, rows: Sequence[_Row], known: StoreRows, deadline: Deadline) -> list[list[int]]:
    """Returns for each row which of its samples meet conditions: their numbers, ascending."""
    found: list[list[int]] = [[] for _ in rows]
    lines = [(row, number, sample) for row, one in enumerate(rows) for number, sample in enumerate(one.written())]
    names = list(lines[0][2]) if lines else []
    head = " ".join(("?starqe_row", "?starqe_number", *(f"?{name}" for name in names)))
    for start in range(0, len(lines), AT_ONCE):
        part = lines[start : start + AT_ONCE]
        values = " ".join(f"({row} {number} {' '.join(sample[name] for name in names)})" for row, number, sample in part)
        block = f"VALUES ({head}) {{ {values} }} {conditions}"
        for one in known.select("?starqe_row ?starqe_number", block, deadline=deadline).rows:
            found[int(one["starqe_row"]["value"])].append(int(one["starqe_number"]["value"]))
    return [sorted(numbers) for numbers in found]


def _term(one: Binding | None) -> str:
    """Writes a literal in SPARQL; anything else is left open, since conditions are on literals alone."""
    if one is None or one.kind != "literal" or one.term is None:
        return "UNDEF"
    if language := one.term.get("xml:lang"):
        return str(Term(one.value, language=language))
    return str(Term(one.value, datatype=NamedNode(one.term.get("datatype", STRING))))


def _subject(fact: LiteralFact, row: Bindings) -> str:
    if not isinstance(fact.subject, Variable):
        return str(fact.subject)
    one = row.get(fact.subject.name)
    return one.value if one is not None else ""


def _predictable(fact: LiteralFact, row: Bindings, numbers: NumberPredictor) -> bool:
    """Returns whether the value of a pattern can be predicted: a variable, with a relation that has a scale, of an entity of the model."""
    return fact.value is not None and numbers.predicts(fact.relation) and _subject(fact, row) in numbers.scales.graph.entities

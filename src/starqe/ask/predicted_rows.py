"""The predicted rows of a request: the best candidates of its alternatives, with their labels, without what is known."""

from collections.abc import Iterator, Sequence
from itertools import product

from starqe.ask.answers import Binding
from starqe.ask.known_rows import Binder, Bindings, KnownRows, StoreRows, row_key
from starqe.ask.predicted_numbers import with_numbers
from starqe.ask.ranking import Ranked, Wanted
from starqe.deadline import NEVER, Deadline
from starqe.kg import Vocabulary
from starqe.queries.formula import Variable, relation_variables
from starqe.queries.sparql.groups import LabelPattern
from starqe.queries.sparql.request import Alternative, SparqlRequest
from starqe.reason.numbers import NumberPredictor

Predicted = list[tuple[Bindings, float]]
"""Rows with their probabilities, the most probable first."""
SURE: Ranked = [((), 1.0)]
"""The candidates of an alternative whose entities are all given."""
MOST_CANDIDATES = 1_000
"""The largest number of candidates of an alternative whose known rows are removed only afterwards."""


def wanted_of(request: SparqlRequest, known: KnownRows, count: int, deadline: Deadline = NEVER) -> list[Wanted]:
    """Returns the number of candidates to ask for in each alternative, so that there are enough rows."""
    found = []
    for place, alternative in request.predicted:
        values = known.values(place, deadline)
        shown = {*request.shown} >= {variable.name for variable in alternative.query.answers}
        # If a row shows only some of the variables, or known rows are too many to list, more candidates are needed.
        enough = shown and known.exact and not alternative.labels
        more = max(count, MOST_CANDIDATES)
        if not alternative.facts:  # else any number of candidates may lack the literals
            more = count if enough else min(2 * count + known.count, more)
        found.append(Wanted(alternative.query, values, more))
    return found


def predicted_rows(
    request: SparqlRequest,
    ranked: Sequence[Ranked],
    known: KnownRows,
    binder: Binder,
    deadline: Deadline = NEVER,
    numbers: NumberPredictor | None = None,
) -> Predicted:
    """Builds rows from the candidates of all alternatives: distinct, without the known ones, the most probable first.

    With ``numbers``, values that are not known are predicted.
    """
    best: dict[tuple[object, ...], tuple[Bindings, float]] = {}
    candidates_of = [(alternative, candidates) for (_, alternative), candidates in zip(request.predicted, ranked, strict=True)]
    candidates_of += [(alternative, SURE) for alternative in request.about_given if numbers is not None]
    for alternative, candidates in candidates_of:
        for row, chance in _rows(request, alternative, candidates, known, binder, numbers, deadline):
            key = row_key(row)
            if key not in best or best[key][1] < chance:
                best[key] = row, chance
    rows = list(best.values())
    fresh = known.among([row for row, _ in rows], deadline)
    left = [row for row, is_known in zip(rows, fresh, strict=True) if not is_known]
    return sorted(left, key=lambda row: -row[1])


def _rows(
    request: SparqlRequest,
    alternative: Alternative,
    ranked: Ranked,
    known: KnownRows,
    binder: Binder,
    numbers: NumberPredictor | None,
    deadline: Deadline,
) -> Iterator[tuple[Bindings, float]]:
    """Yields the rows of candidates; a candidate without the literals of the query, known or predicted, has no row."""
    if not alternative.facts:
        yield from ((_shown(request, row), chance) for row, chance in _entity_rows(alternative, ranked, binder))
        return
    assert isinstance(known, StoreRows), "patterns with literals are answered by a store"
    if numbers is not None and alternative.predicted:  # for a known entity, only the literal may be unknown
        sure = known.entities(alternative, MOST_CANDIDATES, deadline)
        ranked = [*((ids, 1.0) for ids in sure), *((ids, chance) for ids, chance in ranked if ids not in sure)]
    found = list(_entity_rows(alternative, ranked, binder)) if alternative.predicted else [({}, chance) for _, chance in ranked]
    literals = known.with_facts(alternative, [row for row, _ in found], deadline)
    for (row, chance), choices in zip(found, literals, strict=True):
        yield from ((_shown(request, {**row, **choice}), chance) for choice in choices)
    if numbers is not None:
        lacking = [one for one, choices in zip(found, literals, strict=True) if not choices]
        yield from ((_shown(request, row), chance) for row, chance in with_numbers(alternative, lacking, known, numbers, deadline))


def _shown(request: SparqlRequest, row: Bindings) -> Bindings:
    return {name: row.get(name) for name in request.shown}


def _entity_rows(alternative: Alternative, ranked: Ranked, binder: Binder) -> Iterator[tuple[Bindings, float]]:
    """Yields the bindings of candidates, by the names of all variables, with each choice of labels."""
    relations = relation_variables(alternative.query.formula)
    entities = binder.graph.entities
    given = {variable: binder.of_id("entity", entities.id(entity)) for variable, entity in alternative.given}
    for ids, chance in ranked:
        found = dict(given)
        for variable, id_ in zip(alternative.query.answers, ids, strict=True):
            found[variable] = binder.of_id("relation" if variable in relations else "entity", id_)
        named: Bindings = {variable.name: one for variable, one in found.items()}
        if not alternative.labels:
            yield named, chance
            continue
        choices = [_labels(label, found, binder) for label in alternative.labels]
        for choice in product(*choices):
            more = {label.variable.name: one for label, one in zip(alternative.labels, choice, strict=True) if one is not None}
            yield {**named, **more}, chance


def _labels(label: LabelPattern, found: dict[Variable, Binding], binder: Binder) -> list[Binding | None]:
    """Returns the labels that a row may show in one column; for a label that must be absent, one empty choice if there is none."""
    subject = found[label.subject] if isinstance(label.subject, Variable) else Binding("entity", label.subject, label.subject)
    vocabulary: Vocabulary = binder.graph.relations if subject.kind == "relation" else binder.graph.entities
    id_ = vocabulary.id(subject.value)
    own = [(by_id[id_], tag.lower()) for tag, by_id in vocabulary.labels.items() if id_ in by_id]
    fitting: list[Binding | None] = [
        Binding("literal", text, text, {"type": "literal", "value": text} | ({"xml:lang": language} if language else {}))
        for text, language in own
        if all(test(text, language) for test in label.tests)
    ]
    return ([] if fitting else [None]) if label.absent else fitting

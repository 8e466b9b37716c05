"""Turns numbers and dates into entities for ranges of values, so that a model of entities can use them."""

import dataclasses
from collections.abc import Iterator

import numpy as np

from starqe.errors import InputError
from starqe.kg.graph import Graph, canonical
from starqe.kg.literal import date_of
from starqe.kg.reading.report import Report
from starqe.kg.vocabulary import Vocabulary
from starqe.ragged import BoolArray, FloatArray, IntArray, Ragged

BUCKETS = 16
"""The largest number of ranges of one relation; they have about the same number of values."""


def bucketed(graph: Graph, report: Report, buckets: int = BUCKETS) -> Graph:
    """Returns a graph without literals: numbers and dates become entities for ranges of values, and the rest is left out and counted.

    The values of each relation and unit, as tails and in qualifiers, are divided at their quantiles. An entity is named after its
    relation and its smallest and largest value: ``hasArea 12.5 … 31 km2``.

    Args:
        graph: The graph.
        report: Where literals that are left out are counted.
        buckets: The largest number of ranges of one relation.

    Raises:
        InputError: No statement is left.
    """
    if not len(graph.literals):
        return graph
    entities, axes = len(graph.entities), graph.literals.axes[1]
    relation = np.concatenate([graph.relation, graph.pair_relation])
    value = np.concatenate([graph.tail, graph.pair_value]).astype(np.int64)
    place = np.where(value >= entities, value - entities, 0)
    ordered = (value >= entities) & (axes[place] > 0)
    for one, kind in _left_out(graph, relation, value, ordered):
        report.leave_out_literals(one, kind)
    names: list[str] = []
    for group in _groups(relation, np.where(ordered, axes[place], 0)):
        numbers = graph.literals.numbers[place[group]]
        which = np.searchsorted(_bounds(numbers, buckets), numbers, "right")
        for bucket in np.unique(which):
            inside = group[which == bucket]
            name = _name(graph, int(relation[inside[0]]), place[inside])
            names.append(name)
            value[inside] = graph.value_count + len(names) - 1
    made = _with_entities(graph, value, names)
    if not len(made):
        left_out = "; ".join(report.findings())
        raise InputError(
            f"without literals a graph has at least one statement, found none. {left_out}. To keep them, set the option literals to keep"
        )
    return made


def _left_out(graph: Graph, relation: IntArray, value: IntArray, ordered: BoolArray) -> Iterator[tuple[str, str]]:
    for row in np.flatnonzero((value >= len(graph.entities)) & ~ordered).tolist():
        yield graph.relations.identifier(int(relation[row])), graph.literals[value[row] - len(graph.entities)].kind


def _groups(relation: IntArray, axis: IntArray) -> Iterator[IntArray]:
    """Yields the places of each relation and axis other than 0."""
    places = np.flatnonzero(axis)
    code = relation[places].astype(np.int64) * (int(axis.max(initial=0)) + 1) + axis[places]
    order = np.argsort(code, kind="stable")
    yield from (part for part in np.split(places[order], np.flatnonzero(np.diff(code[order])) + 1) if len(part))


def _bounds(numbers: FloatArray, buckets: int) -> FloatArray:
    """Returns the inner bounds of the ranges: quantiles that are values, each once."""
    shares = np.arange(1, buckets) / buckets
    return np.unique(np.quantile(numbers, shares, method="nearest"))


def _name(graph: Graph, relation: int, places: IntArray) -> str:
    numbers = graph.literals.numbers[places]
    lowest, highest = graph.literals[places[np.argmin(numbers)]], graph.literals[places[np.argmax(numbers)]]
    texts = [date_of(one.number) if one.axis == "time" else one.lexical.strip() for one in (lowest, highest)]
    extent = texts[0] if texts[0] == texts[1] else " … ".join(texts)
    return f"{graph.relations.identifier(relation)} {extent} {lowest.unit}".strip()


def _with_entities(graph: Graph, value: IntArray, names: list[str]) -> Graph:
    """Returns the graph with more entities, whose ids follow those of the literals in ``value``; all literals are left out."""
    unique = sorted({*names, *graph.entities}, key=str.encode)
    ids = {name: id_ for id_, name in enumerate(unique)}
    missing = [-1] * len(graph.literals)
    new = np.array([*(ids[name] for name in graph.entities), *missing, *(ids[name] for name in names)], np.int64)
    labels = {language: {int(new[id_]): text for id_, text in by_id.items()} for language, by_id in graph.entities.labels.items()}
    vocabulary = Vocabulary(unique, labels)
    tail, pair_value = new[value[: len(graph)]], new[value[len(graph) :]]
    rows = np.flatnonzero(tail >= 0)
    pairs = Ragged(graph.pairs.offsets, np.stack([graph.pair_relation, pair_value], axis=1)).take(rows)
    columns = new[graph.head[rows]], graph.relation[rows], tail[rows], graph.split[rows], pairs.where(pairs.items[:, 1] >= 0)
    return dataclasses.replace(canonical(vocabulary, graph.relations, *columns)[0], names=graph.names, title=graph.title)

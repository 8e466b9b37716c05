"""Query tables and statements with a gap from plain columns, as tests write them by hand."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from starqe.queries import QueryTable, Shape
from starqe.queries.gaps import Gaps
from starqe.ragged import Ragged


def columns_of(table: QueryTable) -> list[list[Any]]:
    """Returns everything that a table holds as plain lists, to be compared."""
    arrays = table.anchors, table.relations, table.pairs.offsets, table.pairs.items, table.answers.offsets, table.answers.items
    return [array.tolist() for array in arrays]


def ragged_pairs(offsets: Any, relation: Any, value: Any) -> Ragged:
    return Ragged(np.asarray(offsets, np.int64), np.stack([np.asarray(relation, np.int32), np.asarray(value, np.int32)], axis=1))


def query_table(
    shape: Shape,
    anchors: Any,
    relations: Any,
    pair_offsets: Any,
    pair_relation: Any,
    pair_value: Any,
    answer_offsets: Any,
    answers: Any,
    header: Mapping[str, Any] | None = None,
) -> QueryTable:
    pairs = ragged_pairs(pair_offsets, pair_relation, pair_value)
    return QueryTable(
        shape, anchors, relations, pairs, Ragged(np.asarray(answer_offsets, np.int64), np.asarray(answers, np.int32)), header or {}
    )


def gaps_of_columns(
    head: Any,
    relation: Any,
    tail: Any,
    pair_offsets: Any,
    pair_relation: Any,
    pair_value: Any,
    answer_offsets: Any,
    answers: Any,
    weight: Any = None,
) -> Gaps:
    ends = (np.asarray(column) for column in (head, relation, tail))
    pairs = ragged_pairs(pair_offsets, pair_relation, pair_value)
    return Gaps(*ends, pairs, Ragged(np.asarray(answer_offsets, np.int64), np.asarray(answers, np.int64)), weight)

"""What is asked: shapes, queries, query tables with answers. Never imports torch."""

from starqe.queries.exact import answer, answer_rows, assignments, easy_and_hard
from starqe.queries.generate import SqlEngine, generate
from starqe.queries.hubs import hub_stats, hubs, in_degree
from starqe.queries.query import Query
from starqe.queries.settings import QuerySettings
from starqe.queries.shape import SHAPES, Shape, read_shapes
from starqe.queries.table import QueryTable, load_table, save_table
from starqe.queries.variants import reify, triple_only, unreify

__all__ = [
    "SHAPES",
    "Query",
    "QuerySettings",
    "QueryTable",
    "Shape",
    "SqlEngine",
    "answer",
    "answer_rows",
    "assignments",
    "easy_and_hard",
    "generate",
    "hub_stats",
    "hubs",
    "in_degree",
    "load_table",
    "read_shapes",
    "reify",
    "save_table",
    "triple_only",
    "unreify",
]

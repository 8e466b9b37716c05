"""What is asked: shapes, queries, query tables with answers. Never imports torch."""

from starqe.queries.exact.answers import answer, answer_rows, assignments, easy_and_hard
from starqe.queries.exact.solutions import Solutions, solve
from starqe.queries.formula import And, Atom, Not, Or, Variable
from starqe.queries.generate.generate import generate
from starqe.queries.generate.hubs import hub_stats, hubs, in_degree
from starqe.queries.generate.sample import sample, sample_queries, turned
from starqe.queries.generate.settings import QuerySettings
from starqe.queries.generate.sparql_engine import SparqlEngine
from starqe.queries.generate.sql import SqlEngine
from starqe.queries.query import Query
from starqe.queries.query_set import check_tables, load_queries, tables_of
from starqe.queries.shape import ALL_SHAPES, MORE_SHAPES, SHAPES, Shape, read_shapes
from starqe.queries.sparql.read import read_sparql
from starqe.queries.sparql.request import Alternative, SparqlRequest
from starqe.queries.stats import query_set_stats
from starqe.queries.table import QueryTable, load_table, save_table
from starqe.queries.variants import reify, triple_only, unreify

__all__ = [
    "ALL_SHAPES",
    "MORE_SHAPES",
    "SHAPES",
    "Alternative",
    "And",
    "Atom",
    "Not",
    "Or",
    "Query",
    "QuerySettings",
    "QueryTable",
    "Shape",
    "Solutions",
    "SparqlEngine",
    "SparqlRequest",
    "SqlEngine",
    "Variable",
    "answer",
    "answer_rows",
    "assignments",
    "check_tables",
    "easy_and_hard",
    "generate",
    "hub_stats",
    "hubs",
    "in_degree",
    "load_queries",
    "load_table",
    "query_set_stats",
    "read_shapes",
    "read_sparql",
    "reify",
    "sample",
    "sample_queries",
    "save_table",
    "solve",
    "tables_of",
    "triple_only",
    "turned",
    "unreify",
]

"""What is asked: shapes, queries, query tables with answers. Never imports torch."""

from starqe.queries.exact.answering import answer, answer_rows, assignments, easy_and_hard
from starqe.queries.exact.solutions import Solutions, solve
from starqe.queries.formula import And, Atom, Not, Or, Variable
from starqe.queries.generate.generate import generate
from starqe.queries.generate.hubs import hub_stats, hubs, in_degree
from starqe.queries.generate.sample import sample, sample_queries, turned
from starqe.queries.generate.settings import QuerySettings
from starqe.queries.generate.spark import SparkEngine
from starqe.queries.generate.sparql_engine import SparqlEngine
from starqe.queries.generate.sql import SqlEngine
from starqe.queries.layout import query_of_row, shape_of_query, table_of_query
from starqe.queries.query import Query
from starqe.queries.query_json import query_from_json, query_to_json
from starqe.queries.query_set import check_tables, load_queries, tables_of
from starqe.queries.sampling.benchmark import TYPES, named_types, sample_benchmark, sample_type
from starqe.queries.shape import ALL_SHAPES, MORE_SHAPES, SHAPES, Shape, read_shapes
from starqe.queries.sparql.read import read_sparql
from starqe.queries.sparql.request import Alternative, SparqlRequest
from starqe.queries.sparql.write import write_sparql
from starqe.queries.stats import query_set_stats
from starqe.queries.strict import strict_form, strictness_problem
from starqe.queries.table import QueryTable, load_table, save_table
from starqe.queries.text import logic, picture
from starqe.queries.variants import reify, triple_only, unreify

__all__ = [
    "ALL_SHAPES",
    "MORE_SHAPES",
    "SHAPES",
    "TYPES",
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
    "SparkEngine",
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
    "logic",
    "named_types",
    "picture",
    "query_from_json",
    "query_of_row",
    "query_set_stats",
    "query_to_json",
    "read_shapes",
    "read_sparql",
    "reify",
    "sample",
    "sample_benchmark",
    "sample_queries",
    "sample_type",
    "save_table",
    "shape_of_query",
    "solve",
    "strict_form",
    "strictness_problem",
    "table_of_query",
    "tables_of",
    "triple_only",
    "turned",
    "unreify",
    "write_sparql",
]

"""Mines rules from a graph, in SQL.

Only questions with a known answer count: ``body`` is the number of answers that a rule suggests for them,
``support`` the number of these that are known. **A statement never supports itself**: what a rule concludes from a statement, or from its
qualifiers, is another statement.
"""

import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np

from starqe.kg import Known
from starqe.queries.generate.sql_tables import DuckTables
from starqe.ragged import FloatArray, IntArray
from starqe.reason.rules.rule_table import ABSENT, Rules
from starqe.reason.rules.walks import FIRST_KEY, Steps
from starqe.seed import generator

LEAST_SUPPORT = 3
"""The minimum support of a rule."""
LEAST_CONFIDENCE = 0.01
"""The minimum of the lower bound of a rule's confidence."""
Z = 1.645
"""The lower bound is below the true confidence in 95 of 100 cases."""
COUNTED = 1_000_000
"""In larger graphs, paths are counted on random entities that have this number of steps together."""

# ``step(row, k, x, y)`` has all steps, ``narrow`` those that rules take, ``counted`` the entities that paths are counted on, and ``asks``
# the kinds of steps from each entity, with the first and the last statement that has one. Few entities have the values that a shared-value
# rule names, so these rules are counted on all entities.
_TABLES = """
CREATE TABLE asks AS SELECT k AS h, x, min(row) AS one, max(row) AS other FROM step GROUP BY k, x;
CREATE TABLE asked AS SELECT step.* FROM step SEMI JOIN counted USING (x);
CREATE TABLE start AS SELECT narrow.* FROM narrow SEMI JOIN counted USING (x);
"""

_PATH_OF_ONE = """
SELECT h, k AS first, -1 AS second, -1 AS value, -1 AS answer, any_value(support) AS support, count(DISTINCT (x, y)) AS body
FROM (SELECT a.k AS h, b.k AS k, count(DISTINCT (a.x, a.y)) AS support
      FROM asked a JOIN start b ON a.x = b.x AND a.y = b.y AND a.row <> b.row
      GROUP BY a.k, b.k HAVING support >= $least) found
JOIN start USING (k) JOIN asks USING (h, x)
WHERE NOT (asks.one = start.row AND asks.other = start.row)
GROUP BY h, k
"""

_PATHS_OF_TWO = """
CREATE TABLE right_paths AS
SELECT a.k AS h, b.k AS k, c.k AS l, count(DISTINCT (a.x, a.y)) AS support
FROM asked a JOIN start b ON a.x = b.x AND a.row <> b.row
JOIN narrow c ON b.y = c.x AND c.y = a.y AND c.row <> a.row AND c.row <> b.row
WHERE a.x <> a.y
GROUP BY a.k, b.k, c.k HAVING support >= $least;
CREATE TABLE reach AS
SELECT k, l, x, count(DISTINCT y) AS count
FROM (SELECT b.k AS k, c.k AS l, b.x AS x, c.y AS y FROM start b JOIN narrow c ON b.y = c.x AND b.row <> c.row
      SEMI JOIN right_paths ON right_paths.k = b.k AND right_paths.l = c.k WHERE b.x <> c.y)
GROUP BY k, l, x;
"""

_PATH_OF_TWO = """
SELECT h, k AS first, l AS second, -1 AS value, -1 AS answer, any_value(support) AS support, sum(count)::BIGINT AS body
FROM reach JOIN asks USING (x) JOIN right_paths USING (h, k, l)
GROUP BY h, k, l
"""

_SHARED_VALUES = """
CREATE TABLE often AS SELECT k, y FROM narrow GROUP BY k, y HAVING count(DISTINCT x) >= $least;
CREATE TABLE shared AS
SELECT a.k AS h, b.k AS k, b.y AS value, a.y AS answer, count(DISTINCT a.x) AS support
FROM (SELECT narrow.* FROM narrow SEMI JOIN often USING (k, y)) a
JOIN (SELECT narrow.* FROM narrow SEMI JOIN often USING (k, y)) b ON a.x = b.x AND a.row <> b.row
GROUP BY a.k, b.k, b.y, a.y HAVING support >= $least;
CREATE TABLE shared_body AS
SELECT found.h AS h, found.k AS k, value, count(DISTINCT narrow.x) AS body
FROM (SELECT DISTINCT h, k, value FROM shared) found
JOIN narrow ON narrow.k = found.k AND narrow.y = found.value JOIN asks ON asks.h = found.h AND asks.x = narrow.x
WHERE NOT (asks.one = narrow.row AND asks.other = narrow.row)
GROUP BY found.h, found.k, value;
"""

_SHARED_VALUE = """
SELECT h, k AS first, -1 AS second, value, answer, support, body FROM shared JOIN shared_body USING (h, k, value)
"""

_GIVEN_VALUE = """
SELECT k AS h, -1 AS first, -1 AS second, x AS value, y AS answer, count(*) AS support, any_value(body) AS body
FROM step JOIN (SELECT k, x, count(*) AS body FROM step SEMI JOIN from_qualifier USING (k) GROUP BY k, x) USING (k, x)
GROUP BY k, x, y HAVING support >= $least
"""

_USUAL = """
SELECT k AS h, -1 AS first, -1 AS second, -1 AS value, y AS answer, count(DISTINCT x) AS support, any_value(body) AS body
FROM step JOIN (SELECT k, count(DISTINCT x) AS body FROM step GROUP BY k) USING (k)
GROUP BY k, y HAVING support >= $least
"""

_RULES = (_PATH_OF_ONE, _PATH_OF_TWO, _SHARED_VALUE, _GIVEN_VALUE, _USUAL)


def mine(known: Known, seed: int = 0) -> Rules:
    """Mines the rules of known statements; other statements of the graph are ignored.

    Args:
        known: The statements.
        seed: Decides which entities rules of large graphs are counted on.
    """
    steps = Steps.of(known)
    with tempfile.TemporaryDirectory() as spill, closing(DuckTables(Path(spill))) as tables:
        _fill(tables, steps, seed)
        database = tables.connection
        for text in (_TABLES, _PATHS_OF_TWO, _SHARED_VALUES):
            for command in filter(str.strip, text.split(";")):
                database.execute(command.replace("$least", str(LEAST_SUPPORT)))
        union = " UNION ALL ".join(f"({query})" for query in _RULES).replace("$least", str(LEAST_SUPPORT))
        found = database.sql(f"SELECT * FROM ({union}) ORDER BY ALL").fetchnumpy()
    columns = {name: np.asarray(column, np.int64) for name, column in found.items()}
    support, body = columns["support"], columns["body"]
    confidence = lower_bound(support, body)
    kinds = np.append(steps.kinds, ABSENT)  # the kind -1 is the last
    head, first, second = (kinds[columns[name]] for name in ("h", "first", "second"))
    kept = np.flatnonzero(confidence >= LEAST_CONFIDENCE)
    kept = kept[np.lexsort((-confidence[kept], head[kept]))]
    ids = (head, first, second, columns["value"], columns["answer"], support, body)
    head, first, second, value, answer, support, body = (np.asarray(column[kept], np.int64) for column in ids)
    return Rules(known.graph, head, first, second, value, answer, support, body, confidence[kept])


def _fill(tables: DuckTables, steps: Steps, seed: int) -> None:
    """Makes the tables that rules are mined from."""
    columns = {"row": steps.row, "k": steps.kind, "x": steps.source, "y": steps.target}
    tables.fill("step", {name: column.astype(np.int32) for name, column in columns.items()})
    tables.fill("narrow", {name: column[steps.narrow].astype(np.int32) for name, column in columns.items()})
    places = len(steps.graph.relations) + FIRST_KEY
    tables.fill("from_qualifier", {"k": np.flatnonzero(steps.kinds // places % places >= FIRST_KEY).astype(np.int32)})
    tables.fill("counted", {"x": _counted(steps, seed).astype(np.int32)})


def _counted(steps: Steps, seed: int) -> IntArray:
    """Returns the entities on which rules are counted: all, or as many random ones as have `COUNTED` steps together."""
    sources, counts = np.unique(steps.source, return_counts=True)
    order = generator(seed, "entities that rules are counted on").permutation(len(sources))
    return np.asarray(sources[order[np.cumsum(counts[order]) - counts[order] < COUNTED]])


def lower_bound(support: IntArray, body: IntArray) -> FloatArray:
    """Computes the lower bound of a share by Wilson's score: (n,)."""
    share, spread = support / body, Z * Z / body
    return np.asarray((share + spread / 2 - Z * np.sqrt((share * (1 - share) + spread / 4) / body)) / (1 + spread))

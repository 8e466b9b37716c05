"""The oracle: the results of a perfect model that cannot see qualifiers (the paper's appendix on the oracle).

It knows how often each entity answers a *stripped* query (the query without its qualifier pairs) and orders entities by
that frequency. Queries that differ in their qualifiers only get the same order, so it cannot be perfect. Entities of
equal frequency are in every order equally likely: the metrics are expectations over these orders, in closed form.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from starqe.kg.statement import SPLITS
from starqe.measure.metrics import TERMS, Accumulator
from starqe.measure.ranks import Ranks, greater_and_equal
from starqe.measure.rows import Row, report
from starqe.queries.table import QueryTable
from starqe.ragged import FloatArray, IntArray

SOURCES: Mapping[str, tuple[str, ...]] = {
    "test": ("test",),
    "all splits": SPLITS,
    "merged": SPLITS,
}
"""Where the frequencies come from, by the splits of the tables:

- ``test``: the test queries alone (the MRR of the paper's main table);
- ``all splits``: the tables of all splits, one after the other (its Hits@10, and its appendix);
- ``merged``: the same, but a query and answer that occur in several tables count once.
"""


def oracle(
    tables: Mapping[str, Mapping[str, QueryTable]], entities: int, source: str = "all splits", *, replicates: int = 200, seed: int = 0
) -> list[Row]:
    """Returns the rows of the oracle on the test queries: every metric, average and shape, by the protocol ``paper``.

    Args:
        tables: The tables, by split and then by shape; splits that the source does not name are ignored.
        entities: The number of entities: all compete, those never seen in the last place.
        source: A key of SOURCES.
        replicates: Bootstrap replicates for the confidence intervals over queries.
        seed: The seed of the bootstrap.
    """
    sums = {}
    for shape, table in tables["test"].items():
        ranks = oracle_ranks(table, [tables[split][shape] for split in SOURCES[source]], entities, merged=source == "merged")
        sums[shape] = Accumulator(replicates, seed, shape)
        sums[shape].add_terms(expected_terms(ranks), table.answers.counts)
    return report(sums, dict.fromkeys(sums, 0), name=f"Oracle ({source})", protocol="paper", seed=None, ties="expected")


def oracle_ranks(table: QueryTable, sources: Sequence[QueryTable], entities: int, *, merged: bool = False) -> Ranks:
    """Ranks the listed answers of a table by how often they answer the same stripped query in the sources.

    Args:
        table: The queries to answer; their own other answers are filtered.
        sources: The tables to count in, of the same shape.
        entities: The number of entities; those that never answer a stripped query share its last place.
        merged: Whether a query and answer that occur in several sources count once.
    """
    group, *source_groups = _codes([_stripped(part) for part in (table, *sources)])
    seen, frequency = _frequencies(sources, source_groups, entities, merged)  # pairs of stripped query and answer, ascending
    counts, query = table.answers.counts, table.answers.owner
    answer_group = group[query]
    own = _look_up(seen, frequency, answer_group * entities + table.answers.items)
    better, equal = greater_and_equal(seen // entities, frequency, answer_group, own)
    unseen = entities - _look_up(*np.unique(seen // entities, return_counts=True), answer_group)
    equal = np.where(own == 0, unseen, equal)
    above, level = greater_and_equal(query, own, query, own)  # what the query's own answers added; level counts the answer itself
    return Ranks(better - above, equal - level + 1, entities - counts[query] + 1)


def expected_terms(ranks: Ranks) -> FloatArray:
    """Returns the expectation of every term when equal candidates come in any order with the same probability: (n, terms).

    The rank is uniform from ``better + 1`` to ``better + equal``, so ``E[rank <= k] = clip(k - better, 0, equal) / equal``
    and ``E[1 / rank] = (H(better + equal) - H(better)) / equal`` with the harmonic numbers H.
    """
    better, equal = ranks.better, ranks.equal
    harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, ranks.worst.max(initial=0) + 1))])
    expected = {
        **{f"hits@{k}": np.clip(k - better, 0, equal) / equal for k in (1, 3, 10)},
        "reciprocal rank": (harmonic[ranks.worst] - harmonic[better]) / equal,
        "rank": ranks.realistic,
        "expected rank": (ranks.candidates + 1) / 2,
    }
    return np.stack([expected[term] for term in TERMS], axis=1)


def _frequencies(sources: Sequence[QueryTable], groups: Sequence[IntArray], entities: int, merged: bool) -> tuple[IntArray, IntArray]:
    """Counts how often each pair of a stripped query and an answer, packed as one number, occurs in the sources."""
    owners = [source.answers.owner for source in sources]
    answers = np.concatenate([source.answers.items for source in sources])
    pairs = np.concatenate([group[owner] for group, owner in zip(groups, owners, strict=True)]) * entities + answers
    if merged:
        most = max(int(source.pairs.counts.max(initial=0)) for source in sources)
        whole = _codes([_whole(source, most) for source in sources])
        queries = np.concatenate([code[owner] for code, owner in zip(whole, owners, strict=True)])
        pairs = pairs[np.unique(queries * entities + answers, return_index=True)[1]]
    return np.unique(pairs, return_counts=True)


def _look_up(keys: IntArray, values: IntArray, probe: IntArray) -> IntArray:
    """Returns the value of each probed key, and 0 for a missing one; the keys are ascending."""
    place = np.minimum(np.searchsorted(keys, probe), max(len(keys) - 1, 0))
    return np.where(keys[place] == probe, values[place], 0) if len(keys) else np.zeros(len(probe), np.int64)


def _stripped(table: QueryTable) -> IntArray:
    """The constants of each query without its qualifier pairs: (n, A + E)."""
    return np.concatenate([table.anchors, table.relations], axis=1)


def _whole(table: QueryTable, most: int) -> IntArray:
    """The constants of each query with its qualifier pairs, and -1 where an edge has fewer than the most: (n, A + E + E * most * 2)."""
    n, edges = table.relations.shape
    pairs = np.full((n * edges, most, 2), -1, np.int32)
    pairs[table.pairs.owner, table.pairs.within] = table.pairs.items
    return np.concatenate([_stripped(table), pairs.reshape(n, -1)], axis=1)


def _codes(tables: Sequence[IntArray]) -> list[IntArray]:
    """Numbers the distinct rows of some tables: equal rows, of the same or of different tables, get equal numbers."""
    rows = np.concatenate(tables).astype(np.int64)
    code, size = np.zeros(len(rows), np.int64), 1
    for column in rows.T + 1:
        span = int(column.max(initial=0)) + 1
        if size * span >= 1 << 63:  # the next column does not fit into the number: renumber first
            found, code = np.unique(code, return_inverse=True)
            size = len(found)
        code, size = code * span + column, size * span
    found, code = np.unique(code, return_inverse=True)
    return np.split(code, np.cumsum([len(table) for table in tables])[:-1])

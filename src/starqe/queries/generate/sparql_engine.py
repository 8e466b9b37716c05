"""The paper's method: a SPARQL store matches shapes, embedded or at any endpoint.

Much slower than SQL, and an independent check of it: the store handles the joins, the splits, the hubs and the
qualifiers. This module only does what depends on ids: it sorts pairs, and keeps one of several equal queries.
"""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyoxigraph import BlankNode, NamedNode, QuerySolution, QuerySolutions, RdfFormat, Store, parse

from starqe.errors import InputError, UnsupportedError
from starqe.kg import Graph
from starqe.kg.iris import Names
from starqe.kg.rdf.write import SPLIT_GRAPH, write_nquads
from starqe.queries.generate.database import QueryDatabase, Work
from starqe.queries.generate.edges import Constants
from starqe.queries.generate.endpoint import check_endpoint, select
from starqe.queries.generate.formulas import node_variable, pair_variables, shape_sparql, solution_variables
from starqe.queries.generate.keys import key_names, pack
from starqe.queries.generate.settings import QuerySettings
from starqe.queries.generate.sql_tables import DuckTables
from starqe.queries.generate.symmetry import symmetries
from starqe.queries.shape import TARGET, Shape, node_kind
from starqe.ragged import BoolArray, IntArray

BATCH = 100_000
"""Number of solutions in memory at a time."""

Columns = Mapping[str, IntArray]
"""Solutions by ids: SPARQL variable -> (n,) int64."""


class SparqlEngine:
    """Finds solutions by SPARQL: in an embedded store that holds the graph, or at an endpoint that does.

    An endpoint has a named graph for each split, with the triples and reifiers that `write_nquads` writes.

    Args:
        graph: The graph.
        spill: A folder for what does not fit in memory.
        threads: The threads that group solutions; all cores if left out.
        memory: Beyond this it spills.
        names: How its identifiers are written in RDF; left out, as the graph says.
        endpoint: The address of an endpoint; left out, the embedded store is used.
        split_graph: What the IRI of a split's named graph begins with; the name of the split follows.
        timeout: After this many seconds of silence an endpoint counts as failed.

    Raises:
        InputError: The endpoint is not an http(s) address.
        UnsupportedError: The graph has blank nodes, and an endpoint would give them other names.
    """

    def __init__(
        self,
        graph: Graph,
        spill: Path | None = None,
        threads: int | None = None,
        memory: str = "4GB",
        *,
        names: Names | None = None,
        endpoint: str | None = None,
        split_graph: str = SPLIT_GRAPH,
        timeout: float = 3600.0,
    ) -> None:
        self._graph, self._names = graph, names or graph.names
        self._endpoint, self._split_graph, self._timeout = endpoint, split_graph, timeout
        self._entities = [self._names.entities.term(identifier) for identifier in graph.entities]
        self._entity_ids: dict[object, int] = {term: id_ for id_, term in enumerate(self._entities)}
        relations = map(self._names.relations.term, graph.relations)
        self._relation_ids: dict[object, int] = {term: id_ for id_, term in enumerate(relations)}
        if endpoint is not None:
            check_endpoint(endpoint)
            if blank := next((term for term in self._entities if isinstance(term, BlankNode)), None):
                raise UnsupportedError(f"an endpoint gives blank nodes new names, and this graph has {blank}. Use the embedded store")
        self._tables = DuckTables(spill, threads, memory)
        self._database = QueryDatabase(graph, self._tables)

    def close(self) -> None:
        """Closes the database."""
        self._database.close()

    def solve(self, shape: Shape, split: str, settings: QuerySettings) -> Iterator[pa.Table]:
        """Yields the queries of a shape, with their answers, in the seeded order.

        Raises:
            InputError: The endpoint holds another graph, or refuses a query.
            StorageError: The endpoint cannot be reached, or fails.
            UnsupportedError: The shape is not a conjunction over heads and tails.
        """
        if not shape.plain:
            raise UnsupportedError(
                f"the engine 'sparql' finds conjunctions over heads and tails, as the paper did, found shape '{shape.name}' "
                f"('{shape.text}'). Use the engine 'sql'"
            )
        work, database = self._database.work(shape, split, settings), self._tables.connection
        numbers = [f"k{edge}" for edge in range(len(shape.edges))]
        key = pack(numbers, work.radix)
        database.execute(f"CREATE TABLE found ({', '.join(f'{name} INT' for name in numbers)}, answer INT)")
        for columns in self._found(work):
            database.register("incoming", pa.table(dict(zip([*numbers, "answer"], columns, strict=True))))
            database.execute("INSERT INTO found FROM incoming")
            database.unregister("incoming")
        groups = f"{', '.join(key_names(work.radix))}, answer"
        self._tables.make("solved", f"SELECT {key}, answer, count(*) AS solutions FROM found GROUP BY {groups}")
        database.execute("DROP TABLE found")
        yield from self._database.queries(work, settings)

    def _found(self, work: Work) -> Iterator[list[IntArray]]:
        """Yields the rows of the paper's bag in batches: the numbers of the edges' constants, and the answer."""
        hubs = [(hub, self._entities[hub]) for hub in work.hubs.tolist()]
        named = [str(term) for _, term in hubs if isinstance(term, NamedNode)]
        nameless = [hub for hub, term in hubs if isinstance(term, BlankNode)]  # SPARQL cannot name them, so they are removed here
        positions: Sequence[int | None] = [None] if work.split == "train" else range(len(work.shape.edges))
        for counts in product(*(range(fewest, most + 1) for fewest, most in work.counts)):
            numberings = [_numbering(constants, count) for constants, count in zip(work.constants, counts, strict=True)]
            for position in positions:
                text = shape_sparql(work.shape, counts, work.split, position, named, self._split_graph)
                for columns in self._solutions(text, solution_variables(work.shape, counts)):
                    found = _Solutions(work, counts, columns).without(nameless).with_ascending_pairs()
                    numbers = [self._numbers(found.constants_of(edge), numbering) for edge, numbering in enumerate(numberings)]
                    first = found.is_first_of_its_equals(numbers)
                    yield [column[first].astype(np.int32) for column in (*numbers, found.columns[node_variable(TARGET)])]

    def _solutions(self, text: str, variables: Sequence[str]) -> Iterator[Columns]:
        """Runs a query, and yields its solutions by ids, in batches."""
        solutions: Iterable[QuerySolution]
        if self._endpoint is None:
            results = self._store.query(text)
            assert isinstance(results, QuerySolutions)
            solutions = results
        else:
            solutions = select(self._endpoint, text, variables, self._timeout)
        rows = iter(solutions)
        while batch := list(islice(rows, BATCH)):
            # Converted to columns at once: reading each variable of each solution takes three times as long.
            yield {name: self._ids(name, terms) for name, terms in zip(variables, zip(*batch, strict=True), strict=True)}

    def _ids(self, variable: str, terms: Sequence[object]) -> IntArray:
        ids = self._relation_ids if variable.startswith(("?relation_", "?key_")) else self._entity_ids
        try:
            return np.fromiter(map(ids.__getitem__, terms), np.int64, len(terms))
        except KeyError as error:
            raise self._other_graph(f"{variable} is {error.args[0]}, which this graph does not have") from None

    def _numbers(self, constants: IntArray, numbering: Mapping[tuple[int, ...], int]) -> IntArray:
        try:
            return np.fromiter(map(numbering.__getitem__, map(tuple, constants.tolist())), np.int64, len(constants))
        except KeyError:
            raise self._other_graph("it has a statement that this graph does not have") from None

    def _other_graph(self, what: str) -> InputError:
        return InputError(
            f"{self._endpoint or 'the store'}: an endpoint holds the graph that queries are generated from, with the same names; "
            f"this one holds another: {what}. Load the graph there as 'starqe data export' writes it"
        )

    @cached_property
    def _store(self) -> Store:
        """The embedded store with the graph in it."""
        store = Store()
        with tempfile.TemporaryDirectory() as folder:
            (path,) = write_nquads(self._graph, Path(folder) / "graph.nq", self._names)
            store.bulk_extend(parse(path=str(path), format=RdfFormat.N_QUADS))  # bulk_load would rename blank nodes
        return store


@dataclass(frozen=True)
class _Solutions:
    """Solutions of a shape whose edges have these numbers of pairs."""

    work: Work
    counts: Sequence[int]
    columns: Columns

    def _only(self, keep: BoolArray) -> "_Solutions":
        return _Solutions(self.work, self.counts, {name: column[keep] for name, column in self.columns.items()})

    def without(self, hubs: Sequence[int]) -> "_Solutions":
        """Removes solutions with one of these hubs at a join."""
        joins = [self.columns[node_variable(node)] for node in self.work.shape.joins]
        return self._only(~np.logical_or.reduce([np.isin(column, hubs) for column in joins])) if joins and hubs else self

    def with_ascending_pairs(self) -> "_Solutions":
        """Keeps one order of the pairs of each edge, without duplicates."""
        keep = np.ones(len(self.columns[node_variable(TARGET)]), bool)
        for edge, count in enumerate(self.counts):
            pairs = [(self.columns[key], self.columns[value]) for key, value in pair_variables(edge, count)]
            for (key, value), (next_key, next_value) in pairwise(pairs):
                keep &= (key < next_key) | ((key == next_key) & (value < next_value))
        return self._only(keep)

    def constants_of(self, edge: int) -> IntArray:
        """Returns the constants of an edge for each solution, in the order of `_numbering`: (n, constants)."""
        head, tail = self.work.shape.edges[edge]
        names = [node_variable(node) for node in (head, tail) if node_kind(node) == "anchor"]
        names += [f"?relation_{edge}", *(name for pair in pair_variables(edge, self.counts[edge]) for name in pair)]
        return np.stack([self.columns[name] for name in names], axis=1)

    def is_first_of_its_equals(self, numbers: Sequence[IntArray]) -> BoolArray:
        """Returns for each solution whether no symmetry of the shape turns its query into one with smaller numbers."""
        first, ranges = np.ones(len(numbers[0]), bool), self.work.counts
        symmetry = symmetries(self.work.shape, ranges)
        for one, other in symmetry.ascending:
            first &= numbers[one] <= numbers[other]
        for image in (found.edges for found in symmetry.images):
            if not all(ranges[edge][0] <= self.counts[other] <= ranges[edge][1] for edge, other in enumerate(image)):
                continue
            smaller, equal = np.zeros(len(first), bool), np.ones(len(first), bool)
            for edge, other in enumerate(image):
                smaller |= equal & (numbers[other] < numbers[edge])
                equal &= numbers[other] == numbers[edge]
            first &= ~(smaller & self._image_exists(image))
        return first

    def _image_exists(self, image: Sequence[int]) -> BoolArray:
        """Returns for each solution whether the edges that share an anchor still agree about it in the image."""
        edges = self.work.shape.edges
        given: dict[str, IntArray] = {}
        exists = np.ones(len(self.columns[node_variable(TARGET)]), bool)
        for edge, other in enumerate(image):
            for node, its in zip(edges[edge], edges[other], strict=True):
                if node_kind(node) == "anchor":
                    column = self.columns[node_variable(its)]
                    exists &= given.setdefault(node, column) == column
        return exists


def _numbering(constants: Constants, count: int) -> dict[tuple[int, ...], int]:
    """Numbers the constants of an edge with this many pairs: the anchors, the relation, then the pairs."""
    sets = constants.sets
    numbers = np.flatnonzero(sets.counts[constants.pair_set] == count)
    pairs = sets.take(constants.pair_set[numbers]).items.reshape(len(numbers), 2 * count)
    ends = [column[numbers] for column in (constants.head, constants.tail) if column is not None]
    rows = np.column_stack([*ends, constants.relation[numbers], pairs])
    return dict(zip(map(tuple, rows.tolist()), numbers.tolist(), strict=True))

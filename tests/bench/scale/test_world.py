import hashlib
from pathlib import Path

import numpy as np
import pytest

from starqe.bench.scale.world import COMMUNITY, QUALIFIERS, ROLES, World
from starqe.bench.scale.world_folder import GRAPH, STATEMENTS, write_world
from starqe.errors import InputError, StorageError
from starqe.kg import Graph, load_graph
from starqe.kg.exchange import import_graph
from starqe.kg.reading.import_options import Columns
from starqe.kg.split import check_split

WORLD = World(2_000, seed=3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("world") / "world"
    write_world(WORLD, folder)
    return folder


@pytest.fixture(scope="module")
def graph(folder: Path) -> Graph:
    return load_graph(folder / GRAPH)


def hashes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.rglob("*") if path.is_file()}


def test_the_same_seed_gives_the_same_bytes_and_another_one_does_not(folder, tmp_path):
    write_world(World(2_000, seed=3), tmp_path / "again")
    write_world(World(2_000, seed=4), tmp_path / "other")
    assert hashes(folder) == hashes(tmp_path / "again")
    assert hashes(folder)["graph/statements.parquet"] != hashes(tmp_path / "other")["graph/statements.parquet"]


def test_the_content_does_not_depend_on_the_size_of_the_chunks():
    (whole,) = WORLD.chunks(10_000)
    parts = list(WORLD.chunks(333))
    for name in ("head", "relation", "tail", "split", "values"):
        np.testing.assert_array_equal(np.concatenate([getattr(part, name) for part in parts]), getattr(whole, name))


def test_the_tables_are_imported_as_the_graph_that_is_beside_them(folder, graph):
    imported, _ = import_graph(folder / STATEMENTS, columns=Columns("head", "relation", "tail", QUALIFIERS))
    assert imported.fingerprint == graph.fingerprint
    assert imported.entities.identifier(7) == WORLD.identifier(7) == "e0007"


def test_the_split_is_clean_and_the_sizes_are_as_asked(graph):
    assert check_split(graph).clean
    assert len(graph.entities) == 2_000
    assert 4.5 < len(graph) / 2_000 < 5.1  # in small worlds, roles and years with one statement each weigh more
    held_out = np.bincount(graph.split)[1:] / len(graph)
    assert (held_out > 0.01).all()
    assert (held_out < 0.025).all()


@pytest.mark.parametrize("wanted", [2, 12])
def test_the_mean_number_of_statements_follows_the_wish(wanted):
    count = sum(len(chunk.head) for chunk in World(20_000, wanted).chunks())
    assert abs(count / 20_000 / wanted - 1) < 0.08


def test_degrees_have_a_long_tail(graph):
    incoming = np.sort(np.bincount(graph.tail, minlength=2_000))[::-1]
    outgoing = np.sort(np.bincount(graph.head, minlength=2_000))[::-1]
    assert incoming[20] > 15 * np.median(incoming)
    assert outgoing[0] > 8 * np.median(outgoing)
    assert outgoing[-1] == 1


def relation_rows(graph: Graph, name: str) -> np.ndarray:
    return np.flatnonzero(graph.relation == graph.relations.id(name))


def test_partners_are_symmetric_and_functions_have_one_tail(graph):
    rows = relation_rows(graph, "partner_of")
    partner = dict(zip(graph.head[rows].tolist(), graph.tail[rows].tolist(), strict=True))
    both = [head for head, tail in partner.items() if tail in partner]
    assert len(both) > 20
    assert all(partner[partner[head]] == head for head in both)
    for name in ("relation_03", "relation_04"):
        heads = graph.head[relation_rows(graph, name)]
        assert len(heads) > 30
        assert len(heads) == len(np.unique(heads))


def test_a_composition_is_the_function_of_the_function(graph):
    functions = {}
    for type_ in range(12):
        rows = relation_rows(graph, f"relation_{5 * type_ + 3:02d}")
        functions.update(zip(graph.head[rows].tolist(), graph.tail[rows].tolist(), strict=True))
    checked = 0
    for type_ in range(12):
        for row in relation_rows(graph, f"relation_{5 * type_ + 4:02d}").tolist():
            middle = functions.get(graph.head[row])
            if middle is not None and middle in functions:
                assert functions[middle] == graph.tail[row]
                checked += 1
    assert checked > 5


def test_a_relation_sends_a_community_to_one_community_and_the_role_decides_which(graph):
    """The share of tails in the most frequent community of their head's community: the regularity to learn."""
    start = WORLD.starts[0]
    community = (np.arange(2_000) - start) // COMMUNITY  # of the first type, whose communities begin at its start

    def share(rows: np.ndarray, *by: np.ndarray) -> float:
        type_of_tail = np.searchsorted(WORLD.starts, graph.tail[rows], side="right") - 1
        tails = (graph.tail[rows] - WORLD.starts[type_of_tail]) // COMMUNITY
        groups: dict[tuple[int, ...], list[int]] = {}
        for *key, tail in zip(community[graph.head[rows]], *by, tails, strict=True):
            groups.setdefault(tuple(map(int, key)), []).append(int(tail))
        return sum(np.bincount(found).max() for found in groups.values()) / len(rows)

    assert share(relation_rows(graph, "relation_00")) > 0.85
    rows = relation_rows(graph, "relation_02")
    assert all(graph.relations.identifier(graph.pairs_of(row)[0][0]) == "role" for row in rows.tolist())
    role = np.array([graph.pairs_of(row)[0][1] for row in rows.tolist()])
    assert set(role.tolist()) == set(range(ROLES))
    assert share(rows, role) > 0.85 > share(rows) + 0.1


def test_a_world_that_is_too_small_or_too_sparse_is_refused(folder):
    with pytest.raises(InputError, match="from 1,000 to 2,147,483,647 entities, found 10"):
        World(10)
    with pytest.raises(InputError, match="from 2 to 100 statements per entity, found 1"):
        World(1_000, 1)
    with pytest.raises(StorageError, match="exists already"):
        write_world(WORLD, folder)

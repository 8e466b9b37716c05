"""Updates: ids stay, what is new is appended, and a diff turns one graph into the other."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from starqe import folders
from starqe.errors import InputError, StorageError
from starqe.kg import Changes, Draft, Graph, Statement, diff_graphs, graph_of, load_graph, save_graph, update_graph
from starqe.kg.graph_folder import graph_header
from starqe.kg.update import UpdateReport
from tests.kg.contents import contents
from tests.kg.strategies import graphs

OLD = graph_of(
    train=[Statement("b", "r", "d", (("q", "b"),)), Statement("d", "r", "b")],
    valid=[Statement("d", "s", "d")],
    test=[Statement("b", "s", "d")],
)
"""Entities b, d and relations q, r, s, with ids in this order."""


def test_new_identifiers_are_appended_and_old_ids_stay():
    new = graph_of([Statement("a", "r", "e", (("p", "c"),))])
    grown, report = update_graph(OLD, Changes.of([new]))
    assert list(grown.entities) == ["b", "d", "a", "c", "e"]
    assert list(grown.relations) == ["q", "r", "s", "p"]
    assert contents(grown) == contents(OLD) | contents(new)
    assert report == UpdateReport(added=1, new_entities=3, new_relations=1)
    assert list(grown.entities)[: len(OLD.entities)] == list(OLD.entities)
    assert len(grown.entities) == len(OLD.entities) + 3


def test_an_entity_that_no_longer_occurs_keeps_its_id():
    old = graph_of([Statement("a", "r", "b"), Statement("c", "r", "d")])
    grown, report = update_graph(old, Changes.of([], [graph_of([Statement("a", "r", "b")])]))
    assert list(grown.entities) == ["a", "b", "c", "d"]
    assert contents(grown) == {("train", Statement("c", "r", "d"))}
    assert (report.removed, report.absent) == (1, 0)


def test_what_is_there_in_any_split_is_not_added_again():
    new = graph_of([Statement("d", "s", "d"), Statement("b", "s", "d"), Statement("d", "r", "b")])
    grown, report = update_graph(OLD, Changes.of([new]))
    assert grown.fingerprint == OLD.fingerprint
    assert (report.added, report.repeated) == (0, 3)


def test_a_statement_is_removed_with_exactly_its_qualifiers_and_what_is_absent_is_counted():
    gone = graph_of([Statement("b", "r", "d"), Statement("d", "r", "b"), Statement("x", "r", "b"), Statement("d", "s", "d", (("q", "y"),))])
    grown, report = update_graph(OLD, Changes.of([], [gone]))
    assert contents(OLD) - contents(grown) == {("train", Statement("d", "r", "b"))}
    assert (report.removed, report.absent) == (1, 3)
    assert len(grown.entities) == 2, "removing names nothing new"


def test_a_statement_is_removed_from_every_split_that_has_it():
    both = graph_of([Statement("a", "r", "b"), Statement("b", "r", "a")], test=[Statement("a", "r", "b")])
    grown, report = update_graph(both, Changes.of([], [graph_of([Statement("a", "r", "b")])]))
    assert (contents(grown), report.removed) == ({("train", Statement("b", "r", "a"))}, 2)


@pytest.mark.parametrize(("split", "found"), [(None, "test"), ("valid", "valid")])
def test_new_statements_have_the_split_of_their_file_or_the_one_that_is_named(split, found):
    new = graph_of(test=[Statement("b", "r", "z")])
    grown, _ = update_graph(OLD, Changes.of([new]), split)
    assert contents(grown) - contents(OLD) == {(found, Statement("b", "r", "z"))}


def test_new_train_statements_about_held_out_triples_are_counted():
    new = graph_of([Statement("b", "s", "d", (("q", "d"),)), Statement("b", "r", "z")])
    assert update_graph(OLD, Changes.of([new]))[1].held_out_triples == 1


def test_labels_are_added_and_replaced_and_those_of_nothing_counted():
    draft = Draft()
    draft.add([["a", "r", "b"]], "train")
    draft.label("a", "old A", "en")
    draft.label("b", "B", "en")
    old = draft.finish()
    labels = Draft()
    labels.label("a", "new A", "en")
    labels.label("a", "A auf Deutsch", "de")
    labels.label("r", "relates to", "en", "relation")
    labels.label("nobody", "Nobody", "en")
    grown, report = update_graph(old, Changes.of([labels]))
    assert grown.entities.labels == {"en": {0: "new A", 1: "B"}, "de": {0: "A auf Deutsch"}}
    assert grown.relations.labels == {"en": {0: "relates to"}}
    assert (report.labels, report.idle_labels, report.added) == (3, 1, 0)
    assert old.entities.labels == {"en": {0: "old A", 1: "B"}}, "the graph before is not changed"


def test_removing_everything_and_an_unknown_split_are_refused():
    with pytest.raises(InputError, match="all 4 would be removed"):
        update_graph(OLD, Changes.of([], [OLD]))
    with pytest.raises(InputError, match="splits are one or more of"):
        update_graph(OLD, Changes(), "dev")


def test_an_iri_is_found_by_its_beginning_in_an_updated_graph():
    old = graph_of([Statement("http://e.org/b1", "r", "http://e.org/c")])
    grown, _ = update_graph(old, Changes.of([graph_of([Statement("http://e.org/b0", "r", "http://e.org/a")])]))
    assert grown.entities.find("http://e.org/b") == [0, 3]


def test_an_updated_graph_is_read_back_as_it_is(tmp_path):
    grown, _ = update_graph(OLD, Changes.of([graph_of([Statement("a", "p", "e")])]))
    save_graph(grown, tmp_path / "g")
    found = load_graph(tmp_path / "g")
    assert (found.fingerprint, list(found.entities)) == (grown.fingerprint, ["b", "d", "a", "e"])


def labelled(label: str) -> Graph:
    draft = Draft()
    draft.label("b", label, "en")
    return update_graph(OLD, Changes.of([draft]))[0]


ONE, TWO = (update_graph(OLD, Changes.of([graph_of([Statement(head, "p", "y")])]))[0] for head in ("a", "x"))


@pytest.mark.parametrize("one", [ONE, labelled("B")], ids=["statements", "labels"])
def test_a_graph_that_another_command_changed_meanwhile_is_not_replaced(tmp_path, one):
    save_graph(OLD, tmp_path / "g")
    header = graph_header(tmp_path / "g")
    save_graph(one, tmp_path / "g", overwrite=True, replaces=header)
    with pytest.raises(StorageError, match="changed by another command meanwhile"):
        save_graph(TWO, tmp_path / "g", overwrite=True, replaces=header)
    found = load_graph(tmp_path / "g")
    assert (found.fingerprint, found.entities.labels) == (one.fingerprint, one.entities.labels)


def test_a_change_at_the_last_moment_is_not_lost(tmp_path, monkeypatch):
    """Another update ends while this one is flushed to the disk, which may take seconds."""
    save_graph(OLD, tmp_path / "g")
    header, flush_tree = graph_header(tmp_path / "g"), folders.flush_tree

    def flush(place: Path) -> None:
        monkeypatch.setattr(folders, "flush_tree", flush_tree)
        save_graph(ONE, tmp_path / "g", overwrite=True, replaces=header)

    monkeypatch.setattr(folders, "flush_tree", flush)
    with pytest.raises(StorageError, match="changed by another command meanwhile"):
        save_graph(TWO, tmp_path / "g", overwrite=True, replaces=header)
    assert load_graph(tmp_path / "g").fingerprint == ONE.fingerprint
    assert [path.name for path in tmp_path.iterdir()] == ["g"]


def test_updates_of_one_graph_at_the_same_time_lose_nothing(tmp_path):
    save_graph(OLD, tmp_path / "g")

    def work(name: str) -> None:
        done = 0
        while done < 10:
            header, graph = graph_header(tmp_path / "g"), load_graph(tmp_path / "g")
            grown, _ = update_graph(graph, Changes.of([graph_of([Statement(f"{name}{done}", "r", "b")])]))
            try:
                save_graph(grown, tmp_path / "g", overwrite=True, replaces=header)
                done += 1
            except StorageError as error:
                if "changed by another command meanwhile" not in str(error):
                    raise

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, "ij"))
    assert len(load_graph(tmp_path / "g")) == len(OLD) + 20


@given(graphs(), graphs())
def test_a_diff_turns_the_old_graph_into_the_new_one_and_keeps_its_ids(old, new):
    added, removed = diff_graphs(old, new)
    grown, report = update_graph(old, Changes.of([added], [removed]))
    assert contents(grown) == contents(new)
    assert list(grown.entities)[: len(old.entities)] == list(old.entities)
    assert list(grown.relations)[: len(old.relations)] == list(old.relations)
    assert report.absent == report.repeated == 0
    for kind in ("entities", "relations"):
        after, wanted = getattr(grown, kind), getattr(new, kind)
        for tag, texts in wanted.labels.items():
            assert all(after.labels[tag][after.id(wanted.identifier(id_))] == text for id_, text in texts.items())


@given(graphs(), graphs())
def test_an_update_is_the_union_and_doing_it_twice_changes_nothing(old, new):
    grown, report = update_graph(old, Changes.of([new]), "train")
    assert {statement for _, statement in contents(grown)} == {statement for _, statement in contents(old) | contents(new)}
    assert contents(old) <= contents(grown)
    assert report.added == len(grown) - len(old)
    again, second = update_graph(grown, Changes.of([new]), "train")
    assert again.fingerprint == grown.fingerprint
    assert (second.added, second.new_entities, second.labels) == (0, 0, 0)
    # canonical form: sorted by split, head, relation, tail
    order = np.lexsort((grown.tail, grown.relation, grown.head, grown.split))
    assert all((np.take(column, order) == column).all() for column in (grown.split, grown.head, grown.relation, grown.tail))
    assert grown.title == old.title

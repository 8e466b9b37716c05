"""Whether an entity has a value at all, by the relations that it occurs with."""

import numpy as np
import pytest

from starqe.kg import Graph, Statement, graph_of
from starqe.kg.literal import INTEGER, Literal
from starqe.reason.has_value import FEATURES, HasValue, fit_has_value


def size(name: str) -> Statement:
    return Statement(name, "inhabitants", Literal("5", INTEGER))


def world(cities: int = 60, films: int = 60, known: int = 30) -> Graph:
    """Cities have mayors, and inhabitants that are known of the first of them; films have actors, and no inhabitants."""
    train = [Statement(f"city{i}", "mayor", f"person{i}") for i in range(cities)]
    train += [Statement(f"person{i}", "actedIn", f"film{i}") for i in range(films)]
    valid = [size(f"city{i}") for i in range(known, cities)]
    return graph_of([*train, *(size(f"city{i}") for i in range(known))], valid)


def made(graph: Graph, *splits: str, fitted: bool = True) -> HasValue:
    relations = np.array([graph.relations.id("inhabitants")])
    return HasValue.of(graph, graph.known(splits), relations, fit_has_value(graph, relations) if fitted else None)


def test_traits_are_the_relations_of_an_entity_in_both_directions():
    graph = world(3, 2, 1)
    found = made(graph, "train", fitted=False)
    acted, inhabitants, mayor = (graph.relations.id(name) for name in ("actedIn", "inhabitants", "mayor"))
    traits = {name: found.traits[graph.entities.id(name)].tolist() for name in ("city0", "city2", "film1", "person0", "person2")}
    assert traits == {
        "city0": [inhabitants, mayor],
        "city2": [mayor],
        "film1": [3 + acted],
        "person0": [acted, 3 + mayor],
        "person2": [3 + mayor],
    }
    assert [graph.entities.identifier(id_) for id_ in np.flatnonzero(found.holders[0])] == ["city0"]


def test_the_features_are_worked_out_by_hand():
    graph = world(3, 2, 1)  # 3 cities, 2 films, 3 persons: city0 has a value, and 7 have none
    found = made(graph, "train", fitted=False)
    features = found.features(0, np.array([graph.entities.id("city0"), graph.entities.id("film1")]))
    of_mayor = np.log(1.5 / 2) - np.log(2.5 / 8)  # one of one, and two of seven others
    of_film = np.log(0.5 / 2) - np.log(2.5 / 8)
    share = np.log(1.5 / 9)
    assert features.shape == (2, len(FEATURES))
    assert features[0] == pytest.approx([of_mayor / 3, share, np.log(3)])  # that it has a value itself does not count
    assert features[1] == pytest.approx([of_film / 2, share, np.log(2)])


def test_a_city_without_a_known_value_has_one_and_a_film_has_none():
    graph = world()
    found = made(graph, "train")
    cities, films = ([graph.entities.id(f"{kind}{i}") for i in range(30, 60)] for kind in ("city", "film"))
    assert found.probability(0, np.array(cities)).min() > 0.8
    assert found.probability(0, np.array(films)).max() < 0.1
    assert len(found.probability(0, np.array([], np.int64))) == 0


def test_few_cases_are_not_fitted_and_then_a_value_is_taken_for_granted():
    graph = world(40, 40, 30)
    relations = np.array([graph.relations.id("inhabitants")])
    assert fit_has_value(graph, relations) is None
    assert made(graph, "train").probability(0, np.arange(5)).tolist() == [1.0] * 5


def test_a_share_of_the_entities_gives_about_the_same_probabilities(monkeypatch):
    graph = world(300, 300, 150)
    every = made(graph, "train")
    monkeypatch.setattr("starqe.reason.has_value.MOST_CASES", 200)
    some = made(graph, "train")
    asked = np.array([graph.entities.id(name) for name in ("city200", "film3", "person8")])
    assert some.logistic != every.logistic
    assert some.probability(0, asked) == pytest.approx(every.probability(0, asked), abs=0.12)

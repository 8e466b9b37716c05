"""A small world in which numbers follow from the neighbourhood: the sizes of people who live in one town are close."""

from starqe.kg import Graph, Statement, graph_of
from starqe.kg.literal import INTEGER, Literal

PEOPLE, TOWNS, HELD_OUT = 120, 6, 12


def size_of(person: int) -> int:
    return 1000 * (person % TOWNS) + person // TOWNS


def sized_town(test: int = 0) -> Graph:
    """120 people in 6 towns, who know people of their town; the sizes of the first 12 are for validation, and those of more for test."""
    people, sizes = [], []
    for person in range(PEOPLE):
        name = f"p{person}"
        people += [Statement(name, "livesIn", f"town{person % TOWNS}"), Statement(name, "knows", f"p{(person + TOWNS) % PEOPLE}")]
        sizes.append(Statement(name, "size", Literal(str(size_of(person)), INTEGER)))
    valid = [*(Statement(f"p{person}", "knows", f"p{(person + 12) % PEOPLE}") for person in range(10)), *sizes[:HELD_OUT]]
    return graph_of([*people, *sizes[HELD_OUT + test :]], valid, sizes[HELD_OUT : HELD_OUT + test])

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from starqe.errors import UnsupportedError
from starqe.queries.generate.sql import solutions_sql
from starqe.queries.generate.symmetry import Image, Symmetries, symmetries
from starqe.queries.shape import Shape

CASES = {
    "A>?": ((), ()),
    "A>x x>?": ((), ()),
    "A>? B>?": (((0, 1),), ()),
    "A>? B>? C>?": (((0, 1), (1, 2)), ()),
    "A>x B>x x>?": (((0, 1),), ()),
    "A>x x>? B>?": ((), ()),
    "A>x x>? B>y y>?": ((), ((2, 3, 0, 1),)),
    "A>x B>x x>? C>y D>y y>?": (((0, 1), (3, 4)), ((3, 4, 5, 0, 1, 2),)),
    "A>x x>? y>? A>y": ((), ((3, 2, 1, 0),)),
    "A>? A>?": ((), ((1, 0),)),
    "x>? x>? A>x": (((0, 1),), ()),
    "?>x ?>y A>?": ((), ((1, 0, 2),)),
    "A>? ?>B": ((), ()),
    # A and B may be one entity: then any of the three edges may be the one from B.
    "A>? A>? B>?": ((), ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))),
}


@pytest.mark.parametrize(("edges", "expected"), CASES.items())
def test_orders_of_edges_that_say_the_same(edges, expected):
    shape, (ascending, images) = Shape.parse("own", edges), expected
    assert symmetries(shape, [(1, 1)] * len(shape.edges)) == Symmetries(ascending, tuple(map(Image, images)))


@pytest.mark.parametrize(
    ("edges", "expected"),
    {
        "A>? | B>?": [Image((1, 0))],
        "A>? !B>?": [],
        "A>? B>? !C>?": [Image((1, 0, 2))],
        "A>? !(B>x x>?)": [],
        "(A>x x>?) | (B>y y>?)": [Image((2, 3, 0, 1))],
        "A>x B>y x>?{y}": [],
        # y and z change places with the edges that lead to them.
        "A>x B>y C>z x>?{y,z}": [Image((0, 2, 1, 3), ((), (), (), (1, 0)))],
    }.items(),
)
def test_orders_of_alternatives_negations_and_values_that_say_the_same(edges, expected):
    shape = Shape.parse("own", edges)
    assert symmetries(shape, [(1, 1)] * len(shape.edges)) == Symmetries((), tuple(expected))


def test_edges_with_other_numbers_of_qualifiers_are_compared_one_by_one():
    assert symmetries(Shape.parse("own", "A>? B>?"), [(0, 2), (1, 1)]) == Symmetries((), (Image((1, 0)),))


def test_an_intersection_of_twelve_is_a_short_text():
    shape = Shape.parse("12i", " ".join(f"{letter}>?" for letter in "ABCDEFGHIJKL"))
    assert len(symmetries(shape, [(1, 1)] * 12).ascending) == 11
    assert len(solutions_sql(shape, [(1, 1)] * 12, ["edge"] * 12, [10] * 12, "train")) < 10_000


@pytest.mark.parametrize("edges", [8, 12])
def test_too_many_orders_are_refused_before_they_are_written_down(edges):
    assert len(symmetries(Shape.parse("own", " ".join(["A>?"] * 7)), [(1, 1)] * 7).images) == 5_039
    shape = Shape.parse("own", " ".join(["A>?"] * edges))
    with pytest.raises(UnsupportedError, match="at most 5,040 orders of equal edges are compared"):
        symmetries(shape, [(1, 1)] * edges)


@given(st.sampled_from(["A>? B>? C>?", "A>x B>x x>? C>y D>y y>?", "A>x B>x C>x x>? D>?"]), st.data())
def test_exactly_one_of_all_equal_queries_is_kept(edges, data):
    """Ascending neighbours and the remaining images single out the smallest of all orders that the whole group reaches."""
    shape = Shape.parse("own", edges)
    found = symmetries(shape, [(1, 1)] * len(shape.edges))
    numbers = data.draw(st.lists(st.integers(0, 3), min_size=len(shape.edges), max_size=len(shape.edges)))

    def kept(order: tuple[int, ...]) -> bool:
        return all(order[one] <= order[other] for one, other in found.ascending) and all(
            order <= tuple(order[edge] for edge in image.edges) for image in found.images
        )

    equal = {tuple(numbers[edge] for edge in image) for image in permutations(range(len(numbers))) if says_the_same(shape, image)}
    assert [order for order in equal if kept(order)] == [min(equal)]


def says_the_same(shape: Shape, image: tuple[int, ...]) -> bool:
    """Whether variables can be renamed so that each edge goes to its image, whatever the (private) anchors are."""
    renamed: dict[str, str] = {"?": "?"}
    for edge, other in enumerate(image):
        for node, its in zip(shape.edges[edge], shape.edges[other], strict=True):
            if node[0].isupper() != its[0].isupper():
                return False
            if not node[0].isupper() and renamed.setdefault(node, its) != its:
                return False
    return len(set(renamed.values())) == len(renamed)

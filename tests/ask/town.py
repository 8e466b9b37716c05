"""A small graph as people bring it: without splits, labels and qualifiers."""

from starqe.kg import Graph, Statement, graph_of


def town(people: int = 60) -> Graph:
    """Returns people who know one another, and work for seven companies in three cities."""
    works = [Statement(f"p{n}", "worksFor", f"c{n % 7}") for n in range(people)]
    knows = [Statement(f"p{n}", "knows", f"p{(7 * n + 3) % people}") for n in range(people)]
    return graph_of([*works, *knows, *(Statement(f"c{n}", "in", f"city{n % 3}") for n in range(7))])

"""Counts the examples of a property that is tried many times, by what occurs in them, and prints the counts."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


def try_many(check: Callable[..., Iterable[str]], *strategies: st.SearchStrategy[Any], examples: int) -> Counter[str]:
    """Checks a property for a number of examples; the check names the features of each. Prints and returns their counts."""
    counts: Counter[str] = Counter()

    @settings(max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.tuples(*strategies))
    def one(drawn: tuple[Any, ...]) -> None:
        kinds = set(check(*drawn))
        counts["examples"] += 1
        counts.update(kinds)

    one()
    print(f"\n{counts.pop('examples'):,} examples: {', '.join(f'{kind} {count:,}' for kind, count in counts.most_common())}")
    return counts

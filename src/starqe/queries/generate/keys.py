"""Keys of queries: the numbers of the edges' constants, packed into one integer by SQL."""

from collections.abc import Sequence

from starqe.errors import UnsupportedError


def pack(numbers: Sequence[str], radix: Sequence[int]) -> str:
    """Returns the expression that packs the constants' numbers of all edges into one integer, the first edge lowest.

    Raises:
        UnsupportedError: 127 bits do not hold them.
    """
    kind, factor, terms = _key_type(radix), 1, []
    for number, size in zip(numbers, radix, strict=True):
        terms.append(f"{number}::{kind} * {factor}::{kind}")
        factor *= max(size, 1)
    return " + ".join(terms)


def unpack(radix: Sequence[int]) -> list[str]:
    """Returns the expressions that take the edges' numbers out of a key again."""
    kind, factor, terms = _key_type(radix), 1, []
    for size in radix:
        terms.append(f"(key // {factor}::{kind} % {max(size, 1)})::INT")
        factor *= max(size, 1)
    return terms


def _key_type(radix: Sequence[int]) -> str:
    """Names the integer type that holds a key."""
    whole = 1
    for size in radix:
        whole *= max(size, 1)
    if whole < 2**62:
        return "BIGINT"
    if whole < 2**126:
        return "HUGEINT"
    raise UnsupportedError(
        f"a shape has at most 2^126 possible queries, and one with {len(radix)} edges has more on this graph. "
        "Take fewer edges or fewer qualifiers"
    )

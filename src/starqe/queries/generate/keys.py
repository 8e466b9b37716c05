"""Keys of queries: the numbers of the edges' constants, packed by SQL into as few integers as hold them."""

from collections.abc import Sequence

WORD = 2**62
"""An integer of a key has fewer values than this."""


def key_names(radix: Sequence[int]) -> list[str]:
    """Names the columns of a key: ``key_0`` and so on; one where the product of the radix is below 2^62."""
    return [f"key_{word}" for word in range(_words(radix)[-1][0] + 1)]


def pack(numbers: Sequence[str], radix: Sequence[int]) -> str:
    """Returns the columns of a key, as SQL: the constants' numbers of all edges, the first edge lowest."""
    terms: dict[int, list[str]] = {}
    for number, (word, factor) in zip(numbers, _words(radix), strict=True):
        terms.setdefault(word, []).append(f"{number}::BIGINT * {factor}::BIGINT")
    return ", ".join(f"{' + '.join(of_word)} AS key_{word}" for word, of_word in terms.items())


def unpack(radix: Sequence[int]) -> list[str]:
    """Returns the expressions that take the edges' numbers out of a key again."""
    return [f"(key_{word} // {factor}::BIGINT % {max(size, 1)})::INT" for size, (word, factor) in zip(radix, _words(radix), strict=True)]


def _words(radix: Sequence[int]) -> list[tuple[int, int]]:
    """Returns the integer that each edge's number is in, and its factor there."""
    found, word, factor = [], 0, 1
    for size in radix:
        if factor * max(size, 1) >= WORD:
            word, factor = word + 1, 1
        found.append((word, factor))
        factor *= max(size, 1)
    return found

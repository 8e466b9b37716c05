"""Entities by the beginning of their label or identifier: for completion."""

from bisect import bisect_left

from starqe.kg import Vocabulary


class NameIndex:
    """Every label in every language, and every identifier, in alphabetical order without regard to case."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        names = [(label.casefold(), id_) for by_id in vocabulary.labels.values() for id_, label in by_id.items()]
        names += [(identifier.casefold(), id_) for id_, identifier in enumerate(vocabulary)]
        self._names = sorted(set(names))

    def find(self, prefix: str, count: int = 10) -> list[tuple[str, str]]:
        """Gives identifier and label of the first entities whose label or identifier begins like this; shorter names first."""
        start = prefix.casefold()
        first = bisect_left(self._names, (start,))
        found: dict[int, int] = {}
        for name, id_ in self._names[first : first + 50 * count]:
            if not name.startswith(start):
                break
            found.setdefault(id_, len(name))
        ids = sorted(found, key=lambda id_: (found[id_], id_))[:count]
        return [(self._vocabulary.identifier(id_), self._vocabulary.label(id_)) for id_ in ids]

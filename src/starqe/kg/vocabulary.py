"""Identifiers and their ids, with labels for people."""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

import numpy as np
import pyarrow as pa

from starqe.errors import InputError

Labels = Mapping[str, Mapping[int, str]]
"""Language tag -> id -> label; the tag is empty where a label came without a language."""


class Vocabulary:
    """A one-to-one map between identifiers and the ids 0 … n-1, in the byte order of the identifiers.

    The order makes ids a function of the set of identifiers alone: two graphs with the same identifiers have
    the same ids, however they were read.
    """

    def __init__(self, identifiers: Iterable[str] | pa.StringArray, labels: Labels | None = None) -> None:
        self._identifiers = identifiers if isinstance(identifiers, pa.StringArray) else pa.array(identifiers, pa.string())
        self.labels: dict[str, dict[int, str]] = {tag: dict(by_id) for tag, by_id in (labels or {}).items() if by_id}

    def __len__(self) -> int:
        return len(self._identifiers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._identifiers.to_pylist())

    def __contains__(self, identifier: str) -> bool:
        return identifier in self._ids

    @property
    def identifiers(self) -> pa.StringArray:
        """The identifiers as an Arrow column, at the position of their ids."""
        return self._identifiers

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {identifier: id_ for id_, identifier in enumerate(self._identifiers.to_pylist())}

    def id(self, identifier: str) -> int:
        """Gives the id of an identifier.

        Raises:
            InputError: The identifier is not in the vocabulary.
        """
        try:
            return self._ids[identifier]
        except KeyError:
            raise InputError(f"'{identifier}' does not occur in this graph") from None

    def ids(self, identifiers: Iterable[str]) -> np.ndarray:
        """Gives the ids of many identifiers, as int32."""
        return np.fromiter((self.id(identifier) for identifier in identifiers), np.int32)

    def identifier(self, id_: int) -> str:
        """Gives the identifier of an id."""
        return str(self._identifiers[int(id_)].as_py())

    def label(self, id_: int, language: str = "en") -> str:
        """Gives the best label there is: in the language, without one, in English, in any; else the identifier."""
        id_ = int(id_)
        for tag in (language, "", "en", *sorted(self.labels)):
            if (label := self.labels.get(tag, {}).get(id_)) is not None:
                return label
        return self.identifier(id_)

    def by_label(self, label: str) -> list[int]:
        """Gives the ids that have this label in any language, ascending; several when the label is ambiguous."""
        return self._by_label.get(label, [])

    def find_label(self, label: str, language: str | None = None) -> list[int]:
        """Gives the ids that have this label, ascending: exactly so, or if there is none, in any upper or lower case.

        Args:
            label: The label.
            language: The language of the label; left out, any.
        """
        tags = [tag for tag in self.labels if language is None or tag.lower() == language.lower()]

        def has(id_: int, written: str, fold: Callable[[str], str]) -> bool:
            return any(id_ in self.labels[tag] and fold(self.labels[tag][id_]) == written for tag in tags)

        exact = [id_ for id_ in self.by_label(label) if has(id_, label, str)]
        folded = label.casefold()
        return exact or [id_ for id_ in self._by_folded_label.get(folded, []) if has(id_, folded, str.casefold)]

    @cached_property
    def _by_folded_label(self) -> dict[str, list[int]]:
        found: dict[str, set[int]] = {}
        for label, ids in self._by_label.items():
            found.setdefault(label.casefold(), set()).update(ids)
        return {label: sorted(ids) for label, ids in found.items()}

    @cached_property
    def _by_label(self) -> dict[str, list[int]]:
        found: dict[str, set[int]] = {}
        for by_id in self.labels.values():
            for id_, label in by_id.items():
                found.setdefault(label, set()).add(id_)
        return {label: sorted(ids) for label, ids in found.items()}

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the identifiers in their order; labels do not count."""
        digest = hashlib.sha256()
        for identifier in self._identifiers.to_pylist():
            digest.update(identifier.encode() + b"\n")
        return digest.hexdigest()

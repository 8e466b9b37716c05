"""The vocabulary: identifiers, their ids, and labels."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from starqe.errors import InputError
from starqe.kg.search import NameSearch, short_form, short_forms
from starqe.ragged import IntArray
from starqe.texts import TextArray, Texts, joined_bytes, parts, text_array

_LISTED = 10  # the number of candidates that an error names

Labels = Mapping[str, Mapping[int, str]]
"""Language tag -> id -> label; the tag is empty for a label without a language."""


class LabelColumn(Mapping[int, str]):
    """The labels of one language: a mapping of ids to texts."""

    def __init__(self, ids: IntArray, texts: TextArray) -> None:
        """Takes ids in any order; of several labels of one id, the last one counts."""
        if (ids[1:] <= ids[:-1]).any():
            order = np.argsort(ids, kind="stable")
            order = order[np.append(np.diff(ids[order]) != 0, True)]
            ids, texts = ids[order], texts.take(pa.array(order))
        self.ids = ids.astype(np.int32, copy=False)
        self.texts = Texts(texts)

    @classmethod
    def of(cls, labels: Mapping[int, str]) -> "LabelColumn":
        """Makes a column of any mapping."""
        if isinstance(labels, LabelColumn):
            return labels
        return cls(np.fromiter(labels, np.int64, len(labels)), text_array(labels.values()))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[int]:
        return iter(self.ids.tolist())

    def __getitem__(self, id_: int) -> str:
        place = int(self.ids.searchsorted(np.int32(id_)))
        if place == len(self.ids) or self.ids[place] != id_:
            raise KeyError(id_)
        return self.texts[place]

    def __contains__(self, id_: object) -> bool:
        return isinstance(id_, (int, np.integer)) and self.get(int(id_)) is not None


class Vocabulary:
    """A one-to-one map between identifiers and the ids 0 … n-1, which takes a few bytes per identifier beside its text.

    In a graph that was read, ids follow the byte order of the identifiers, so they depend only on the set of identifiers. Updating a
    graph appends new identifiers, so that the ids of the others do not change.
    """

    def __init__(self, identifiers: Iterable[str] | TextArray, labels: Labels | None = None) -> None:
        self._identifiers = text_array(identifiers)
        self.labels: Labels = {tag: LabelColumn.of(by_id) for tag, by_id in (labels or {}).items() if by_id}

    def __len__(self) -> int:
        return len(self._identifiers)

    def __iter__(self) -> Iterator[str]:
        return iter(self._identifiers.to_pylist())

    def __contains__(self, identifier: str) -> bool:
        return self._texts.find(identifier) is not None

    @property
    def identifiers(self) -> TextArray:
        """The identifiers as an Arrow column, at the position of their ids."""
        return self._identifiers

    @cached_property
    def _texts(self) -> Texts:
        return Texts(self._identifiers)

    def id(self, identifier: str) -> int:
        """Returns the id of an identifier.

        Raises:
            InputError: The identifier is not in the vocabulary.
        """
        if (found := self._texts.find(identifier)) is None:
            raise InputError(f"'{identifier}' does not occur in this graph")
        return found

    def ids(self, identifiers: Iterable[str]) -> IntArray:
        """Returns the ids of many identifiers, as int32."""
        return np.fromiter((self.id(identifier) for identifier in identifiers), np.int32)

    def identifier(self, id_: int) -> str:
        """Returns the identifier of an id."""
        return self._texts[int(id_)]

    def label(self, id_: int, language: str = "en") -> str:
        """Returns the best label there is: in the language, without one, in English, in any; else the identifier."""
        id_ = int(id_)
        if not self.labels:
            return self.identifier(id_)
        for tag in (language, "", "en", *sorted(self.labels)):
            if (label := self.labels.get(tag, {}).get(id_)) is not None:
                return label
        return self.identifier(id_)

    @cached_property
    def search(self) -> NameSearch:
        """The search of ids by label, by identifier and by the last part of an IRI."""
        columns = [LabelColumn.of(by_id) for by_id in self.labels.values()]
        names = [*map(short_forms, parts(self._identifiers)), *(part for column in columns for part in parts(column.texts.column))]
        ids = np.concatenate([np.arange(len(self), dtype=np.int32), *(column.ids for column in columns)])
        return NameSearch(pa.chunked_array(names, pa.string()), ids)

    def find(self, text: str, count: int = 10) -> list[int]:
        """Returns ids for completion: those whose label or identifier begins with a text, or has a word that does."""
        found = self.search.find(text, count)
        if ":" in text and len(found) < count:  # a whole IRI
            begins = pc.starts_with(self._identifiers, text).to_numpy(zero_copy_only=False)
            found += np.flatnonzero(begins)[:count].tolist()
        return list(dict.fromkeys(found))[:count]

    def near(self, text: str, count: int = 5) -> list[int]:
        """Returns ids for "did you mean": those whose label or identifier contains a text or has a similar spelling."""
        return self.search.near(short_form(text), count)

    def named(self, text: str, language: str | None = None) -> list[int]:
        """Returns the ids that a text names, ascending; several where it is ambiguous.

        Identifiers come first, then labels, then the last parts of IRIs. Labels and last parts match exactly, or else ignoring case.

        Args:
            text: The text.
            language: The language of a label, if only labels of this language count.
        """
        if language is None and text in self:
            return [self.id(text)]
        found = self.find_label(text, language)
        if found or language is not None:
            return found
        return _matching(text, {id_: [short_form(self.identifier(id_))] for id_ in self.search.exact(text)})

    def resolve(self, text: str) -> int:
        """Returns the one id that a text names.

        Raises:
            InputError: It names none, or several.
        """
        found = self.named(text)
        if len(found) == 1:
            return found[0]
        listed = ", ".join(f"'{self.identifier(id_)}'" for id_ in (found or self.near(text))[:_LISTED])
        if found:
            raise InputError(f"'{text}' is ambiguous ({len(found)} in this graph). Write one of {listed}" + ", …" * (len(found) > _LISTED))
        raise InputError(f"'{text}' does not occur in this graph. " + (f"Did you mean {listed}?" if listed else "No similar name found"))

    def find_label(self, label: str, language: str | None = None) -> list[int]:
        """Returns the ids that have this label, ascending: an exact match, or if there is none, ignoring case.

        Args:
            label: The label.
            language: The language of the label; any if left out.
        """
        tags = [tag for tag in self.labels if language is None or tag.lower() == language.lower()]
        return _matching(
            label, {id_: [self.labels[tag][id_] for tag in tags if id_ in self.labels[tag]] for id_ in self.search.exact(label)}
        )

    def name(self, id_: int) -> str:
        """Returns the most readable text that names only this id: its label, the last part of its IRI, or its identifier."""
        identifier = self.identifier(id_)
        for text in (self.label(id_), short_form(identifier)):
            if text != identifier and self.named(text) == [int(id_)]:
                return text
        return identifier

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the identifiers in their order; labels do not count."""
        digest = hashlib.sha256()
        for part in parts(self._identifiers):
            digest.update(joined_bytes(pc.binary_join_element_wise(part, "", "\n")))
        return digest.hexdigest()


def _matching(text: str, names: Mapping[int, Sequence[str]]) -> list[int]:
    """Returns the ids that have a text among their names: an exact match, or if there is none, ignoring case."""
    exact = sorted(id_ for id_, of_id in names.items() if text in of_id)
    folded = text.casefold()
    return exact or sorted(id_ for id_, of_id in names.items() if folded in (name.casefold() for name in of_id))

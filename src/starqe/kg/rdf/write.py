"""Writes RDF: statements with qualifiers become triples with reifiers.

TriG and N-Quads are one file with one named graph per split; Turtle and N-Triples are a folder with one file per split.
A statement is its triple and, if it has qualifiers, a reifier that carries them. A statement without qualifiers gets an
empty reifier if another statement of its split has the same triple, so that the two remain distinct. The same graph
always makes the same bytes: statements in the graph's order, labels by language and identifier.

Language tags are written in lower case, as RDF compares them. Every writer returns the files written. It raises InputError
if an identifier or a language tag cannot be written in RDF, and StorageError if the destination exists and may not be
replaced, or cannot be written; the destination is then unchanged.

Literals are plain typed literals; `starqe.kg.rdf.details` describes how units, precisions and the like are written beside them.

Standard reification is N-Quads too: one node per statement with rdf:subject, rdf:predicate, rdf:object and the
qualifiers, without the triple itself.
"""

import itertools
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from pyoxigraph import Literal, NamedNode

from starqe.errors import InputError
from starqe.folders import check_only, new_file, new_folder
from starqe.kg.graph import Graph
from starqe.kg.iris import OBJECT, PREDICATE, REIFIES, SUBJECT, Names, is_iri
from starqe.kg.literal import Literal as Value
from starqe.kg.literal import rdf_text
from starqe.kg.rdf.details import detail_predicates
from starqe.kg.rdf.read import LABEL, LABELS
from starqe.kg.statement import SPLITS
from starqe.kg.vocabulary import Vocabulary
from starqe.ragged import BoolArray, IntArray

SPLIT_GRAPH = "urn:starqe:split:"
"""The named graph of a split is this prefix and the split's name."""

_RDFS = LABEL.removesuffix("label")
_LANGUAGE = re.compile(r"[A-Za-z]{1,8}(?:-[A-Za-z0-9]{1,8})*(?:--(?:ltr|rtl))?")
_LOCAL_NAME = re.compile(r"(?:\w|%[0-9A-F]{2})(?:[\w.-]|%[0-9A-F]{2})*(?<!\.)", re.ASCII)

Row = tuple[int, str, str, str, list[tuple[str, str]], bool]
"""A statement in RDF text: row in the graph, head, relation, tail, pairs, and whether it needs a reifier."""


def write_trig(graph: Graph, destination: Path, names: Names, overwrite: bool = False) -> list[Path]:
    """Writes a TriG file: one statement per line, qualifiers as annotations, labels in the default graph."""
    text = _Text(graph, names, prefixed=True)

    def lines() -> Iterator[str]:
        yield from text.prefix_lines()
        yield from text.label_lines()
        for split in text.splits:
            yield f"\n<{SPLIT_GRAPH}{split}> {{\n"
            yield from (f"  {line}" for line in _annotated_lines(text, split))
            yield "}\n"

    return _write_file(destination, lines, overwrite)


def write_turtle(graph: Graph, destination: Path, names: Names, overwrite: bool = False) -> list[Path]:
    """Writes a folder of Turtle files: one statement per line, qualifiers as annotations, labels in the first file."""
    text = _Text(graph, names, prefixed=True)

    def lines(split: str) -> Iterator[str]:
        yield from text.prefix_lines()
        if split == text.splits[0]:
            yield from text.label_lines()
        yield "\n"
        yield from _annotated_lines(text, split)

    return _write_folder(destination, ".ttl", text.splits, lines, overwrite)


def write_nquads(graph: Graph, destination: Path, names: Names, overwrite: bool = False, details: bool = True) -> list[Path]:
    """Writes an N-Quads file, with labels in the default graph, and with or without the details of literals."""
    return _write_quads(_Text(graph, names, details=details), _reifier_lines, destination, overwrite)


def write_known(graph: Graph, path: Path, splits: Collection[str]) -> int:
    """Writes the statements of some splits as one graph in N-Triples, with labels and without details; returns the number of lines."""
    text = _Text(graph, graph.names, details=False)
    count = itertools.count()
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for part in (text.label_lines(), *(_reifier_lines(text, split, "") for split in text.splits if split in splits)):
            file.writelines(line for line, _ in zip(part, count, strict=False))
    return next(count)


def write_ntriples(graph: Graph, destination: Path, names: Names, overwrite: bool = False) -> list[Path]:
    """Writes a folder of N-Triples files, with labels in the first."""
    text = _Text(graph, names)

    def lines(split: str) -> Iterator[str]:
        if split == text.splits[0]:
            yield from text.label_lines()
        yield from _reifier_lines(text, split, "")

    return _write_folder(destination, ".nt", text.splits, lines, overwrite)


def write_reification(graph: Graph, destination: Path, names: Names, overwrite: bool = False) -> list[Path]:
    """Writes an N-Quads file in standard reification, with labels in the default graph."""
    return _write_quads(_Text(graph, names), _standard_lines, destination, overwrite)


@dataclass(frozen=True)
class _Text:
    """A graph in RDF text: its terms, statements and labels.

    Raises:
        InputError: An identifier cannot be written in RDF.
    """

    graph: Graph
    names: Names
    prefixed: bool = False
    """Whether terms are shortened by prefixes, and labels written for people."""
    details: bool = True
    """Whether units and precisions of literals are written."""

    @cached_property
    def splits(self) -> list[str]:
        """The splits that have statements."""
        return [SPLITS[code] for code in np.unique(self.graph.split)]

    @cached_property
    def prefixes(self) -> dict[str, str]:
        """The prefixes by their names; if both bases are equal, one is declared."""
        same = self.names.entity_base == self.names.relation_base
        return {"e": self.names.entity_base} | ({} if same else {"r": self.names.relation_base}) | {"rdfs": _RDFS}

    @cached_property
    def entities(self) -> list[str]:
        """The term of each entity."""
        return [self._term(str(self.names.entities.term(identifier)), "e") for identifier in self.graph.entities]

    @cached_property
    def literals(self) -> list[Value]:
        """The literals of the graph."""
        return list(self.graph.literals)

    @cached_property
    def values(self) -> list[str]:
        """The term of each value: entities, then literals."""
        for kind, literal in {literal.datatype: literal for literal in self.literals}.items():
            if not is_iri(kind):
                raise InputError(f"the datatype of a literal is an IRI in RDF, found {kind!r} at {literal.lexical!r}")
        if self.details and self.literals:
            self.check_labels()
        for tag in {literal.language for literal in self.literals}:
            if tag and not _LANGUAGE.fullmatch(tag):
                raise InputError(f"a language tag is written like 'en' or 'pt-br', found {tag!r}")
        return [*self.entities, *map(rdf_text, self.literals)]

    @cached_property
    def relations(self) -> list[str]:
        """The term of each relation."""
        prefix = "r" if "r" in self.prefixes else "e"
        return [self._term(str(self.names.relations.term(identifier)), prefix) for identifier in self.graph.relations]

    @cached_property
    def reifier(self) -> str:
        """The prefix of reifier labels: followed by digits, it names no entity of the graph."""
        blank = [term for term in self.entities if term.startswith("_:")]
        prefix = "_:r"
        while any(re.fullmatch(rf"{prefix}\d+", term) for term in blank):
            prefix += "_"
        return prefix

    def _term(self, term: str, prefix: str) -> str:
        base = f"<{self.prefixes[prefix]}"
        if self.prefixed and term.startswith(base) and _LOCAL_NAME.fullmatch(local := term[len(base) : -1]):
            return f"{prefix}:{local}"
        return term

    def rows(self, split: str) -> Iterator[Row]:
        """Yields the statements of a split."""
        graph, entities, values, relations = self.graph, self.entities, self.values, self.relations
        rows = np.flatnonzero(graph.split == SPLITS.index(split))
        start, end = int(rows[0]), int(rows[-1]) + 1  # rows of a split are contiguous, and equal triples are adjacent
        main = np.column_stack([graph.head, graph.relation, graph.tail])[start:end]
        shared = self._shared(main)
        for row, (head, relation, tail), needs in zip(range(start, end), main.tolist(), shared.tolist(), strict=True):
            of_row = graph.pairs_of(row)
            pairs = list(dict.fromkeys((relations[key], values[value]) for key, value in of_row))
            if self.details and self.literals:
                pairs += self._detail_pairs(tail, of_row)
            yield row, entities[head], relations[relation], values[tail], pairs, bool(pairs) or needs

    def _shared(self, main: IntArray) -> BoolArray:
        """Returns which main triples several statements have, compared as in RDF: without the details of literals."""
        if self.literals:
            first: dict[str, int] = {}
            terms = np.array([first.setdefault(text, id_) for id_, text in enumerate(self.values)], np.int64)
            _, number, counts = np.unique(
                np.column_stack([main[:, :2], terms[main[:, 2]]]), axis=0, return_inverse=True, return_counts=True
            )
            return np.asarray(counts[number.reshape(-1)] > 1)
        same_as_next = np.append((main[1:] == main[:-1]).all(axis=1), False)
        return np.asarray(same_as_next | np.append(False, same_as_next[:-1]))

    def check_labels(self) -> None:
        """Refuses literals of relations whose literals are labels when RDF is read."""
        if found := self.graph.literal_relations & {*LABELS}:
            raise InputError(
                f"the literals of <{min(found)}> are labels in RDF, found a statement or qualifier with one. Choose another form"
            )

    def _detail_pairs(self, tail: int, pairs: list[tuple[int, int]]) -> list[tuple[str, str]]:
        entities, relation = len(self.graph.entities), self.names.relations.term
        uses = [
            (relation(self.graph.relations.identifier(key)).value, self.literals[value - entities])
            for key, value in pairs
            if value >= entities
        ]
        found = detail_predicates(self.literals[tail - entities] if tail >= entities else None, uses)
        return [(f"<{predicate}>", rdf_text(literal)) for predicate, literal in found]

    def prefix_lines(self) -> Iterator[str]:
        """Yields the declarations of the prefixes."""
        yield from (f"@prefix {prefix}: <{base}> .\n" for prefix, base in self.prefixes.items())

    def label_lines(self) -> Iterator[str]:
        """Yields the labels as triples."""
        predicate = "rdfs:label" if self.prefixed else str(NamedNode(LABEL))
        yield from _label_lines(self.entities, self.graph.entities, predicate)
        yield from _label_lines(self.relations, self.graph.relations, predicate)


def _label_lines(terms: list[str], vocabulary: Vocabulary, predicate: str) -> Iterator[str]:
    for language, by_id in sorted(vocabulary.labels.items()):
        for id_, label in sorted(by_id.items()):
            try:
                literal = Literal(label, language=language) if language else Literal(label)
            except ValueError:
                raise InputError(f"a language tag is written like 'en' or 'pt-br', found {language!r} at the label {label!r}") from None
            yield f"{terms[id_]} {predicate} {literal} .\n"


def _annotated_lines(text: _Text, split: str) -> Iterator[str]:
    """Yields one statement per line, as in Turtle and TriG."""
    for _, head, relation, tail, pairs, needs_reifier in text.rows(split):
        annotation = " {| " + " ; ".join(f"{key} {value}" for key, value in pairs) + " |}" if pairs else " ~" if needs_reifier else ""
        yield f"{head} {relation} {tail}{annotation} .\n"


def _reifier_lines(text: _Text, split: str, graph_name: str) -> Iterator[str]:
    """Yields one triple per line, as in N-Triples and N-Quads; reifiers are named by row, so they differ across splits."""
    end = f"{graph_name} .\n"
    before = None
    for row, head, relation, tail, pairs, needs_reifier in text.rows(split):
        triple = f"{head} {relation} {tail}"
        if triple != before:
            yield f"{triple}{end}"
        before = triple
        if needs_reifier:
            node = f"{text.reifier}{row}"
            yield f"{node} <{REIFIES}> <<( {triple} )>>{end}"
            yield from (f"{node} {key} {value}{end}" for key, value in pairs)


def _standard_lines(text: _Text, split: str, graph_name: str) -> Iterator[str]:
    """Yields the quads of standard reification: one node per statement with subject, predicate, object and qualifiers."""
    for row, head, relation, tail, pairs, _ in text.rows(split):
        node = f"{text.reifier}{row}"
        for role, value in ((f"<{SUBJECT}>", head), (f"<{PREDICATE}>", relation), (f"<{OBJECT}>", tail), *pairs):
            yield f"{node} {role} {value}{graph_name} .\n"


def _write_quads(text: _Text, of_split: Callable[[_Text, str, str], Iterator[str]], destination: Path, overwrite: bool) -> list[Path]:
    """Writes an N-Quads file: labels in the default graph, and the lines of each split in its named graph."""

    def lines() -> Iterator[str]:
        yield from text.label_lines()
        for split in text.splits:
            yield from of_split(text, split, f" <{SPLIT_GRAPH}{split}>")

    return _write_file(destination, lines, overwrite)


def _write_file(destination: Path, lines: Callable[[], Iterator[str]], overwrite: bool) -> list[Path]:
    with new_file(destination, overwrite) as place, place.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(lines())
    return [destination]


def _write_folder(
    destination: Path, extension: str, splits: list[str], lines: Callable[[str], Iterator[str]], overwrite: bool
) -> list[Path]:
    ours = {split + extension for split in SPLITS}
    with new_folder(destination, overwrite, lambda: check_only(destination, ours, "an export")) as place:
        for split in splits:
            with (place / (split + extension)).open("w", encoding="utf-8", newline="\n") as file:
                file.writelines(lines(split))
    return [destination / (split + extension) for split in splits]

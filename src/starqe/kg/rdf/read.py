"""Reads RDF: triples and the triples about them become statements with qualifiers.

The rule: an asserted triple without a reifier is a statement without qualifiers; with reifiers it is a statement for
each of them, whose qualifiers are the triples about that reifier. A reifier is a node that ``rdf:reifies`` a triple
(in Turtle also ``<< s p o >>``, ``~`` and ``{| … |}``) or that has ``rdf:subject``, ``rdf:predicate`` and ``rdf:object``;
singleton properties and declared nodes are read as reifiers (`starqe.kg.rdf.qualifier_patterns`).

Named graphs whose IRI ends in train, valid or test are splits; everything else belongs to the split that the caller names.
Triples and reifiers are matched within a split. A reifier whose triple is asserted only in other splits counts there,
and a qualifier in a split where its reifier reifies nothing belongs to that reifier wherever it does.
"""

import contextlib
import itertools
from array import array
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, Triple

from starqe.kg.iris import DEFAULT_NAMES, OBJECT, PREDICATE, REIFIES, STATEMENT, SUBJECT, TYPE, Names
from starqe.kg.known import distinct
from starqe.kg.rdf import wikibase
from starqe.kg.rdf.bulk_lines import SHORTEST, NumberedTriples, number_lines
from starqe.kg.rdf.bulk_turtle import PLAIN_BLOCK, PlainTurtle
from starqe.kg.rdf.details import apply_details
from starqe.kg.rdf.named_graphs import graph_pairs, split_of
from starqe.kg.rdf.numbered_terms import Generated, Terms
from starqe.kg.rdf.parse import BULK, ByteSource, Joined, blocks, lines_of_document, parse_lines, whole_lines
from starqe.kg.rdf.qualifier_patterns import SINGLETON, singleton_properties, value_nodes
from starqe.kg.rdf.reified import Numbered, key, standard_reification, statements_of, unique_rows, used_numbers
from starqe.kg.reading.files import count_lines, open_guarded
from starqe.kg.reading.import_task import ImportTask, SharedReader
from starqe.kg.statement import SPLITS
from starqe.ragged import BoolArray, IntArray, Ragged

LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
PREFERRED_LABEL = "http://www.w3.org/2004/02/skos/core#prefLabel"
LABELS = (
    PREFERRED_LABEL,
    LABEL,
    "http://schema.org/name",
    "https://schema.org/name",
    "http://xmlns.com/foaf/0.1/name",
)
"""Predicates whose literals are labels, the best first; those that the user names have priority."""

MAX_LINE = 64 * 2**20
CHUNK = 50_000
"""The number of triples that are read, and of statements that are added to the draft, at a time."""


class RdfReader(SharedReader):
    """Reads the documents of one graph, then adds its statements to a draft.

    The documents are one graph in parts: a blank node label means the same node in all of them (train.ttl and
    valid.ttl of one folder), and a document may reify a triple of another. A label written in a document is the
    identifier ``_:label``; a node without one gets a generated name, by order of appearance, that no written label has.

    Terms are numbered in order of appearance and triples are kept as four numbers, since reifiers are known only at the end:
    a million triples take about 20 MB, in addition to the texts of the terms.
    """

    def __init__(self, task: ImportTask) -> None:
        self._task, self._draft, self._report = task, task.draft, task.report
        self._keep_unasserted = task.unasserted == "keep"
        self._reification_form = False  # if True, every reified triple counts as asserted
        self._terms = Terms(task.literals == "drop")
        self._ids = self._terms.ids
        self._graph_numbers: dict[str, int] = {}
        self._graphs = array("i")  # (T,) the named graph of each triple
        self._reified_graphs = array("i")  # (R,) that of each reification
        self._graph_nodes: list[int] = []  # the number of each named graph as an entity; -1 for the default graph and for splits
        self._triples = array("i")  # (T, 4) subject, predicate, object, split
        self._reified = array("i")  # (R, 6) reifier, subject, predicate, object, split, whether it needs no assertion
        self._labels: dict[str, list[tuple[int, str, str]]] = {iri: [] for iri in (*task.label_relations, *LABELS)}

    def read(
        self, stream: ByteSource, where: str, syntax: RdfFormat, split: str = "train", standard: bool = False, star: bool = False
    ) -> None:
        """Reads a document; in line-based formats also lines of RDF-star.

        Args:
            stream: Its bytes.
            where: Its name in errors.
            syntax: Its syntax.
            split: The split of everything outside the named graphs that are splits.
            standard: Whether it is in standard reification, where every reified triple counts as asserted.
            star: Whether it is RDF-star from before RDF 1.2, where all annotations of a triple belong together.

        Raises:
            InputError: The document is malformed (in line-based formats: unless the report skips errors).
        """
        self._reification_form |= standard
        if syntax in (RdfFormat.N_TRIPLES, RdfFormat.N_QUADS):
            for block, first, count in whole_lines(stream, BULK):
                self._read_block(block, first, count, where, syntax, split)
            return
        line = 1
        if syntax in (RdfFormat.TURTLE, RdfFormat.TRIG) and not star:
            stream, line = self._read_plain(stream, syntax, split)
        texts, generated = lines_of_document(stream, where, syntax, star, line)  # lines are read faster than quads
        for text in texts:
            self._read_block(text, 1, count_lines(text), where, RdfFormat.N_QUADS, split, generated)

    def _read_plain(self, stream: ByteSource, syntax: RdfFormat, split: str) -> tuple[ByteSource, int]:
        """Reads a document as far as it is plain Turtle or TriG; returns the rest, and the number of its first line."""
        turtle, line, rest = PlainTurtle(syntax == RdfFormat.TRIG, self._terms, self._labels), 1, b""
        for block in blocks(stream, PLAIN_BLOCK):
            rest += block
            cut = max(rest.rfind(b".\n") + 2, rest.rfind(b"}\n") + 2)
            found = turtle.number(rest[:cut])
            if found is None:
                break
            self._record(found, split)
            for predicate, subject, label in found.labels:
                self._labels[predicate].append((subject, label.value, label.language or ""))
            line += rest.count(b"\n", 0, cut)
            rest = rest[cut:]
        return Joined(turtle.context + rest, stream), line

    def _record(self, found: NumberedTriples, split: str, generated: Generated = None) -> None:
        """Records triples and reifications."""
        places = np.array([(SPLITS.index(split_of(name) or split), self._graph_number(name, generated)) for name in found.graphs], np.int32)
        (code, graph), (reified_code, reified_graph) = places[found.graph].T, places[found.reified_graph].T
        asserted = np.full(len(reified_code), self._keep_unasserted)
        self._triples.frombytes(np.column_stack([found.triples, code]).astype(np.int32).tobytes())
        self._graphs.frombytes(graph.tobytes())
        self._reified.frombytes(np.column_stack([found.reified, reified_code, asserted]).astype(np.int32).tobytes())
        self._reified_graphs.frombytes(reified_graph.tobytes())
        self._task.advance(len(code) + len(reified_code))

    def _read_block(
        self, block: bytes, first: int, count: int, where: str, syntax: RdfFormat, split: str, generated: Generated = None
    ) -> None:
        """Reads a large block of lines; the parser reads only the lines and terms that bulk reading leaves to it."""
        numbers: Iterable[int] = itertools.count(first)
        if count <= len(block) // SHORTEST + 1:
            found = number_lines(block, self._terms, self._labels, generated, syntax == RdfFormat.N_QUADS)
            self._record(found, split, generated)
            numbers = (first + found.others).tolist()
            block = b"".join(block[found.starts[place] : found.starts[place + 1]] for place in found.others.tolist())
        self._read_quads(parse_lines(block, numbers, where, syntax, self._report, star=True), where, split, generated)

    def _read_quads(self, quads: Iterable[Quad], where: str, split: str, generated: Generated) -> None:
        graphs: dict[object, tuple[int, int]] = {}
        count = 0
        for count, quad in enumerate(quads, 1):
            name = quad.graph_name
            if name not in graphs:
                graphs[name] = SPLITS.index(split_of(name) or split), self._graph_number(name, generated)
            code, graph = graphs[name]
            before = len(self._triples), len(self._reified)
            self._take(quad, code, where, generated)
            if len(self._triples) > before[0]:
                self._graphs.append(graph)
            elif len(self._reified) > before[1]:
                self._reified_graphs.append(graph)
            if count % CHUNK == 0:
                self._task.advance(CHUNK)
        self._task.advance(count % CHUNK)

    def _graph_number(self, name: object, generated: Generated = None) -> int:
        number = self._graph_numbers.setdefault(str(name), len(self._graph_numbers))
        if len(self._graph_numbers) > len(self._graph_nodes):
            self._graph_nodes.append(self._graph_node(name, generated))
        return number

    def _graph_node(self, name: object, generated: Generated) -> int:
        """Returns the number of a named graph, if named graphs become qualifiers."""
        is_named = self._task.graph_qualifier and type(name) in (NamedNode, BlankNode) and not split_of(name)
        return self._terms.number(name, generated) if is_named else -1  # type: ignore[arg-type]

    def _take(self, quad: Quad, split: int, where: str, generated: Generated) -> None:
        """Records a label, a reification or a triple."""
        subject, predicate, value, _ = quad
        if type(value) is Literal and (labels := self._labels.get(predicate.value)) is not None:
            labels.append((self._terms.number(subject, generated), value.value, value.language or ""))
            return
        head = self._terms.number(subject, generated)
        if type(value) is Triple and predicate.value == REIFIES:
            numbers = (head, *(self._terms.number(part, generated) for part in (value.subject, value.predicate, value.object)))
            column, row = self._reified, (*numbers, split, self._keep_unasserted)
        else:
            numbers = (head, self._terms.number(predicate, generated), self._terms.number(value, generated))
            column, row = self._triples, (*numbers, split)
        if self._terms.unfit and (unfit := self._terms.unfit.keys() & set(numbers)):
            self._report.problem(f"{where}: {self._terms.unfit[min(unfit)]}")
        else:
            column.extend(row)

    def finish(self) -> None:
        """Adds the statements and labels to the draft, and what was left out to the report.

        Raises:
            InputError: A node is a malformed standard reification (unless the report says to skip).
        """
        read = np.frombuffer(self._triples, np.int32).reshape(-1, 4)
        self._report.in_several_graphs += self._in_several_graphs(read)
        triples, nodes = self._wikibase(read)
        triples, singletons = singleton_properties(triples, self._ids.get(SINGLETON, -1))
        triples, declared = value_nodes(triples, self._ids.get(self._task.value_node or "", -1))
        nodes = np.concatenate([nodes, singletons, declared])
        texts = list(self._ids)
        triples, standard = self._standard_reification(triples, texts)
        reified, _ = unique_rows(np.concatenate([np.frombuffer(self._reified, np.int32).reshape(-1, 6), standard, nodes]))
        of_reifier = np.isin(triples[:, 0], reified[:, 0])
        facts, pairs = triples[~of_reifier], unique_rows(triples[of_reifier])[0]
        facts, pairs, reified = apply_details(facts, pairs, reified, texts, self._terms.detailed)
        pairs, reified = self._with_graphs(read, facts, pairs, reified)
        texts = list(self._ids)
        statements = statements_of(facts, self._entity_pairs(pairs, texts), reified)
        self._report.unasserted += statements.unasserted
        self._add(self._entity_facts(statements, texts), texts)

    def _with_graphs(self, read: IntArray, facts: IntArray, pairs: IntArray, reified: IntArray) -> tuple[IntArray, IntArray]:
        """Returns the pairs of reifiers, and the reifications: with the named graphs as qualifiers, if they are wanted."""
        if not self._task.graph_qualifier:
            return pairs, reified
        term = self._task.names.relations.term(self._task.graph_qualifier)
        relation = self._ids[str(term.value)]
        node = np.array([*self._graph_nodes, -1])
        quads = np.column_stack([read, node[np.frombuffer(self._graphs, np.int32)]])
        told = np.frombuffer(self._reified, np.int32).reshape(-1, 6)[:, 0]
        reified_in = np.column_stack([told, node[np.frombuffer(self._reified_graphs, np.int32)]])
        more, told_in = graph_pairs(quads, facts, reified, reified_in, relation, len(self._ids))
        return np.unique(np.concatenate([pairs, told_in]), axis=0), np.concatenate([reified, more])

    def _in_several_graphs(self, triples: IntArray) -> int:
        """Counts the triples of each split that are in several named graphs, once for every graph after the first."""
        if len(self._graph_numbers) < 2 or self._task.graph_qualifier:
            return 0
        graphs = np.frombuffer(self._graphs, np.int32)
        used = distinct(key(graphs, triples[:, 3]))
        if len(distinct(used % len(SPLITS))) == len(used):  # a split is one graph
            return 0
        return len(unique_rows(np.column_stack([triples, graphs]))[0]) - len(unique_rows(triples)[0])

    def _wikibase(self, triples: IntArray) -> tuple[IntArray, IntArray]:
        """Converts the statement nodes of Wikidata's RDF, if there are any, to reified triples, as rows of ``_reified``."""
        texts = list(self._ids)
        site = wikibase.site_of([texts[predicate] for predicate in used_numbers(triples[:, 1]).tolist()])
        if site is None:
            return triples, np.empty((0, 6), np.int32)
        found = wikibase.convert(triples, self._terms, site, self._task.wikidata)
        said = f"this is the RDF of a Wikibase site: {len(found.reified):,} statement nodes became statements"
        if self._task.names == DEFAULT_NAMES:
            self._task.names = Names(site + wikibase.ENTITY, site + wikibase.DIRECT)
            said += f", and identifiers are written without {site}{wikibase.ENTITY} and {site}{wikibase.DIRECT}"
        self._report.records.update(found.records)
        texts = list(self._ids)
        for (reason, relation), count in found.left_out.items():
            self._report.leave_out(reason, self._task.names.relations.identifier(texts[relation]), count)
        for labels in self._labels.values():
            labels += [(found.relations[number], label, language) for number, label, language in labels if number in found.relations]
        self._report.note(said)
        return found.triples, found.reified

    def _standard_reification(self, triples: IntArray, texts: list[str]) -> tuple[IntArray, IntArray]:
        """Removes the triples of standard reification; also returns what they reify, as rows of ``_reified``."""
        subject, predicate, value, type_, statement = (self._ids.get(iri, -1) for iri in (SUBJECT, PREDICATE, OBJECT, TYPE, STATEMENT))
        found = standard_reification(triples, (subject, predicate, value), type_, statement)
        malformed = [*found.ambiguous.tolist(), *(found.incomplete.tolist() if self._reification_form else [])]
        for node in malformed:
            self._report.problem(
                f"{texts[node]}: a reified statement has one rdf:subject, one rdf:predicate and one rdf:object, found fewer or more"
            )
        bad_predicates = [number for number in np.unique(found.reified[:, 2]).tolist() if texts[number].startswith(("_:", '"'))]
        bad = np.isin(found.reified[:, 2], bad_predicates)
        for node, _, number, _, _ in found.reified[bad].tolist():
            self._report.problem(f"{texts[node]}: an rdf:predicate is an IRI, found {texts[number].removeprefix(chr(34))}")
        malformed += found.reified[bad, 0].tolist()
        rest = found.rest[~np.isin(found.rest[:, 0], malformed)]
        asserted = np.full(len(found.reified), self._keep_unasserted or self._reification_form)
        return rest, np.column_stack([found.reified, asserted])[~bad].astype(np.int32)

    def _entity_facts(self, statements: Numbered, texts: list[str]) -> Numbered:
        """Leaves out the statements with a triple term (or a literal, if they are dropped), and counts them once per triple and split."""
        is_value = self._is_value()
        left_out = is_value[statements.triples[:, 0]] | is_value[statements.triples[:, 2]]
        facts = np.unique(np.column_stack([statements.triples, statements.split])[left_out], axis=0).tolist()
        self._count_literals(
            [(relation, self._terms.values.get(tail) or self._terms.values[head]) for head, relation, tail, _ in facts], texts
        )
        return statements.only(~left_out)

    def _entity_pairs(self, pairs: IntArray, texts: list[str]) -> IntArray:
        """Leaves out and counts the qualifier pairs with a triple term (or a literal, if they are dropped)."""
        left_out = self._is_value()[pairs[:, 2]]
        self._count_literals([(relation, self._terms.values[value]) for relation, value in pairs[left_out, 1:3].tolist()], texts)
        return np.compress(~left_out, pairs, axis=0)

    def _count_literals(self, found: list[tuple[int, str]], texts: list[str]) -> None:
        """Adds literals to the report, by the numbers of their relations and their kinds."""
        for (relation, kind), count in Counter(found).items():
            self._report.leave_out_literals(self._task.names.relations.identifier(texts[relation]), kind, count)

    def _is_value(self) -> BoolArray:
        mask = np.zeros(len(self._ids), bool)
        mask[list(self._terms.values)] = True
        return mask

    def _add(self, statements: Numbered, texts: list[str]) -> None:
        """Adds statements and labels to the draft by their identifiers."""
        first, count = statements.first, statements.count
        used = statements.pairs[Ragged.ranges(first, count).items]
        entities = used_numbers(statements.triples[:, 0], statements.triples[:, 2], used[:, 1]).tolist()
        relations = used_numbers(statements.triples[:, 1], used[:, 0]).tolist()
        entity_names = self._terms.entity_names(entities, texts, self._task.names.entities)
        relation_names = self._task.names.relations.identifiers(map(texts.__getitem__, relations))
        # One column of names: entities, then relations; an entity and a relation may have the same name.
        encoded = pa.array([*entity_names, *relation_names], pa.string()).dictionary_encode()
        number = np.full(2 * len(texts), -1, np.int32)  # entities at their numbers, then relations
        number[np.concatenate([entities, np.add(relations, len(texts))]).astype(np.int64)] = encoded.indices.to_numpy()
        head, tail, relation = (number[statements.triples[:, place] + shift] for place, shift in ((0, 0), (2, 0), (1, len(texts))))
        pairs = number[np.add(used, [len(texts), 0])]
        for code, split in enumerate(SPLITS):
            rows = np.flatnonzero(statements.split == code)
            own = Ragged.of_counts(count, pairs).take(rows)
            self._draft.add_numbers(encoded.dictionary, head[rows], relation[rows], tail[rows], own, split)
        if any(self._labels.values()):
            self._add_labels(dict(zip(entities, entity_names, strict=True)), dict(zip(relations, relation_names, strict=True)), texts)

    def _add_labels(self, entity_names: dict[int, str], relation_names: dict[int, str], texts: list[str]) -> None:
        """Adds the labels to the draft, the best ones first, since the draft keeps the first of several."""
        for labels in self._labels.values():
            for number, label, language in labels:
                if number in entity_names:
                    self._draft.label(entity_names[number], label, language, "entity")
                if number in relation_names:
                    self._draft.label(relation_names[number], label, language, "relation")
                if number not in entity_names and number not in relation_names:
                    self._draft.label(self._task.names.labelled(texts[number]), label, language)


def read_rdf(task: ImportTask, path: Path, split: str, syntax: RdfFormat, standard: bool = False, star: bool = False) -> None:
    """Reads a file; its statements are added to the draft at the end of the task, since other files may reify its triples.

    Raises:
        InputError: The document is malformed (in line-based formats: unless the report skips errors).
    """
    with contextlib.closing(open_guarded(path, MAX_LINE)) as stream:
        task.shared(RdfReader).read(stream, str(path), syntax, split, standard, star)

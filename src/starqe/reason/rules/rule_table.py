"""A table of rules: in memory, as a Parquet file, and in words."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from starqe.errors import InputError, StorageError
from starqe.folders import checksum, new_file
from starqe.kg import Graph
from starqe.kg.parquet import WRITTEN, check_resources, open_parquet, strings
from starqe.ragged import FloatArray, IntArray
from starqe.reason.rules.walks import FIRST_KEY, HEAD, TAIL, step_code, step_parts

ABSENT = -1
"""Marks a missing step or entity in a column."""
STEPS = ("head", "first", "second")
"""The columns of steps: the conclusion, and the steps of the body."""
NODES = ("value", "answer")
"""The columns of entities: that of the body, and that of the conclusion."""
_PLACES = {HEAD: "head", TAIL: "tail"}
_QUALIFIER = "qualifier "
_COLUMNS = [f"{step}_{part}" for step in STEPS for part in ("relation", "from", "to")] + [*NODES]
SCHEMA = pa.schema(
    [*((name, pa.string()) for name in _COLUMNS), ("support", pa.int64()), ("body", pa.int64()), ("confidence", pa.float64())]
)
"""The columns of the file; texts are identifiers, ``head``, ``tail`` or ``qualifier`` and a relation, and empty where there is nothing."""
FORMAT, VERSION = "starqe rules", 1
ABOUT, WEIGHT, CHECKSUM = b"starqe", b"starqe rule weight", b"starqe checksum"
"""The keys of the metadata of the file: its format, the fitted weight, and a checksum of the weight and the columns."""
_RENEW = "Train again"


@dataclass(frozen=True, eq=False)
class Rules:
    """Rules by columns; each rule suggests answers to questions for the end of a step.

    | kind | what it suggests for a question that gives X and asks for Y: head(X, Y) |
    | --- | --- |
    | path | Y is where first, or first and then second, lead from X |
    | shared value | Y is ``answer`` if first leads from X to ``value`` |
    | given value | Y is ``answer`` if X is ``value``, the value of a qualifier that is given |
    | usual | Y is ``answer`` |

    n rules. ``confidence`` is the lower bound of the share of ``support`` in ``body``.
    """

    graph: Graph
    head: IntArray  # (n,) the code of a step: see `step_code`
    first: IntArray  # (n,)
    second: IntArray  # (n,)
    value: IntArray  # (n,)
    answer: IntArray  # (n,)
    support: IntArray  # (n,) how often the rule was right
    body: IntArray  # (n,) how often it made a prediction
    confidence: FloatArray  # (n,)
    weight: float = 0.0
    """The weight of the rules when they are added to the scores of a model."""

    def __len__(self) -> int:
        return len(self.head)

    @cached_property
    def path(self) -> IntArray:
        """The rules with a path."""
        return np.flatnonzero(self.answer == ABSENT)

    @cached_property
    def shared(self) -> IntArray:
        """The rules with a shared value."""
        return np.flatnonzero((self.answer != ABSENT) & (self.first != ABSENT))

    @cached_property
    def given(self) -> IntArray:
        """The rules with a given value."""
        return np.flatnonzero((self.first == ABSENT) & (self.value != ABSENT))

    @cached_property
    def usual(self) -> IntArray:
        """The rules without a condition."""
        return np.flatnonzero((self.first == ABSENT) & (self.value == ABSENT))

    def best(self, count: int, relation: int | None = None) -> list[int]:
        """Returns the rules with the highest product of support and confidence; for one relation, if it is given."""
        places = len(self.graph.relations) + FIRST_KEY
        own = np.arange(len(self)) if relation is None else np.flatnonzero(self.head // places**2 == relation)
        order = np.argsort(-(self.support * self.confidence)[own], kind="stable")
        return [int(rule) for rule in own[order[:count]]]

    def counts(self, rule: int) -> dict[str, float]:
        """Returns the numbers of a rule, by name."""
        return {
            "support": int(self.support[rule]),
            "body": int(self.body[rule]),
            "confidence": round(float(self.confidence[rule]), 4),
        }

    def words(self, rule: int, label: Callable[[str], str] = str, relation_label: Callable[[str], str] = str) -> str:
        """Writes a rule in words: its body, and then what it concludes."""
        step, node = self._step_writer(relation_label), self._node_writer(label)
        answer = "Y" if self.answer[rule] == ABSENT else node(int(self.answer[rule]))
        if self.first[rule] == ABSENT:
            given = "X" if self.value[rule] == ABSENT else node(int(self.value[rule]))
            return f"always: {step(int(self.head[rule]), given, answer)}"
        if self.answer[rule] != ABSENT:
            body = step(int(self.first[rule]), "X", node(int(self.value[rule])))
        elif self.second[rule] == ABSENT:
            body = step(int(self.first[rule]), "X", "Y")
        else:
            body = f"{step(int(self.first[rule]), 'X', 'Z')} and {step(int(self.second[rule]), 'Z', 'Y')}"
        return f"if {body}, then {step(int(self.head[rule]), 'X', answer)}"

    def _step_writer(self, relation_label: Callable[[str], str]) -> Callable[[int, str, str], str]:
        def relation(id_: int) -> str:
            return relation_label(self.graph.relations.identifier(id_))

        def written(code: int, start: str, end: str) -> str:
            of, source, target = step_parts(self.graph, code)
            at = {source: start, target: end}
            main = f"{at.get(HEAD, '…')} - {relation(of)} - {at.get(TAIL, '…')}"
            pairs = "; ".join(f"{relation(place - FIRST_KEY)}: {name}" for place, name in at.items() if place >= FIRST_KEY)
            return main + (f" ({pairs})" if pairs else "")

        return written

    def _node_writer(self, label: Callable[[str], str]) -> Callable[[int], str]:
        return lambda id_: label(self.graph.entities.identifier(id_))

    def save(self, path: Path) -> None:
        """Writes the rules as a Parquet file, the most confident first within each conclusion.

        Raises:
            StorageError: It cannot be written.
        """
        columns: list[pa.Array] = []
        for step in STEPS:
            codes, place = np.unique(getattr(self, step), return_inverse=True)
            texts = [("", "", "") if code == ABSENT else self._texts(int(code)) for code in codes]
            columns += [pa.array([text[part] for text in texts], pa.string()).take(pa.array(place)) for part in range(3)]
        for node in NODES:
            ids = getattr(self, node)
            names = self.graph.entities.identifiers.take(pa.array(np.where(ids == ABSENT, 0, ids))).cast(pa.string())
            columns.append(pc.if_else(pa.array(ids == ABSENT), "", names))
        columns += [pa.array(self.support, pa.int64()), pa.array(self.body, pa.int64()), pa.array(self.confidence, pa.float64())]
        weight = repr(self.weight).encode()
        about = {ABOUT: json.dumps({"format": FORMAT, "version": VERSION}), WEIGHT: weight, CHECKSUM: _checksum(weight, columns)}
        table = pa.Table.from_arrays(columns, schema=SCHEMA.with_metadata(about))
        with new_file(path, overwrite=True) as beside:
            pq.write_table(table, beside, **WRITTEN)

    def _texts(self, code: int) -> tuple[str, str, str]:
        relation, start, end = step_parts(self.graph, code)
        return self.graph.relations.identifier(relation), self._place(start), self._place(end)

    def _place(self, place: int) -> str:
        return _PLACES.get(place) or _QUALIFIER + self.graph.relations.identifier(place - FIRST_KEY)

    @classmethod
    def load(cls, path: Path, graph: Graph) -> "Rules":
        """Reads the rules of a graph.

        Raises:
            StorageError: The file is damaged, of another graph, or of a newer version.
        """
        try:
            file = open_parquet(path, path, SCHEMA, None, _RENEW)
            table, metadata = file.read(columns=SCHEMA.names), file.schema_arrow.metadata or {}
            weight, text = float(metadata[WEIGHT]), {name: strings(table[name], path, _RENEW) for name in _COLUMNS}
            _check_about(path, metadata, [text[name] if name in text else table[name].combine_chunks() for name in SCHEMA.names])
            steps = {step: _codes(graph, *(text[f"{step}_{part}"] for part in ("relation", "from", "to"))) for step in STEPS}
            nodes = {node: _nodes(graph, text[node]) for node in NODES}
            support, body, confidence = (table[name].to_numpy() for name in ("support", "body", "confidence"))
        except (OSError, pa.ArrowException, KeyError, ValueError, TypeError, OverflowError, RecursionError, InputError) as error:
            check_resources(error)
            raise StorageError(f"{path}: damaged, or the rules of another graph ({error}). {_RENEW}") from None
        counted = ((confidence > 0) & (confidence < 1)).all() and (support >= 0).all() and (support <= body).all()
        if not (np.isfinite(weight) and weight >= 0 and counted):
            raise StorageError(f"{path}: damaged (a confidence is not between 0 and 1, or a weight or a count is negative). {_RENEW}")
        has = {name: column != ABSENT for name, column in (steps | nodes).items()}
        concludes = np.where(has["answer"], has["value"] | ~has["first"], has["first"] & ~has["value"])
        if not (has["head"] & concludes & (~has["second"] | has["first"] & ~has["answer"])).all():
            raise StorageError(f"{path}: damaged (a rule is a path, or ends in an answer; found one that is neither). {_RENEW}")
        return cls(graph, **steps, **nodes, support=support, body=body, confidence=confidence, weight=weight)


def _check_about(path: Path, metadata: Mapping[bytes, bytes], columns: Sequence[pa.Array]) -> None:
    """Checks version and checksum of a file; the first programs with rules wrote neither.

    Raises:
        StorageError: The file is damaged, or of a newer version.
    """
    if ABOUT in metadata and (version := int(json.loads(metadata[ABOUT])["version"])) > VERSION:
        raise StorageError(f"{path}: written by a newer starqe (rules format {version}, this one reads up to {VERSION}). Upgrade starqe")
    recorded = metadata.get(CHECKSUM, b"").decode()
    if recorded and recorded != (found := _checksum(metadata[WEIGHT], columns)):
        raise StorageError(f"{path}: damaged or changed (checksum {found}, recorded {recorded}). {_RENEW}")


def _checksum(weight: bytes, columns: Sequence[pa.Array]) -> str:
    """Computes the checksum of the weight and of the values of all columns."""
    found = checksum(weight)
    for column in columns:
        if pa.types.is_string(column.type):
            part = pc.binary_join(pa.ListArray.from_arrays([0, len(column)], column), "\0")[0].as_buffer()
        else:
            part = np.ascontiguousarray(column.to_numpy(zero_copy_only=False)).data
        found = checksum(memoryview(part), int(found, 16))
    return found


def _each(texts: pa.StringArray, read: Callable[[str], int]) -> IntArray:
    """Reads every distinct text once: (n,)."""
    coded = texts.dictionary_encode()
    return np.asarray(np.array([read(text) for text in coded.dictionary.to_pylist()], np.int64)[coded.indices.to_numpy()])


def _nodes(graph: Graph, texts: pa.StringArray) -> IntArray:
    """Returns the entities that are written as texts: (n,)."""
    coded = texts.dictionary_encode()
    identifiers = graph.entities.identifiers
    ids = pc.index_in(coded.dictionary.cast(identifiers.type), identifiers)
    absent = pc.equal(coded.dictionary, "")
    if pc.any(pc.and_(pc.is_null(ids), pc.invert(absent))).as_py():
        raise ValueError("an entity of a rule does not occur in the graph")
    found = pc.fill_null(pc.if_else(absent, ABSENT, ids), ABSENT).to_numpy()
    return np.asarray(found.astype(np.int64)[coded.indices.to_numpy()])


def _codes(graph: Graph, relation: pa.StringArray, start: pa.StringArray, end: pa.StringArray) -> IntArray:
    """Returns the codes of steps that are written as texts: (n,)."""
    ids = _each(relation, lambda name: graph.relations.id(name) if name else ABSENT)
    one, other = (_each(texts, lambda text: _place_of(graph, text)) for texts in (start, end))
    if ((ids == ABSENT) != (one == ABSENT)).any() or ((ids == ABSENT) != (other == ABSENT)).any():
        raise ValueError("a step has a relation and two places")
    return np.where(ids == ABSENT, ABSENT, step_code(graph, ids, one, other))


def _place_of(graph: Graph, text: str) -> int:
    if not text:
        return ABSENT
    if text.startswith(_QUALIFIER):
        return graph.relations.id(text.removeprefix(_QUALIFIER)) + FIRST_KEY
    return {name: place for place, name in _PLACES.items()}[text]

"""Warm starts: the weights of a run, carried over to a graph that has grown.

Rows of entities and relations that the run knows are kept, by identifier. A new one starts as the mean over its statements of what
fills the same place: for the head of (?, born in, Ulm) the other people born in Ulm, or else all people with a place of birth.
Only train statements count.

D width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from starqe.errors import MismatchError
from starqe.kg import Graph, Vocabulary
from starqe.model.space import Blocks
from starqe.ragged import BoolArray, IntArray


@dataclass(frozen=True, eq=False)
class Start:
    """The weights that a training begins with, and where they come from."""

    weights: Mapping[str, Tensor]
    origin: Mapping[str, Any]
    """As recorded in ``run.json``: the run, the fingerprint of its graph, and how much of the vocabulary is new."""
    files: Mapping[str, bytes] = field(default_factory=dict)
    """The further files of the run, by name."""


@dataclass(frozen=True)
class Places:
    """Occurrences of entities or of relations, each with the places that it fills: narrow ones first, then wider ones."""

    item: IntArray  # (n,)
    codes: tuple[IntArray, ...]  # (n,) each


def carried_over(
    weights: Mapping[str, Tensor], blocks: Mapping[str, Blocks], old: Graph, new: Graph, fresh: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Returns the weights of a model of a new graph: those of the model of an old one, with rows for what is new.

    Args:
        weights: The weights of the model of the old graph.
        blocks: The parameters with a row for each entity or relation.
        old: The graph of these weights.
        new: The new graph.
        fresh: The weights of a new model of the new graph; only their shapes count.

    Raises:
        MismatchError: The models are not of one architecture and width.
    """
    before = {"entities": old.entities, "relations": old.relations}
    after = {"entities": new.entities, "relations": new.relations}
    kept = {kind: _kept(before[kind], after[kind]) for kind in before}
    places = {"entities": entity_places(new), "relations": relation_places(new)}
    found = {}
    for name, tensor in fresh.items():
        if name not in weights or weights[name].shape[1:] != tensor.shape[1:]:
            raise _other_model(name, weights.get(name), tensor)
        if name not in blocks:
            if weights[name].shape != tensor.shape:
                raise _other_model(name, weights[name], tensor)
            found[name] = weights[name].clone()
            continue
        parts, start = [], 0
        for block in blocks[name]:
            size = block if isinstance(block, int) else len(before[block])
            rows = weights[name][start : start + size]
            parts.append(rows if isinstance(block, int) else _grown(rows, kept[block], places[block]))
            start += size
        found[name] = torch.cat(parts)
        if start != len(weights[name]) or found[name].shape != tensor.shape:
            raise _other_model(name, weights[name], tensor)
    return found


def entity_places(graph: Graph) -> list[Places]:
    """Returns the places of entities in the train statements: heads, tails, and values of pairs."""
    rows, pairs, stride = _train(graph)
    head, relation, tail = (column[rows].astype(np.int64) for column in (graph.head, graph.relation, graph.tail))
    key, value = graph.pair_relation[pairs].astype(np.int64), graph.pair_value[pairs].astype(np.int64)
    main = graph.relation[graph.pairs.owner[pairs]]
    found = [
        Places(head, (relation * stride + tail, relation)),
        Places(tail, (relation * stride + head, relation)),
        Places(value, (key * stride + main, key)),
    ]
    return [_only(places, places.item < len(graph.entities)) for places in found]


def relation_places(graph: Graph) -> list[Places]:
    """Returns the places of relations in the train statements: between two entities, before a tail, and in pairs before a value."""
    rows, pairs, stride = _train(graph)
    head, relation, tail = (column[rows].astype(np.int64) for column in (graph.head, graph.relation, graph.tail))
    key, value = graph.pair_relation[pairs].astype(np.int64), graph.pair_value[pairs].astype(np.int64)
    return [Places(relation, (head * stride + tail, tail, head)), Places(key, (value,))]


def _train(graph: Graph) -> tuple[IntArray, IntArray, int]:
    """Returns the rows and the pairs of train, and a number above all ids."""
    rows = graph.known(["train"]).rows
    pairs = np.flatnonzero(graph.split[graph.pairs.owner] == 0)
    largest = (int(column.max(initial=0)) for column in (graph.head, graph.tail, graph.relation, graph.pair_value, graph.pair_relation))
    return rows, pairs, 1 + max(largest)


def _only(places: Places, chosen: BoolArray) -> Places:
    return Places(places.item[chosen], tuple(code[chosen] for code in places.codes))


def _kept(old: Vocabulary, new: Vocabulary) -> IntArray:
    """Returns the old id of each identifier of the new vocabulary, or -1: (new,)."""
    return np.fromiter((old.id(name) if name in old else -1 for name in new), np.int64, len(new))


def _grown(rows: Tensor, kept: IntArray, families: Sequence[Places]) -> Tensor:
    """Returns one row for each id of the new vocabulary: (old, D) -> (new, D)."""
    known = kept >= 0
    found = rows.new_zeros(len(kept), rows.shape[1])
    found[torch.from_numpy(known)] = rows[torch.from_numpy(kept[known])]
    if known.all():
        return found
    sums, counts = torch.zeros_like(found), torch.zeros(len(kept))
    for places in families:
        asked = ~known[places.item]
        if not asked.any():
            continue
        items = torch.from_numpy(places.item[asked])
        means, has = torch.zeros(len(items), rows.shape[1]), np.zeros(len(items), bool)
        for code in places.codes:
            narrow, is_filled = _means(found, places.item[~asked], code[~asked], code[asked])
            chosen = torch.from_numpy(is_filled & ~has)
            means[chosen] = narrow[chosen]
            has |= is_filled
        chosen = torch.from_numpy(has)
        sums.index_add_(0, items[chosen], means[chosen])
        counts.index_add_(0, items[chosen], torch.ones(int(has.sum())))
    fresh = torch.from_numpy(~known)
    reached = fresh & (counts > 0)
    found[fresh] = rows.mean(0) if len(rows) else 0.0
    found[reached] = sums[reached] / counts[reached][:, None]
    return found


def _means(rows: Tensor, item: IntArray, code: IntArray, wanted: IntArray) -> tuple[Tensor, BoolArray]:
    """Returns for each wanted code the mean of the rows of the items with this code, and whether there is one: (n, D), (n,)."""
    codes, place = np.unique(wanted, return_inverse=True)
    at = np.minimum(np.searchsorted(codes, code), len(codes) - 1)
    same = codes[at] == code
    owner = torch.from_numpy(at[same])
    sums = torch.zeros(len(codes), rows.shape[1]).index_add_(0, owner, rows[torch.from_numpy(item[same])])
    counts = torch.zeros(len(codes)).index_add_(0, owner, torch.ones(len(owner)))
    means = sums / counts.clamp_min(1)[:, None]
    return means[torch.from_numpy(place)], np.asarray(counts.numpy() > 0)[place]


def _other_model(name: str, before: Tensor | None, after: Tensor) -> MismatchError:
    found = "none" if before is None else "x".join(map(str, before.shape))
    return MismatchError(
        f"a warm start keeps architecture and width of the model: '{name}' is {'x'.join(map(str, after.shape))} here, and {found} in the "
        "run to start from. Take its recipe, or train anew"
    )

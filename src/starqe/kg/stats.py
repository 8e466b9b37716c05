"""Statistics of a graph."""

from typing import Any

import numpy as np

from starqe.kg.graph import Graph
from starqe.kg.split import check_split
from starqe.kg.statement import SPLITS
from starqe.kg.vocabulary import LabelColumn, Vocabulary


def graph_stats(graph: Graph) -> dict[str, Any]:
    """Counts statements, qualifiers, entities and relations, and checks the splits."""
    entities = len(graph.entities)
    in_main = np.zeros(graph.value_count, bool)
    in_main[graph.head] = in_main[graph.tail] = True
    tails, values = (column[column >= entities] - entities for column in (graph.tail, graph.pair_value))
    as_main = np.zeros(len(graph.relations), bool)
    as_main[graph.relation] = True
    pairs = graph.pairs.counts
    return {
        "fingerprint": graph.fingerprint,
        "statements": len(graph),
        **{split: int((graph.split == code).sum()) for code, split in enumerate(SPLITS)},
        "with_qualifiers": int((pairs > 0).sum()),
        "qualifier_pairs": len(graph.pair_value),
        "most_pairs_on_a_statement": int(pairs.max(initial=0)),
        "entities": len(graph.entities),
        "relations": len(graph.relations),
        "entities_only_in_qualifiers": int((~in_main[:entities]).sum()),
        "relations_only_in_qualifiers": int((~as_main).sum()),
        "literals": len(graph.literals),
        "literal_tails": graph.literals.kinds(tails),
        "literal_qualifier_values": graph.literals.kinds(values),
        "labelled_entities": _labelled(graph.entities),
        "labelled_relations": _labelled(graph.relations),
        "languages": sorted(graph.entities.labels.keys() | graph.relations.labels.keys()),
        "split_findings": check_split(graph).as_dict(),
    }


def _labelled(vocabulary: Vocabulary) -> int:
    """Counts the ids that have a label in some language."""
    has_label = np.zeros(len(vocabulary), bool)
    for by_id in vocabulary.labels.values():
        has_label[LabelColumn.of(by_id).ids] = True
    return int(has_label.sum())

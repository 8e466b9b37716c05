"""A generated dump of Wikidata, in the layout of the real ones."""

from pathlib import Path

import numpy as np

from starqe.seed import generator

STATEMENTS_PER_ITEM = 10
"""About the average of Wikidata's items."""

_ENTITY = '{{"value":{{"entity-type":"item","numeric-id":{n},"id":"Q{n}"}},"type":"wikibase-entityid"}},"datatype":"wikibase-item"'
_TIME = (
    '{{"value":{{"time":"+{year}-00-00T00:00:00Z","timezone":0,"before":0,"after":0,"precision":9,'
    '"calendarmodel":"http://www.wikidata.org/entity/Q1985727"}},"type":"time"}},"datatype":"time"'
)
_QUANTITY = '{{"value":{{"amount":"+{n}","unit":"http://www.wikidata.org/entity/Q11573"}},"type":"quantity"}},"datatype":"quantity"'
_STRING = '{{"value":"n{n}","type":"string"}},"datatype":"external-id"'
_VALUES = (_ENTITY, _ENTITY, _ENTITY, _TIME, _QUANTITY, _STRING)
"""Half of the values are entities."""
_REFERENCES = (
    ',"references":[{"hash":"d6e3ab4045fb3f3feea77895bc6b27e663fc878a","snaks":{"P248":[{"snaktype":"value","property":"P248",'
    '"hash":"f2d9d8a3d2b3ad80f8e1e6b4d9dc0a3a8b3a8b3a","datavalue":{"value":{"entity-type":"item","numeric-id":36578,"id":"Q36578"},'
    '"type":"wikibase-entityid"},"datatype":"wikibase-item"}]},"snaks-order":["P248"]}]'
)


def write_wikidata_dump(path: Path, statements: int, seed: int) -> None:
    """Writes a dump of items with ten statements each and labels in three languages.

    Half of the values are literals, a third of the statements have one or two qualifiers, half have a reference.
    """
    random = generator(seed, "bench wikidata dump")
    items = max(1, statements // STATEMENTS_PER_ITEM)
    with path.open("w", encoding="utf-8") as file:
        file.write("[\n")
        for item in range(1, items + 1):
            count = STATEMENTS_PER_ITEM if item < items else statements - STATEMENTS_PER_ITEM * (items - 1)
            numbers = random.integers(0, 2**31, (count, 6))
            tails = (random.random((count, 3)) ** 3 * items).astype(np.int64) + 1
            claims: dict[int, list[str]] = {}
            for row, tail in zip(numbers.tolist(), tails.tolist(), strict=True):
                claims.setdefault(row[0] % 500 + 1, []).append(_statement(item, row, tail))
            labels = ",".join(f'"{tag}":{{"language":"{tag}","value":"thing {item} ({tag})"}}' for tag in ("en", "de", "fr"))
            body = ",".join(f'"P{relation}":[{",".join(of_relation)}]' for relation, of_relation in claims.items())
            end = ",\n" if item < items else "\n"
            file.write(
                f'{{"type":"item","id":"Q{item}","labels":{{{labels}}},"descriptions":{{}},"aliases":{{}},"claims":{{{body}}}}}{end}'
            )
        file.write("]\n")


def _statement(item: int, row: list[int], tail: list[int]) -> str:
    relation, kind, pairs, reference, identifier, _ = row
    qualifiers = ""
    if pairs % 3 == 0:
        keys = sorted({600 + pairs % 7, 607 + pairs % 11} if pairs % 2 else {600 + pairs % 7})
        snaks = (f'"P{key}":[{_snak(key, pairs + key, value)}]' for key, value in zip(keys, tail[1:], strict=False))
        qualifiers = f',"qualifiers":{{{",".join(snaks)}}},"qualifiers-order":[{",".join(f"{chr(34)}P{key}{chr(34)}" for key in keys)}]'
    return (
        f'{{"mainsnak":{_snak(relation % 500 + 1, kind, tail[0])},"type":"statement"{qualifiers},"id":"Q{item}${identifier:032x}",'
        f'"rank":"{"deprecated" if identifier % 100 == 0 else "normal"}"{_REFERENCES if reference % 2 else ""}}}'
    )


def _snak(relation: int, kind: int, tail: int) -> str:
    value = _VALUES[kind % len(_VALUES)].format(n=tail, year=1500 + tail % 500)
    return f'{{"snaktype":"value","property":"P{relation}","hash":"{kind:040x}","datavalue":{value}}}'

"""Wikidata's JSON: dumps and single entities.

A statement of an item or property becomes a statement here, with its qualifiers, if its rank is chosen. References, aliases,
descriptions and links to other sites are not read. A slice of a dump (only some classes or properties, or entities with
enough statements) mentions entities outside the slice; their labels come from a second pass over the file.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from starqe.kg.formats.json_records import Record, json_records
from starqe.kg.formats.wikidata_values import ENTITY, VALUES, entity_id, is_entity_id
from starqe.kg.iris import DEFAULT_NAMES, Names
from starqe.kg.literal import Literal, literal_key
from starqe.kg.reading.files import STDIN
from starqe.kg.reading.import_options import NO_VALUE, WikidataOptions
from starqe.kg.reading.import_task import ImportTask, Row

WIKIDATA_NAMES = Names(ENTITY, "http://www.wikidata.org/prop/direct/")
"""Wikidata's own IRIs of its identifiers in RDF: wd:Q42, wdt:P31."""
INSTANCE_OF = "P31"
READ = frozenset(["item", "property"])
"""The types of entities that are read; others are counted."""
STEP = 1000
"""The number of records between two reports of progress."""
_KNOWN = re.compile(rb'"type"\s*:\s*"(?:item|property|lexeme|mediainfo)"')
_ID = re.compile(rb'"(?:id|redirect)"\s*:\s*"[QPLM]\d+"')


def is_wikidata(first: bytes) -> bool:
    """Returns whether a file that begins with these bytes has entities of Wikidata in it."""
    return first.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] in (b"{", b"[") and bool(_KNOWN.search(first) and _ID.search(first))


def read_wikidata(task: ImportTask, path: Path, split: str) -> None:
    """Adds the statements and labels of a file to an import.

    Raises:
        InputError: A record is malformed (unless the report says to skip), or the file cannot be read.
    """
    if task.names == DEFAULT_NAMES:
        task.names = WIKIDATA_NAMES
    reader = _Reader(task)
    labels_later = task.wikidata.is_slice and path != STDIN
    for record, entity in _entities(json_records(path, task.report), task):
        try:
            rows = reader.rows(entity)
            labels = reader.labels(entity)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            task.report.problem(f"{record.place(path)}: {_what_is_wrong(entity, error)}")
            continue
        reader.count()
        if task.literals == "drop":
            task.add(rows, split)
        else:
            task.add_keyed(rows, split)  # type: ignore[arg-type]
        if not labels_later:
            for label in labels:
                task.draft.label(*label)
    if labels_later:
        _read_labels(task, path, reader)


def _read_labels(task: ImportTask, path: Path, reader: "_Reader") -> None:
    """Reads the file once more, for the labels of what its statements mention."""
    task.flush()
    quiet = type(task.report)("skip")  # the first pass has reported every problem
    for _, entity in _entities(json_records(path, quiet), ImportTask(report=quiet, advance=task.advance)):
        if isinstance(entity, dict) and task.draft.mentions(str(entity.get("id"))):
            try:
                labels = reader.labels(entity)
            except (AttributeError, KeyError, TypeError, ValueError):
                continue
            for label in labels:
                task.draft.label(*label)


def _entities(records: Iterable[Record], task: ImportTask) -> Iterator[tuple[Record, Any]]:
    """Yields the entities in the records, and counts those that are not read."""
    for number, record in enumerate(records, 1):
        if number % STEP == 0:
            task.advance(STEP)
        value = record.value
        inner = value.get("entities") if isinstance(value, dict) else None
        for entity in inner.values() if isinstance(inner, dict) else [value]:
            if isinstance(entity, dict):
                if (kind := entity.get("type")) in READ:
                    yield record, entity
                    continue
                kind = "redirect" if "redirect" in entity else "missing" if "missing" in entity else kind
                if isinstance(kind, str):
                    task.report.records[kind] += 1
                    continue
            yield record, entity


class _Reader:
    """Turns entities into rows and labels, by the choices of the user."""

    def __init__(self, task: ImportTask) -> None:
        self._options, self._report = task.wikidata, task.report
        self._languages = task.wikidata.languages
        self._make = Literal if task.literals == "drop" else literal_key
        self._left: list[tuple[str, str]] = []  # reason and relation of what was left out of the last entity
        self._left_record = ""

    def rows(self, entity: dict[str, Any]) -> list[Row]:
        """Returns the statements of an entity.

        Raises:
            AttributeError, KeyError, TypeError, ValueError: The entity is malformed.
        """
        options, left, value_of = self._options, self._left, self._value
        left.clear()
        self._left_record = ""
        head, claims = entity["id"], entity["claims"]
        if not is_entity_id(head):
            raise ValueError(f"an entity is written like Q42, found {head!r}")
        if options.classes and not _is_of_class(claims, options):
            self._left_record = "entity of another class"
            return []
        rows: list[Row] = []
        for relation, statements in claims.items():
            if options.properties and relation not in options.properties:
                left.extend([("another property", relation)] * len(statements))
                continue
            ranks = _best(statements) if options.ranks == ("best",) else options.ranks
            for statement in statements:
                if (rank := statement["rank"]) not in ranks:
                    left.append((f"rank {rank}", relation))
                    continue
                tail = value_of(statement["mainsnak"], relation, statement)
                if tail is None:
                    continue
                row: Row = [head, relation, tail]
                if "qualifiers" in statement:
                    for key, snaks in statement["qualifiers"].items():
                        for snak in snaks:
                            if (value := value_of(snak, key, snak)) is not None:
                                row += key, value
                rows.append(row)
        if len(rows) < options.min_statements:
            self._left_record = "entity with fewer statements"
            left.clear()
            return []
        return rows

    def _value(self, snak: dict[str, Any], relation: str, named: dict[str, Any]) -> Any:
        """Returns an identifier, a literal, or None for what is left out."""
        kind = snak["snaktype"]
        if kind == "value":
            data = snak["datavalue"]
            type_ = data["type"]
            if type_ == "wikibase-entityid":
                return entity_id(data["value"])
            if (read := VALUES.get(type_)) is not None:
                return read(data["value"], snak.get("datatype"), self._make)
            self._left.append((f"value of type {type_}", relation))
            return None
        if kind not in ("somevalue", "novalue"):
            raise ValueError(f"a value is of the kind value, somevalue or novalue, found {kind!r}")
        if self._options.special_values == "keep":
            return NO_VALUE if kind == "novalue" else "_:" + re.sub(r"\W", "-", named.get("id") or named.get("hash") or "unknown")
        self._left.append(("unknown value" if kind == "somevalue" else "no value", relation))
        return None

    def labels(self, entity: dict[str, Any]) -> list[tuple[str, str, str]]:
        """Returns identifier, text and language of each label.

        Raises:
            AttributeError, KeyError, TypeError: The labels are malformed.
        """
        labels = entity.get("labels", {})
        found = [label for language in self._languages if (label := labels.get(language))]
        if not found and labels:
            found = [labels.get("mul") or next(iter(labels.values()))]
        return [(entity["id"], label["value"], label["language"]) for label in found]

    def count(self) -> None:
        """Adds what was left out of the last entity to the report."""
        if self._left:
            for (reason, relation), number in Counter(self._left).items():
                self._report.leave_out(reason, relation, number)
        if self._left_record:
            self._report.records[self._left_record] += 1


def _best(statements: list[dict[str, Any]]) -> tuple[str]:
    return ("preferred",) if any(statement["rank"] == "preferred" for statement in statements) else ("normal",)


def _is_of_class(claims: dict[str, Any], options: WikidataOptions) -> bool:
    """Returns whether an entity is an instance of one of the chosen classes; deprecated statements do not count."""
    for statement in claims.get(INSTANCE_OF, ()):
        snak = statement["mainsnak"]
        if statement["rank"] != "deprecated" and snak["snaktype"] == "value" and entity_id(snak["datavalue"]["value"]) in options.classes:
            return True
    return False


def _what_is_wrong(entity: Any, error: Exception) -> str:
    """Describes what is malformed in an entity: the first part that does not have the expected form."""
    for problem in _problems(entity):
        return problem
    return f"{entity['id']}: {error if isinstance(error, ValueError) else f'a value is incomplete ({type(error).__name__}: {error})'}"


def _problems(entity: Any) -> Iterator[str]:
    if not isinstance(entity, dict):
        yield f"a record is an entity of Wikidata, found {_kind(entity)}"
        return
    if not isinstance(entity.get("id"), str) or not is_entity_id(entity["id"]):
        yield f"an entity has an 'id' such as Q42, found {entity.get('id')!r}"
    where = str(entity.get("id"))
    yield from _wrong(entity.get("labels", {}), dict, f"{where}: 'labels'")
    yield from _wrong(entity.get("claims"), dict, f"{where}: 'claims'")
    for relation, statements in entity["claims"].items():
        yield from _wrong(statements, list, f"{where}: 'claims.{relation}'")
        for number, statement in enumerate(statements):
            place = f"{where}: 'claims.{relation}[{number}]"
            yield from _wrong(statement, dict, f"{place}'")
            yield from _wrong(statement.get("rank"), str, f"{place}.rank'")
            yield from _wrong(statement.get("mainsnak"), dict, f"{place}.mainsnak'")
            yield from _wrong(statement.get("qualifiers", {}), dict, f"{place}.qualifiers'")


_KINDS: dict[type, str] = {dict: "an object", list: "an array", str: "a text"}


def _wrong(value: Any, kind: type, where: str) -> Iterator[str]:
    if not isinstance(value, kind):
        yield f"{where} is {_KINDS[kind]}, found {_kind(value)}"


def _kind(value: Any) -> str:
    if isinstance(value, dict):
        return "an object" if value else "an empty object"
    if isinstance(value, list):
        return "an array" if value else "an empty array"
    return "nothing" if value is None else repr(value)[:60]

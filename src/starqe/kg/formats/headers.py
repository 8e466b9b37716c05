"""Headers of statement files: a first line that names the columns."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

HEAD, RELATION, TAIL = range(3)
_WORDS = {
    HEAD: "head subject source from start src node1 entity1 s h head_id subject_id source_id from_id start_id from_node start_node",
    RELATION: "relation predicate property edge relationship rel type label p r edge_type relation_type relation_id",
    TAIL: "tail object target to end dst node2 entity2 o t tail_id object_id target_id to_id end_id to_node end_node",
}
_LOADERS = {
    ":start_id": HEAD,
    "~from": HEAD,
    "_from": HEAD,
    ":type": RELATION,
    "~label": RELATION,
    ":end_id": TAIL,
    "~to": TAIL,
    "_to": TAIL,
}
ROLES = {word: role for role, words in _WORDS.items() for word in words.split()} | _LOADERS
"""Usual column names -> the role of the column."""
_CLEAR = frozenset(["relation", "predicate", "property", "relationship", "relation_type"])
"""Names of the second column that are hardly ever relations themselves."""
_PAIR = re.compile(r"qual|key|relation|predicate|property|qr")
"""Words in the names of columns that hold qualifier relations."""
_BULK = re.compile(r"\w*(?P<role>:(?:START_ID|END_ID|TYPE|ID|LABEL|IGNORE)(?:\(.*\))?|~(?:id|from|to|label))")
"""Columns in the files of bulk loaders of property graphs: ``:START_ID``, ``personId:ID(Person)``, ``~from``."""
_TYPES = r"string|int(?:eger)?|long|short|byte|float|double|bool(?:ean)?|(?:local)?(?:date)?time|date"
_TYPED = re.compile(rf"[^\W\d][\w ]*:(?:{_TYPES})(?:\[\])?", re.IGNORECASE)
_NAME = re.compile(r"[^\W\d]+(?:[ _.-][^\W\d]+)*")
ENOUGH = 10
"""The minimum number of statements for recognising a header by names that occur nowhere else."""


@dataclass(frozen=True)
class FirstLine:
    """The first line of a statement file, and how it compares with the others."""

    fields: Sequence[str]
    alone: bool
    """Whether none of its fields occurs on another line."""
    others: int
    """The number of other lines."""
    relations_repeat: bool
    """Whether the relations of the other lines occur at least twice on average."""

    def header_reason(self) -> str | None:
        """Returns why this line is a header, or None if it is a statement."""
        roles = self._roles()
        if {HEAD, RELATION, TAIL} <= set(roles) and (len(max(self.fields[:3], key=len)) > 1 or self.alone):
            return "it names the columns"
        if any(_BULK.fullmatch(field) for field in self.fields):
            return "its columns have the names of a bulk loader"
        if not self.alone or not self.others:
            return None
        if any(_TYPED.fullmatch(field) for field in self.fields):
            return "its columns have types"
        if len(self.fields) > 1 and _normal(self.fields[1]) in _CLEAR:
            return "it names the columns"
        if self.others >= ENOUGH and self.relations_repeat and all(_NAME.fullmatch(field) for field in self.fields):
            return "none of its names occurs on another line. If it is a statement, move it to another line"
        return None

    def column_problem(self) -> str | None:
        """Returns why the columns of a header cannot be read as head, relation, tail and qualifier pairs, or None if they can."""
        found = {role: place + 1 for place, role in reversed(list(enumerate(self._roles()))) if role is not None}
        if any(place != role + 1 for role, place in found.items()):
            where = ", ".join(f"{name} in column {found[role]}" for role, name in enumerate(("head", "relation", "tail")) if role in found)
            way_out = "Name the columns (the options head, relation and tail), or reorder them"
            return f"the columns are head, relation, tail and then qualifier pairs, found {where}. {way_out}"
        if len(self.fields) < 3:
            return f"the columns are head, relation, tail and then qualifier pairs, found {len(self.fields)} columns"
        for place, field in enumerate(self.fields[3:]):
            if place % 2 == 0 and not _PAIR.search(_normal(field)):
                return (
                    f"the columns after the third are pairs of a qualifier relation and its value, found a column '{field}'. "
                    "Name the columns (the options head, relation, tail and qualifier), leave it out, or write its name before each value"
                )
        return None

    def _roles(self) -> list[int | None]:
        return [ROLES.get(_normal(field)) for field in self.fields]


def _normal(field: str) -> str:
    """Returns a column name in lower case, with underscores, and without an id space: ``:START_ID(Person)`` is ``:start_id``."""
    field = field.strip('"')
    bulk = _BULK.fullmatch(field)
    name = (bulk["role"] if bulk else field).lower()
    if name.endswith(")"):  # not by a regular expression: it would try each of many brackets to the end
        name = name.partition("(")[0]
    return name.replace(" ", "_").replace("-", "_")

"""Property graphs of all formats: nodes with labels and properties, edges with a type and properties.

A label of a node becomes a statement with the relation ``type``. A property of a node becomes a statement with a literal value,
unless it is a name: then it becomes the label of the entity. A property of an edge becomes a qualifier with a literal value.
"""

from collections.abc import Iterable
from typing import Any

from starqe.kg import literal
from starqe.kg.literal import Literal
from starqe.kg.reading.import_task import ImportTask, Row
from starqe.kg.statement import identifier_problem

TYPE = "type"
"""The relation between a node and its labels."""
NAMES = ("name", "label", "title", "prefLabel")
"""Properties of nodes that are names, the best first; the user's own come before them."""
REFERENCE = "->"
"""The prefix of property keys whose values are nodes; exports write it."""

DATATYPES = {
    **dict.fromkeys(("int", "integer", "long", "short", "byte", "int32", "int64"), literal.INTEGER),
    **dict.fromkeys(("float", "double"), literal.DOUBLE),
    **dict.fromkeys(("bool", "boolean"), literal.BOOLEAN),
    "date": literal.DATE,
    **dict.fromkeys(("datetime", "localdatetime", "datetimeoffset"), literal.DATE_TIME),
    **dict.fromkeys(("time", "localtime"), literal.TIME),
    "duration": literal.XSD + "duration",
}
"""Types of property graphs in lower case -> datatypes of RDF; all others are texts."""

Properties = Iterable[tuple[str, str | Literal]]


def identifier(value: Any) -> str:
    """Returns the identifier of a node, a label or a type.

    Raises:
        ValueError: It is not an identifier.
    """
    text = str(value).strip()
    if problem := identifier_problem(text):
        raise ValueError(f"an identifier is one line of text, found {text[:60]!r}: {problem}")
    return text


def typed(text: str, type_: str) -> Literal:
    """Returns the literal of a text of a type such as ``int`` or ``Boolean``."""
    datatype = DATATYPES.get(type_.lower(), literal.STRING)
    if datatype == literal.BOOLEAN:
        text = text.lower()
    elif datatype == literal.DATE and len(text) > len("2000-01-01"):
        datatype = literal.DATE_TIME
    return Literal(text, datatype)


class PropertyGraph:
    """Turns the nodes and edges of one file into statements of an import."""

    def __init__(self, task: ImportTask, split: str) -> None:
        self._task, self._split = task, split
        names = [*task.label_relations, *NAMES]
        self._priority = {name: place for place, name in reversed(list(enumerate(names)))}

    def node(self, node: str, labels: Iterable[str], properties: Properties) -> None:
        """Adds a node: its labels, its properties, and its name.

        Raises:
            ValueError: A label or the key of a property is not an identifier.
        """
        rows: list[Row] = [[node, TYPE, identifier(label)] for label in labels]
        names: dict[str, tuple[int, str]] = {}  # language -> the best name
        for key, value in properties:
            name, _, language = key.partition("@")
            if (priority := self._priority.get(name)) is not None and isinstance(value, Literal) and value.lexical:
                tag = language or value.language
                if tag not in names or priority < names[tag][0]:
                    names[tag] = priority, value.lexical
            else:
                rows.append([node, identifier(key), value])
        self._task.add(rows, self._split)
        for language, (_, text) in names.items():
            self._task.draft.label(node, text, language, "entity")

    def property_with_qualifiers(self, node: str, key: str, value: str | Literal, properties: Properties) -> None:
        """Adds a property of a node that has properties itself.

        Raises:
            ValueError: A key is not an identifier.
        """
        self.edge(node, key, value, properties)

    def edge(self, head: str, relation: str, tail: str | Literal, properties: Properties) -> None:
        """Adds an edge with its properties.

        Raises:
            ValueError: The type or the key of a property is not an identifier.
        """
        row: Row = [head, identifier(relation), tail]
        for key, value in properties:
            row += identifier(key.removeprefix(REFERENCE)), value
        self._task.add([row], self._split)

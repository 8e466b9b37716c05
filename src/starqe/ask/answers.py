"""The answers of a query, known and predicted ones apart."""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from pyoxigraph import Literal as RdfLiteral
from pyoxigraph import NamedNode

from starqe.ask.notebook import html_table
from starqe.errors import MissingExtraError
from starqe.kg import Names
from starqe.queries import Query, Variable
from starqe.queries.formula import Term
from starqe.queries.sparql.request import RESERVED

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


Kind = Literal["entity", "relation", "literal", "other"]
"""The value of a column: an entity or a relation of the graph, a literal (a label, a count), or another node."""


@dataclass(frozen=True)
class Binding:
    """The value of one column of a row."""

    kind: Kind
    value: str
    """The identifier of an entity or a relation; the text of a literal; other nodes as RDF writes them."""
    label: str
    """The text to show: the label, or else the value."""
    term: Mapping[str, Any] | None = None
    """A value that is neither entity nor relation, in the form of SPARQL results in JSON."""
    interval: tuple[str, str] | None = None
    """Of a predicted number or date: the bounds that it lies between with a probability of 0.9, if the row holds."""


@dataclass(frozen=True)
class Answer:
    """One row that answers a query: a binding for each column that was asked for."""

    bindings: Mapping[str, Binding | None]
    """By the name of the column, in the order of the columns; None where the row binds nothing."""
    known: bool
    """Whether the row follows from what is known."""
    probability: float
    """1 for a known answer; else P(it is an answer in the complete graph | it is not known)."""

    @property
    def entity(self) -> str:
        """The value of the first column; an empty text if it is not bound."""
        first = next(iter(self.bindings.values()), None)
        return first.value if first else ""

    @property
    def label(self) -> str:
        """The label of the first column's value."""
        first = next(iter(self.bindings.values()), None)
        return first.label if first else ""

    @property
    def support(self) -> Mapping[str, str]:
        """The values of the further columns, by name; a column without a binding is left out."""
        return {name: one.value for name, one in list(self.bindings.items())[1:] if one is not None}


@dataclass(frozen=True)
class Counts:
    """How many rows there are, and how many of them are shown."""

    known: int
    """Number of known rows in all."""
    known_exact: bool
    """Whether that number is exact; if not, there are at least this many."""
    known_shown: int
    predicted_shown: int


@dataclass(frozen=True)
class Answers:
    """The answers of one query: known rows first, as SPARQL defines them, then predicted ones, the most probable first.

    Predicted rows are distinct, and none of them is known.
    """

    query: Query
    columns: tuple[str, ...]
    """The columns in the order of SELECT: variables, and ``score`` or ``known``."""
    answers: tuple[Answer, ...]
    known_splits: tuple[str, ...]
    """The splits of the graph that count as known."""
    counts: Counts
    notes: tuple[str, ...] = ()
    """What a reader should know about these answers: what was left out, or is approximate."""
    calibrated: bool = True
    """Whether the probabilities were fitted on enough validation data to be taken as probabilities."""

    def __len__(self) -> int:
        return len(self.answers)

    def __iter__(self) -> Iterator[Answer]:
        return iter(self.answers)

    @overload
    def __getitem__(self, place: int) -> Answer: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Answer, ...]: ...
    def __getitem__(self, place: int | slice) -> Answer | tuple[Answer, ...]:
        return self.answers[place]

    def _repr_html_(self) -> str:
        """Writes the answers as a table, as notebooks show them."""
        return html_table(self)

    @property
    def known(self) -> tuple[Answer, ...]:
        """The answers that the graph entails."""
        return tuple(answer for answer in self.answers if answer.known)

    @property
    def predicted(self) -> tuple[Answer, ...]:
        """The answers that it does not entail."""
        return tuple(answer for answer in self.answers if not answer.known)

    @property
    def boolean(self) -> bool:
        """The answer of ASK: whether there is a known row."""
        return self.counts.known > 0

    @property
    def probability(self) -> float:
        """The probability that the complete graph has a row, judged by the rows returned: 1 if one is known."""
        return max((answer.probability for answer in self), default=0.0)

    def value(self, answer: Answer, column: str) -> str | bool | float | None:
        """Returns the value of a column: a binding's value, the probability (``score``), or whether it is known (``known``)."""
        if (own := answer.bindings.get(column)) is not None:
            return own.value
        return {"score": answer.probability, "known": answer.known}.get(column)

    def rows(self) -> list[dict[str, Any]]:
        """Returns a plain dict for each answer: a key for each column, then its label, whether it is known, and its probability.

        Where a variable has one of these names, the key is that of the variable, and the other begins with ``answer_``.
        """
        return [
            {name: self.value(answer, name) for name in self.columns} | {key: getattr(answer, name) for key, name in self._more.items()}
            for answer in self
        ]

    def as_dict(self) -> dict[str, Any]:
        """Returns everything but the query as plain values."""
        return {
            "columns": self.columns,
            "known_splits": self.known_splits,
            "counts": asdict(self.counts),
            "notes": self.notes,
            "calibrated": self.calibrated,
            "answers": self.rows(),
        }

    def to_json(self) -> str:
        """Writes the answers as JSON."""
        return json.dumps(self.as_dict(), ensure_ascii=False)

    def to_csv(self) -> str:
        """Writes the answers as comma-separated values, under their names."""
        out = io.StringIO()
        writer = csv.DictWriter(out, self._names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows())
        return out.getvalue()

    def to_arrow(self) -> "pa.Table":
        """Returns the answers as an Arrow table."""
        import pyarrow as pa

        types = {"score": pa.float64(), "probability": pa.float64(), "known": pa.bool_()}
        meant = dict.fromkeys(self.columns, "") | {name: name for name in RESERVED} | self._more
        return pa.Table.from_pylist(self.rows(), schema=pa.schema([(name, types.get(meant[name], pa.string())) for name in self._names]))

    def to_pandas(self) -> "pd.DataFrame":
        """Returns the answers as a pandas data frame.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            raise MissingExtraError("pandas", "pandas", "a data frame") from None
        return pd.DataFrame(self.rows(), columns=self._names)

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys([*self.columns, *self._more]))

    @property
    def _more(self) -> dict[str, str]:
        """The keys after the columns, and the attribute of an answer for each."""
        taken = {*self.columns} - {*RESERVED}
        return {f"answer_{name}" if name in taken else name: name for name in ("label", "known", "probability")}


def constructed(template: Sequence[tuple[Term, Term, Term]], answers: Iterable[Answer], names: Names) -> list[str]:
    """Returns the triples that CONSTRUCT builds from rows, each once, as lines of N-Triples; triples with an unbound term are skipped."""
    lines: dict[str, None] = {}
    for answer in answers:
        for triple in template:
            bound = [answer.bindings.get(term.name) if isinstance(term, Variable) else term for term in triple]
            terms = [one if isinstance(one, str) else _written(one, names, place) for place, one in enumerate(bound)]
            if None not in terms:
                lines[" ".join(map(str, terms)) + " ."] = None
    return list(lines)


def _written(one: Binding | None, names: Names, place: int) -> str | None:
    """Writes a term of a triple; None if it is not allowed there: a literal is an object only, and a blank node is no predicate."""
    if one is None or (one.term is not None and one.term["type"] == "triple"):
        return None
    if one.kind == "literal":
        term = one.term or {}
        datatype = NamedNode(term["datatype"]) if "datatype" in term else None
        return str(RdfLiteral(one.value, datatype=datatype, language=term.get("xml:lang"))) if place == 2 else None
    if one.term is not None:
        written = f"<{one.term['value']}>" if one.term["type"] == "uri" else f"_:{one.term['value']}"
    else:
        written = str((names.relations if one.kind == "relation" else names.entities).term(one.value))
    return None if place == 1 and not written.startswith("<") else written

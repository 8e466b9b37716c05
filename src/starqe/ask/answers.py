"""What comes back: answers, known and predicted apart."""

import csv
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from starqe.errors import MissingExtraError
from starqe.queries import Query
from starqe.queries.sparql.read import RESERVED

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


@dataclass(frozen=True)
class Answer:
    """One entity that answers a query."""

    entity: str
    label: str
    known: bool
    """Whether the graph entails it."""
    probability: float
    """1 for a known answer; else P(it is an answer in the complete graph | it is not known)."""
    support: Mapping[str, str]
    """What the further variables that were asked for stand for, by name; of a predicted answer, in the best way found."""


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
    """The answers of one query: known rows first, then predicted ones, the most probable first.

    Known rows are distinct: one for each binding of all variables that were asked for. A predicted entity has one row.
    """

    query: Query
    columns: tuple[str, ...]
    """What was asked for, in its order: the target, further variables, and ``score`` or ``known``."""
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

    @property
    def known(self) -> tuple[Answer, ...]:
        """The answers that the graph entails."""
        return tuple(answer for answer in self.answers if answer.known)

    @property
    def predicted(self) -> tuple[Answer, ...]:
        """The answers that it does not entail."""
        return tuple(answer for answer in self.answers if not answer.known)

    def value(self, answer: Answer, column: str) -> str | bool | float | None:
        """Gives what stands in a column: the entity, its probability (``score``), whether it is known (``known``), or its support."""
        if column == self.query.target.name:
            return answer.entity
        return {"score": answer.probability, "known": answer.known}.get(column, answer.support.get(column))

    def rows(self) -> list[dict[str, Any]]:
        """Gives a plain dict for each answer: a key for each column, then its label, whether it is known, and its probability.

        Where a variable has one of these names, the key is that of the variable, and the other begins with ``answer_``.
        """
        return [
            {name: self.value(answer, name) for name in self.columns} | {key: getattr(answer, name) for key, name in self._more.items()}
            for answer in self
        ]

    def as_dict(self) -> dict[str, Any]:
        """Gives everything but the query as plain values."""
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
        """Gives the answers as an Arrow table."""
        import pyarrow as pa

        types = {"score": pa.float64(), "probability": pa.float64(), "known": pa.bool_()}
        meant = dict.fromkeys(self.columns, "") | {name: name for name in RESERVED} | self._more
        return pa.Table.from_pylist(self.rows(), schema=pa.schema([(name, types.get(meant[name], pa.string())) for name in self._names]))

    def to_pandas(self) -> "pd.DataFrame":
        """Gives the answers as a pandas data frame.

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
        """The keys that follow the columns, and what of an answer each of them has."""
        taken = {*self.columns} - {*RESERVED}
        return {f"answer_{name}" if name in taken else name: name for name in ("label", "known", "probability")}

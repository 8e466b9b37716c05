"""The report of an import: what was read, what was left out, and why."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from starqe.errors import InputError

SHOWN = 10
"""The number of problems whose messages are kept."""


@dataclass
class Report:
    """Counts of one import; with ``on_error="skip"``, problems are recorded here instead of raised."""

    on_error: Literal["stop", "skip"] = "stop"
    skipped: int = 0
    """Malformed statements that were left out."""
    problems: list[str] = field(default_factory=list)
    """The messages of the first ones."""
    duplicates: int = 0
    """Duplicate statements within a split, which were merged."""
    unasserted: int = 0
    """Reified triples that are not asserted, which were left out."""
    in_several_graphs: int = 0
    """Triples in several named graphs of one split, which were merged."""
    literals: Counter[str] = field(default_factory=Counter)
    """Facts and qualifiers left out because they have a literal value, by datatype."""
    left_out: dict[str, Counter[str]] = field(default_factory=dict)
    """Facts and qualifiers left out, including those with a literal value: reason -> number by relation."""
    records: Counter[str] = field(default_factory=Counter)
    """Records left out as a whole, by kind."""
    forms: Counter[str] = field(default_factory=Counter)
    """The number of files by form."""
    idle_labels: int = 0
    """Labels of identifiers that occur in no statement."""

    notes: list[str] = field(default_factory=list)
    """Messages to the user about how the files were read."""

    def note(self, message: str) -> None:
        """Adds a message to the user."""
        self.notes.append(message)

    def problem(self, message: str) -> None:
        """Records a malformed statement, or raises an error, depending on ``on_error``.

        Raises:
            InputError: The import stops at the first error.
        """
        if self.on_error == "stop":
            raise InputError(f"{message} (the option on-error skip leaves such statements out and counts them)")
        self.skipped += 1
        if len(self.problems) < SHOWN:
            self.problems.append(message)

    def leave_out(self, reason: str, relation: str, count: int = 1) -> None:
        """Counts facts or qualifiers of a relation that are left out."""
        self.left_out.setdefault(reason, Counter())[relation] += count

    def leave_out_literals(self, relation: str, kind: str, count: int = 1) -> None:
        """Counts facts or qualifiers of a relation that are left out because their values are literals."""
        self.literals[kind] += count
        self.leave_out(kind, relation, count)

    def findings(self) -> list[str]:
        """Returns what was left out or merged, one line per kind, with the option that keeps it if there is one."""
        counted: dict[str, int | Counter[str]] = {
            "malformed statements or records left out": self.skipped,
            "repeated statements merged": self.duplicates,
            "triples in several named graphs, merged": self.in_several_graphs,
            "triples that are reified but not asserted, left out": self.unasserted,
            "literal values left out": self.literals,
            "records left out": self.records,
            "labels of identifiers that occur in no statement left out": self.idle_labels,
        }
        ways_out = {"triples that are reified but not asserted, left out": " (to keep them, set the option unasserted to keep)"}
        return [f"{what}: {_number(count)}{ways_out.get(what, '')}" for what, count in counted.items() if count]

    def as_dict(self) -> dict[str, Any]:
        """Returns the counts and notes as JSON."""
        return {
            "skipped": self.skipped,
            "problems": self.problems,
            "duplicates": self.duplicates,
            "unasserted": self.unasserted,
            "in_several_graphs": self.in_several_graphs,
            "literals": dict(sorted(self.literals.items())),
            "left_out": {reason: dict(sorted(counts.items())) for reason, counts in sorted(self.left_out.items())},
            "records": dict(sorted(self.records.items())),
            "forms": dict(sorted(self.forms.items())),
            "idle_labels": self.idle_labels,
            "notes": self.notes,
        }


def _number(count: int | Counter[str]) -> str:
    """Writes a count, or counts by kind."""
    return f"{count:,}" if isinstance(count, int) else ", ".join(f"{kind} {n:,}" for kind, n in sorted(count.items()))

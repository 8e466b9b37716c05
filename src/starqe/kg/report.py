"""What happened during an import: what was read, what was left out, and why."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from starqe.errors import InputError

SHOWN = 10
"""How many problems are kept word for word."""


@dataclass
class Report:
    """Counts of one import; with ``on_error="skip"`` also the place where problems are noted instead of raised."""

    on_error: Literal["stop", "skip"] = "stop"
    skipped: int = 0
    """Malformed statements that were left out."""
    problems: list[str] = field(default_factory=list)
    """The first of them, word for word."""
    duplicates: int = 0
    """Statements that stood more than once in a split, and were merged."""
    unasserted: int = 0
    """Reified triples that nothing asserts, and were left out."""
    literals: Counter[str] = field(default_factory=Counter)
    """Facts and qualifiers left out because they have a literal value, by datatype."""
    idle_labels: int = 0
    """Labels of things that no statement mentions."""

    def problem(self, message: str) -> None:
        """Notes a malformed statement, or raises, as the import was told.

        Raises:
            InputError: The import stops at the first error.
        """
        if self.on_error == "stop":
            raise InputError(f"{message} (--on-error skip leaves such statements out and counts them)")
        self.skipped += 1
        if len(self.problems) < SHOWN:
            self.problems.append(message)

    def as_dict(self) -> dict[str, Any]:
        """Gives the counts for programs."""
        return {
            "skipped": self.skipped,
            "problems": self.problems,
            "duplicates": self.duplicates,
            "unasserted": self.unasserted,
            "literals": dict(sorted(self.literals.items())),
            "idle_labels": self.idle_labels,
        }

"""Every error that starqe raises on purpose.

    StarqeError                 exit code 1; str(error) is meant for people
    ├── InputError              an input file or value breaks a rule (names file and line)
    │   └── QueryError          a query or a shape breaks a rule
    │       └── SparqlError     a SPARQL query breaks a rule, or names something unknown (says where)
    │           └── KnownOnlyError  a SPARQL form that is not predicted: only known facts can answer it
    │               └── UnknownNameError  an IRI that the graph does not have: no known fact matches it
    ├── ConfigError             a configuration key or value is unknown or out of range
    ├── StorageError            a folder or file of ours cannot be read or written
    │   └── MismatchError       two things belong to different graphs (shows both fingerprints)
    ├── UnsupportedError        valid, but this part of starqe cannot do it
    ├── TrainingError           training cannot continue (the last good checkpoint is intact)
    ├── DeadlineError           a question ran out of time, or its client is gone
    ├── NotReadyError           what it needs is still being prepared (try again later)
    ├── MeasureError            scores cannot be ranked (a score is not a number)
    └── MissingExtraError       an optional package is not installed (names the extra)

A message has three parts: the rule, the value met, and the way out.
"""

from collections.abc import Sequence


class StarqeError(Exception):
    """The root: catching it catches everything that starqe raises on purpose."""


class InputError(StarqeError):
    """An input file or value breaks a rule."""


class QueryError(InputError):
    """A query or a shape breaks a rule."""


class SparqlError(QueryError):
    """A SPARQL query breaks a rule, or asks for something that starqe does not answer.

    Args:
        rule: What is wrong.
        way_out: What to write instead, as a sentence without a full stop.
        line: The line, from 1.
        column: The column in the line, from 1.
        offset: The number of characters before the error.
        length: The number of characters of the error; 0 at the end of the text.
        suggestions: Possible replacements for the text at the error, the best first.
    """

    def __init__(self, rule: str, way_out: str, line: int, column: int, offset: int, length: int, suggestions: Sequence[str] = ()) -> None:
        super().__init__(f"{rule} (line {line}, column {column}). {way_out}")
        self.line, self.column, self.offset, self.length = line, column, offset, length
        self.suggestions = tuple(suggestions)


class KnownOnlyError(SparqlError):
    """A SPARQL form that is not predicted: only known facts can answer it."""


class UnknownNameError(KnownOnlyError):
    """An IRI that names nothing in the graph: no known fact matches it, and nothing can be predicted for it."""


class ConfigError(StarqeError):
    """A configuration key or value is unknown or out of range."""


class StorageError(StarqeError):
    """A folder or file of ours cannot be read or written."""


class MismatchError(StorageError):
    """Two things belong to different graphs."""


class UnsupportedError(StarqeError):
    """Valid, but this part of starqe cannot do it."""


class TrainingError(StarqeError):
    """Training cannot continue; the last good checkpoint is intact."""


class DeadlineError(StarqeError):
    """A question ran out of time, or its client is gone."""


class NotReadyError(StarqeError):
    """What a question needs is still being prepared; it can be asked again later."""


class MeasureError(StarqeError):
    """Scores cannot be ranked."""


class MissingExtraError(StarqeError):
    """An optional package is not installed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        way_out = f"Install starqe with its extra '{extra}', or: pip install {package}"
        super().__init__(f"{purpose} needs the package '{package}', which is not installed. {way_out}")

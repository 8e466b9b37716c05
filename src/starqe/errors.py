"""Every error that starqe raises on purpose.

    StarqeError                 exit code 1; str(error) is meant for people
    ├── InputError              a file or a value that was given breaks a rule (names file and line)
    │   └── QueryError          a query or a shape breaks a rule
    │       └── SparqlError     a SPARQL text breaks a rule, or goes beyond the language (says where)
    ├── ConfigError             a configuration key or value is unknown or out of range
    ├── StorageError            a folder or file of ours cannot be read or written
    │   └── MismatchError       two things belong to different graphs (shows both fingerprints)
    ├── UnsupportedError        valid, and named, but this part of starqe cannot do it
    ├── TrainingError           training cannot go on (the last good checkpoint is intact)
    ├── MeasureError            scores cannot be ranked (a score is not a number)
    └── MissingExtraError       an optional package is needed (names the extra)

A message has three parts: the rule, the value met, and the way out.
"""


class StarqeError(Exception):
    """The root: catching it catches everything that starqe raises on purpose."""


class InputError(StarqeError):
    """A file or a value that was given breaks a rule."""


class QueryError(InputError):
    """A query or a shape breaks a rule."""


class SparqlError(QueryError):
    """A SPARQL text breaks a rule, or asks for what starqe does not answer, at one place of it.

    Args:
        rule: What is wrong there.
        way_out: What to write instead, as a sentence without its full stop.
        line: The line, from 1.
        column: The column in the line, from 1.
        offset: How many characters stand before the place.
        length: How many characters the place has; 0 at the end of the text.
    """

    def __init__(self, rule: str, way_out: str, line: int, column: int, offset: int, length: int) -> None:
        super().__init__(f"{rule} (line {line}, column {column}). {way_out}")
        self.line, self.column, self.offset, self.length = line, column, offset, length


class ConfigError(StarqeError):
    """A configuration key or value is unknown or out of range."""


class StorageError(StarqeError):
    """A folder or file of ours cannot be read or written."""


class MismatchError(StorageError):
    """Two things belong to different graphs."""


class UnsupportedError(StarqeError):
    """Valid, and named, but this part of starqe cannot do it."""


class TrainingError(StarqeError):
    """Training cannot go on; the last good checkpoint is intact."""


class MeasureError(StarqeError):
    """Scores cannot be ranked."""


class MissingExtraError(StarqeError):
    """An optional package is needed."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        way_out = f"Install starqe with its extra '{extra}', or: pip install {package}"
        super().__init__(f"{purpose} needs the package '{package}', which is not installed. {way_out}")

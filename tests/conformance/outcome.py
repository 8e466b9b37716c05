"""What became of a test: passed, refused by name, or failed."""

from dataclasses import dataclass

PASSED, REFUSED, FAILED = "passed", "refused", "failed"


@dataclass(frozen=True)
class Outcome:
    """The outcome of one test."""

    state: str
    reason: str = ""
    """Why it was refused, in a few words, or what went wrong."""


passed = Outcome(PASSED)


def refused(reason: str) -> Outcome:
    """The test asks for something that starqe refuses by name."""
    return Outcome(REFUSED, reason)


def failed(reason: str) -> Outcome:
    """The result is not the expected one."""
    return Outcome(FAILED, reason)


_ZERO_LENGTH = "a path of length zero from or to a term that is not in the graph gives no row"
_XML_LITERAL = "an XML literal carries the namespaces around it"
_TERM_SUBJECT = "a triple term with a literal or a triple term as subject is accepted in an expression"
NOT_OURS = {
    "rdf/rdf12/rdf-xml/eval#rdf12-xml-an-13": _XML_LITERAL,
    "rdf/rdf12/rdf-xml/eval#rdf12-xml-an-14": _XML_LITERAL,
    "sparql/sparql11/aggregates#agg-groupconcat-04": "`GROUP_CONCAT` keeps the language tag that all its values share",
    "sparql/sparql11/aggregates#agg-groupconcat-06": "`GROUP_CONCAT` keeps the language tag that all its values share",
    "sparql/sparql11/csv-tsv-res#tsv03": "types derived from `xsd:integer` are kept as `xsd:integer`",
    "sparql/sparql11/property-path#zero_or_more_set_start": _ZERO_LENGTH,
    "sparql/sparql11/property-path#zero_or_more_set_end": _ZERO_LENGTH,
    "sparql/sparql11/property-path#zero_or_one_set_start": _ZERO_LENGTH,
    "sparql/sparql11/property-path#zero_or_one_set_end": _ZERO_LENGTH,
    "sparql/sparql12/grouping#group01": "numbers are kept by value, so `1` and `001` are one group (the test requires that they are not)",
    "sparql/sparql12/grouping#select-variable-reuse": "a variable of SELECT cannot be used in a later expression beside an aggregate",
    "sparql/sparql12/syntax#nested-aggregate-functions": "an aggregate inside an aggregate is accepted",
    "sparql/sparql12/syntax-triple-terms-negative#tripleterm-subject-03": _TERM_SUBJECT,
    "sparql/sparql12/syntax-triple-terms-negative#tripleterm-subject-06": _TERM_SUBJECT,
}
"""The tests that fail for a reason that lies in Oxigraph, and the reason."""

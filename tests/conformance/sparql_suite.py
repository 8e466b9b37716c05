"""The tests of SPARQL 1.1 and 1.2, run as starqe answers a query: its own reader first, and the store of known facts for the rest.

A syntax test passes if the text is answered or rejected as the manifest says. An evaluation test passes if the rows, the truth
or the graph is the expected one, written by starqe in the form of the expected file and read again by the tests' own readers.
Where the data is a graph of statements and the reader takes the query, its known rows are compared too.
"""

import contextlib
import re

from pyoxigraph import NamedNode, QueryResultsFormat, RdfFormat, parse

from starqe.errors import KnownOnlyError, QueryError, SparqlError, StarqeError, UnsupportedError
from starqe.kg import Statement, graph_of
from starqe.queries import read_sparql
from starqe.queries.store.known_store import Dataset, Rows, Triples, check_words
from starqe.serve.results import write_boolean, write_graph, write_rows
from tests.conformance.data import EMPTY, Stores
from tests.conformance.manifest import UT, W3cTest, file_of
from tests.conformance.outcome import Outcome, failed, passed, refused
from tests.conformance.results import Table, canonical, read_graph, read_table
from tests.conformance.services import Services, asked

FORMS = {
    ".srj": QueryResultsFormat.JSON,
    ".srx": QueryResultsFormat.XML,
    ".csv": QueryResultsFormat.CSV,
    ".tsv": QueryResultsFormat.TSV,
}
OTHER = graph_of([Statement("a", "b", "c")])
"""A graph with none of the names of the suites: reading a text over it shows how starqe understands the text."""
FUNCTION = "functions that SPARQL does not define"
ORDERED = re.compile(r"^\s*}?\s*ORDER\s+BY", re.MULTILINE | re.IGNORECASE)
"""ORDER BY outside of all groups, as the suites write it."""
UPDATE = "updates: a graph is never changed here"
ONE_GRAPH = "GRAPH and FROM: there is one graph"
SERVICE = "SERVICE: no other service is asked"


def run_sparql(test: W3cTest, stores: Stores, services: Services) -> Outcome:
    """Runs one test of SPARQL."""
    if "Update" in test.kind:
        return _update(test, stores)
    text = file_of(test.query).read_bytes().decode()
    if "Syntax" in test.kind:
        return _syntax(test, text, stores)
    store, dataset = stores.of(test)
    try:
        _read(text)
        found = _compared(test, store.query(text, base=test.query.value, dataset=dataset))
        return _served(test, text, services) if found == passed else found
    except _RefusedError as refusal:
        return refused(str(refusal))
    except StarqeError as error:
        return failed(str(error))


def _update(test: W3cTest, stores: Stores) -> Outcome:
    """Sends an update as a query: it must be refused, whether it is well-formed or not."""
    request = test.action if isinstance(test.action, NamedNode) else test.manifest.value(test.action, UT + "request")
    assert request is not None
    text = file_of(request).read_bytes().decode()
    try:
        _read(text)
        stores.of(test)[0].query(text, base=request.value)
    except QueryError:
        return refused(UPDATE)
    return failed("an update was accepted")


class _RefusedError(Exception):
    """A query that is refused by name."""


def _read(text: str) -> None:
    """Reads a text as `/sparql` does before it is answered, by the reader or by the store.

    Raises:
        SparqlError: It is rejected.
        _RefusedError: It is refused by name.
    """
    try:
        with contextlib.suppress(KnownOnlyError):
            read_sparql(text, OTHER)
        check_words(text)
    except (SparqlError, UnsupportedError) as error:
        words = {"GRAPH": ONE_GRAPH, "FROM": ONE_GRAPH, "SERVICE": SERVICE}
        for word, reason in words.items():
            if f"{word} is refused" in str(error) or f"found {word}" in str(error):
                raise _RefusedError(reason) from None
        raise


def _syntax(test: W3cTest, text: str, stores: Stores) -> Outcome:
    store, _ = stores.of(test)
    positive = test.kind.startswith("Positive")
    try:
        _read(text)
        store.query(text, base=test.query.value, dataset=Dataset((EMPTY,)))
    except _RefusedError as refusal:
        return refused(str(refusal)) if positive else passed
    except UnsupportedError as error:
        return refused(FUNCTION) if positive and "custom function" in str(error) else failed(str(error))
    except QueryError as error:
        return failed(str(error)) if positive else passed
    return passed if positive else failed("accepted, and must be rejected")


def _served(test: W3cTest, text: str, services: Services) -> Outcome:
    """Asks a service over the same data, if that is a graph of statements and the reader takes the text."""
    client = services.of(test, text)
    if client is None:
        return passed
    response = asked(client, text)
    if response.status_code != 200:
        return failed(f"the service: {response.text}")
    if response.headers["content-type"].startswith("text/turtle"):
        return _same_graph(test, response.content)
    return _same_result(test, read_table(response.content, ".srj"))


def _compared(test: W3cTest, found: Rows | Triples | bool) -> Outcome:
    assert test.result is not None
    path = file_of(test.result)
    if isinstance(found, Triples):
        return _same_graph(test, write_graph(found.lines, RdfFormat.TURTLE))
    suffix = path.suffix if path.suffix in FORMS else ".srj"
    form = FORMS[suffix]
    written = write_boolean(found, form) if isinstance(found, bool) else write_rows(found.variables, found.rows, form)
    return _same_result(test, read_table(written, suffix))


def _same_graph(test: W3cTest, turtle: bytes) -> Outcome:
    assert test.result is not None
    expected = read_graph(file_of(test.result), test.result.value)
    return passed if canonical(parse(turtle, format=RdfFormat.TURTLE)) == canonical(expected) else failed(f"another graph: {turtle!r}")


def _same_result(test: W3cTest, ours: Table | bool) -> Outcome:
    assert test.result is not None
    path = file_of(test.result)
    theirs = read_table(path.read_bytes(), path.suffix, test.result.value)
    if isinstance(ours, bool) or isinstance(theirs, bool):
        return passed if ours is theirs else failed(f"{ours}, expected {theirs}")
    ordered = ORDERED.search(file_of(test.query).read_text(encoding="utf-8"))
    if not ours.same_rows(theirs) or (ordered and ours.sequence() != theirs.sequence()):
        return failed(f"rows {ours.sequence()}, expected {theirs.sequence()}")
    return passed

"""What the store of known facts answers, shown on the command line: for queries in a form that is not predicted."""

import csv
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from starqe.cli.show import as_json, csv_cell, print_table, say

if TYPE_CHECKING:
    from starqe.ask import Answerer
    from starqe.errors import KnownOnlyError
    from starqe.queries.store.known_store import StoreResult

ROWS = 50
"""Number of rows that are shown, where --top is not given."""


def show_known(answerer: "Answerer", text: str, reason: "KnownOnlyError", top: int | None) -> None:
    """Answers a query from known facts and prints the result for people, with the reason why nothing is predicted."""
    from starqe.queries.store.known_store import Rows

    found = answerer.ask_known(text, max_rows=top or ROWS)
    if isinstance(found, bool):
        print("yes" if found else "no")
    elif isinstance(found, Rows):
        rows = [tuple(_readable(answerer, row.get(name)) for name in found.variables) for row in found.rows]
        if rows:
            print_table(tuple(f"?{name}" for name in found.variables), rows)
        print(f"{len(rows):,} row{'s' * (len(rows) != 1)}" if found.complete else f"the first {len(rows):,} rows; --top shows more")
    else:
        say("\n".join(found.lines))
    why, *notes = answerer.known_notes(text, reason)
    say("\n".join([f"known facts only (by {', '.join(answerer.splits)}); {why}", *notes]))


def known_json(answerer: "Answerer", text: str, reason: "KnownOnlyError", top: int | None) -> str:
    """Answers a query from known facts and writes the result as JSON, terms as SPARQL results have them."""
    from starqe.queries.store.known_store import Rows

    found = _ask(answerer, text, top)
    content: dict[str, Any] = {"known_splits": answerer.splits, "notes": answerer.known_notes(text, reason)}
    if isinstance(found, bool):
        content["boolean"] = found
    elif isinstance(found, Rows):
        content |= {"columns": found.variables, "rows": found.rows, "complete": found.complete}
    else:
        content |= {"triples": found.lines, "complete": found.complete}
    return as_json(content)


def print_known_csv(answerer: "Answerer", text: str, reason: "KnownOnlyError", top: int | None) -> None:
    """Answers a query from known facts and prints its rows as comma-separated values; the note goes to standard error."""
    from starqe.errors import UnsupportedError
    from starqe.queries.store.known_store import Rows

    found = _ask(answerer, text, top)
    if not isinstance(found, Rows):
        raise UnsupportedError("only rows are written as CSV, and this query gives none. Leave --csv out")
    for note in answerer.known_notes(text, reason):
        say(f"starqe: {note}", error=True)
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(found.variables)
    writer.writerows([csv_cell(_plain(row.get(name))) for name in found.variables] for row in found.rows)


def _ask(answerer: "Answerer", text: str, top: int | None) -> "StoreResult":
    return answerer.ask_known(text) if top is None else answerer.ask_known(text, max_rows=top)


def _plain(term: Mapping[str, Any] | None) -> str:
    """Writes a term as SPARQL results in CSV have it."""
    if term is None:
        return ""
    if term["type"] == "triple":
        return "<<( " + " ".join(_plain(term["value"][part]) for part in ("subject", "predicate", "object")) + " )>>"
    return f"_:{term['value']}" if term["type"] == "bnode" else str(term["value"])


def _readable(answerer: "Answerer", term: Mapping[str, Any] | None) -> str:
    """Writes a term for people: an entity or relation by its label, a literal by its text."""
    if term is None:
        return "-"
    if term["type"] == "triple":
        return " ".join(_readable(answerer, term["value"][part]) for part in ("subject", "predicate", "object"))
    value, graph = str(term["value"]), answerer.graph
    if term["type"] == "uri":
        for vocabulary, names in ((graph.entities, graph.names.entities), (graph.relations, graph.names.relations)):
            if (identifier := names.identifier(value)) in vocabulary:
                return vocabulary.label(vocabulary.id(identifier))
    return _plain(term)

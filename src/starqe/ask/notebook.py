"""Answers as a table in a notebook."""

from html import escape
from typing import TYPE_CHECKING

from starqe.queries.sparql.request import RESERVED

if TYPE_CHECKING:
    from starqe.ask.answers import Answer, Answers, Binding

SHOWN = 100
"""Number of rows of each kind that a table shows at most."""


def html_table(answers: "Answers") -> str:
    """Writes answers as HTML: known rows, then predicted ones with their probabilities, each under a title; all text is escaped."""
    columns = [name for name in answers.columns if name not in RESERVED]
    title = "probability" if answers.calibrated else "probability (not calibrated)"
    head = "".join(f"<th>?{escape(name)}</th>" for name in columns)
    parts = [f'<table class="starqe-answers"><thead><tr>{head}<th>{title}</th></tr></thead>']
    for word, rows in (("known", answers.known), ("predicted", answers.predicted)):
        total = answers.counts.known if word == "known" else len(rows)
        shown = min(len(rows), SHOWN)
        count = f"{total:,}" if shown == total else f"{shown:,} of {total:,}"
        parts.append(f'<tbody class="{word}"><tr><th colspan="{len(columns) + 1}" style="text-align: left">{word}: {count}</th></tr>')
        parts += (_row(row, columns) for row in rows[:SHOWN])
        parts.append("</tbody>")
    return "".join([*parts, "</table>", *(f"<p>{escape(note)}</p>" for note in answers.notes)])


def _row(row: "Answer", columns: list[str]) -> str:
    cells = "".join(_cell(row.bindings.get(name)) for name in columns)
    return f"<tr>{cells}<td>{'' if row.known else f'{row.probability:.2f}'}</td></tr>"


def _cell(binding: "Binding | None") -> str:
    if binding is None:
        return "<td></td>"
    return f'<td title="{escape(binding.value)}">{escape(binding.label)}</td>'

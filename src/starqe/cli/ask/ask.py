"""``starqe ask``: a question in SPARQL, answers known and predicted."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from starqe.cli.ask.known_results import known_json, print_known_csv, show_known
from starqe.cli.ask.reasons import IRI, reasons_text, shown_label
from starqe.cli.show import Json, Probability, as_probability, csv_cell, print_table, say
from starqe.cli.show import as_json as to_json

if TYPE_CHECKING:
    from starqe.ask import Answer, Answerer, Answers, Explanation
    from starqe.ask.answerer import Question

EXPLAINED = 3
"""Number of answers that are explained, from the first on."""
KNOWN = 20
"""Number of known rows that are shown, where neither --top nor LIMIT is given."""


def ask(
    run: Annotated[Path, typer.Argument(help="The run folder of a model that was fitted or calibrated.")],
    query: Annotated[str | None, typer.Argument(help="SPARQL, a file that holds it, or - for standard input; left out: asks.")] = None,
    top: Annotated[int | None, typer.Option(min=1, help="At most this many known rows, and this many predicted ones.")] = None,
    threshold: Annotated[float | None, typer.Option(min=0, max=1, help="Least probability of a prediction, without --top (0.5).")] = None,
    known_only: Annotated[bool, typer.Option("--known-only", help="Only what the graph entails.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Also say why, for the first three answers.")] = False,
    graph: Annotated[
        Path | None, typer.Option(help="Another graph of the same vocabulary, or a newer one, in place of the run's own.")
    ] = None,
    splits: Annotated[str, typer.Option(help="The splits that count as known, with commas.")] = "train,valid,test",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Ask a question: what the graph knows, and what it would probably say if it were complete."""
    if as_csv and (as_json or explain):
        raise typer.BadParameter("--csv has rows only: leave --json and --explain out")
    import torch

    from starqe.ask import THRESHOLD, Answerer
    from starqe.errors import KnownOnlyError, UnknownNameError
    from starqe.kg import load_graph

    if threads:
        torch.set_num_threads(threads)
    text = _text(query)
    answerer = Answerer.open(run, load_graph(graph) if graph else None, splits.split(","))
    options = AskOptions(top, THRESHOLD if threshold is None else threshold, known_only)
    if text is None:
        from starqe.cli.ask.prompt import converse

        converse(answerer, lambda asked: show(answerer, asked, replace(options, more_by="LIMIT"), explain))
        return
    if not (as_json or as_csv):
        show(answerer, text, options, explain)
        return
    try:
        answers = answerer.ask(text, top=top, threshold=options.threshold, known_only=known_only)
    except KnownOnlyError as reason:
        if isinstance(reason, UnknownNameError):
            raise
        if as_csv:
            print_known_csv(answerer, text, reason, top)
        else:
            print(known_json(answerer, text, reason, top))
        return
    if as_csv:  # rows have no place for notes
        for note in answers.notes:
            say(f"starqe: {note}", error=True)
    print(_safe_csv(answers.to_csv()) if as_csv else _json(answerer, text, answers, explain), end="" if as_csv else "\n")


@dataclass(frozen=True)
class AskOptions:
    """What the options of the command say."""

    top: int | None
    threshold: float
    known_only: bool = False
    more_by: str = "--top"
    """What asks for more answers: the option, or in a conversation LIMIT."""


def show(answerer: "Answerer", text: str, options: AskOptions, explain: bool) -> None:
    """Prints the answers to one question, and the reasons for the first three if wanted."""
    from starqe.ask import constructed
    from starqe.errors import KnownOnlyError, UnknownNameError

    try:
        request = answerer.read(text)
    except KnownOnlyError as reason:
        if isinstance(reason, UnknownNameError):
            raise
        show_known(answerer, text, reason, options.top)
        return
    counted = options.top is not None or request.limit is not None
    (answers,) = answerer.ask_many(
        [request],
        top=options.top,
        threshold=options.threshold,
        known_only=options.known_only,
        max_known=None if counted or request.form == "CONSTRUCT" else KNOWN,
    )
    if request.form == "ASK":  # nothing to count: the answer says all
        print("yes" if answers.boolean else f"not known; probability {as_probability(answers.probability)}")
        say("\n".join([f"facts are known by {', '.join(answers.known_splits)}", *answers.notes]))
    else:
        if request.form == "CONSTRUCT":
            say("\n".join(constructed(request.template, answers, answerer.graph.names)))
        else:
            print_answers(answers)
        say(summary(answers, options, counted=counted))
    if explain:
        explanations, notes = _explanations(answerer, request, answers)
        for explanation in explanations:
            say(f"\n{reasons_text(answerer, explanation)}")
        for note in dict.fromkeys([*(explanation.note for explanation in explanations), *notes]):
            say(f"\n{note}")


def print_answers(answers: "Answers") -> None:
    """Prints answers as a table: label, identifier, status and probability; rows of several columns with all of them."""
    first, *further = [name for name in answers.columns if name not in ("score", "known")] or [""]
    start = common_start([answer.entity for answer in answers])
    identifiers = [answer.entity.removeprefix(start) for answer in answers]
    names = [shown_label(answer.label) or "-" for answer in answers]
    title = "probability" if answers.calibrated else "probability (not calibrated)"
    columns: dict[str, Sequence[str | float | None]] = {
        "answer": list(names),
        "identifier": list(identifiers),
        "status": ["known" if answer.known else "predicted" for answer in answers],
        title: [None if answer.known else Probability(answer.probability) for answer in answers],
    }
    if further:  # rows of several columns are read across: variables first, by their names
        del columns["answer"], columns["identifier"]
        columns = {f"?{name}": [_shown(answer, name) for answer in answers] for name in (first, *further)} | columns
    elif names == identifiers:
        del columns["identifier"]
    if answers:
        print_table(tuple(columns), list(zip(*columns.values(), strict=True)))
    if start and not further:
        say(f"identifiers begin with {start}")


def _shown(answer: "Answer", name: str) -> str:
    binding = answer.bindings[name]
    return "-" if binding is None else shown_label(binding.label)


def common_start(identifiers: Sequence[str]) -> str:
    """Returns all but the last part of IRIs, if it is the same for all of them; else nothing."""
    starts = {found[1] if (found := IRI.fullmatch(identifier)) else "" for identifier in identifiers}
    return starts.pop() if len(starts) == 1 else ""


def summary(answers: "Answers", options: AskOptions, counted: bool) -> str:
    """Says in words what was found, what counts as known, and what a prediction is.

    Args:
        answers: The answers that are shown.
        options: What was asked for.
        counted: Whether --top or LIMIT says how many rows are wanted.
    """
    counts = answers.counts
    total = f"{'' if counts.known_exact else 'at least '}{counts.known:,}"
    shown = "" if counts.known_exact and counts.known_shown == counts.known else f"{counts.known_shown:,} of "
    lines = [f"{shown}{total} known (by {', '.join(answers.known_splits)})"]
    if shown and not counted:
        lines[0] += f"; {options.more_by} {counts.known} shows all" if counts.known_exact else f"; {options.more_by} shows more"
    if not options.known_only:
        least = "" if counted else f" with a probability of {options.threshold:g} or more"
        guess = ": a model's guess, not a fact" if counts.predicted_shown else ""
        lines[0] += f", {counts.predicted_shown:,} predicted{least}{guess}"
        if not counts.predicted_shown and not counted and not any("nothing is predicted" in note for note in answers.notes):
            wanted = 5 if options.more_by == "--top" else counts.known + 5  # LIMIT counts the known rows too
            lines[0] += f". {options.more_by} {wanted} shows the best guesses"
    capped = not counted  # what the first line says already
    return "\n".join([*lines, *(note for note in answers.notes if not (capped and "OFFSET" in note))])


def _explanations(answerer: "Answerer", question: "Question", answers: "Answers") -> "tuple[list[Explanation], list[str]]":
    """Explains the first different rows; also returns why some of them cannot be explained."""
    from starqe.errors import UnsupportedError

    found, notes = list["Explanation"](), list[str]()
    for row in list({str(answer.bindings): answer for answer in answers}.values())[:EXPLAINED]:
        try:
            found.append(answerer.explain(question, row))
        except UnsupportedError as reason:
            notes.append(f"{shown_label(row.label) or 'the row'}: {reason}")
    return found, notes


def _text(query: str | None) -> str | None:
    """Returns the text of the query: from standard input, from a file, or as it is given."""
    from starqe.errors import InputError

    if query == "-" or (query is None and not sys.stdin.isatty()):
        return sys.stdin.read()
    if query is not None and "{" not in query and os.path.isfile(query):  # noqa: PTH113  a Path raises where a text is too long
        try:
            return Path(query).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{query}: a query is text in UTF-8. Convert the file, or is it another one?") from None
    return query


def _safe_csv(content: str) -> str:
    """Makes CSV safe to open: no control characters, and an apostrophe before what a spreadsheet would take for a formula."""
    import csv
    import io

    out = io.StringIO()
    rows = csv.reader(io.StringIO(content))
    csv.writer(out, lineterminator="\n").writerows([csv_cell(cell) for cell in row] for row in rows)
    return out.getvalue()


def _json(answerer: "Answerer", text: str, answers: "Answers", explain: bool) -> str:
    content = answers.as_dict()
    if explain:
        explanations, notes = _explanations(answerer, text, answers)
        content["explanations"] = [explanation.as_dict() for explanation in explanations]
        content["notes"] = [*content["notes"], *notes]
    return to_json(content)

"""``starqe ask``: a question in SPARQL, answers known and predicted."""

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from starqe.cli.show import Json, print_table

if TYPE_CHECKING:
    from starqe.ask import Answerer, Answers, Explanation

EXPLAINED = 3
"""How many answers are explained, from the first on."""
_IRI = re.compile(r"([a-z][a-z0-9+.-]*://\S*[/#])([^/#\s]+)", re.IGNORECASE)  # all but its last part, and that


def ask(
    run: Annotated[Path, typer.Argument(help="The run folder of a model that was fitted or calibrated.")],
    query: Annotated[str | None, typer.Argument(help="SPARQL, a file that holds it, or - for standard input; left out: asks.")] = None,
    top: Annotated[int | None, typer.Option(min=1, help="So many answers, known and predicted together.")] = None,
    threshold: Annotated[float, typer.Option(min=0, max=1, help="The least probability of a predicted answer, without --top.")] = 0.5,
    known_only: Annotated[bool, typer.Option("--known-only", help="Only what the graph entails.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Also say why, for the first three answers.")] = False,
    splits: Annotated[str, typer.Option(help="The splits that count as known, with commas.")] = "train,valid,test",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values.")] = False,
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Ask a question: what the graph knows, and what it would probably say if it were complete."""
    if as_csv and (as_json or explain):
        raise typer.BadParameter("--csv has rows only: leave --json and --explain out")
    import torch

    from starqe.ask import Answerer

    if threads:
        torch.set_num_threads(threads)
    text = _text(query)
    answerer = Answerer.open(run, splits=splits.split(","))
    if text is None:
        from starqe.cli.prompt import converse

        converse(answerer, lambda asked: show(answerer, asked, top, threshold, known_only, explain))
        return
    if not (as_json or as_csv):
        show(answerer, text, top, threshold, known_only, explain)
        return
    answers = answerer.ask(text, top=top, threshold=threshold, known_only=known_only)
    print(answers.to_csv() if as_csv else _json(answerer, text, answers, explain), end="" if as_csv else "\n")


def show(answerer: "Answerer", text: str, top: int | None, threshold: float, known_only: bool, explain: bool) -> None:
    """Prints the answers to one question, and the reasons for the first three if wanted."""
    request = answerer.read(text)
    answers = answerer.ask(request, top=top, threshold=threshold, known_only=known_only)
    print_answers(answerer, answers)
    counted = top is not None or request.limit is not None
    print(summary(answers, None if counted else threshold, known_only))
    if explain:
        explanations = [answerer.explain(request, answer.entity) for answer in answers.answers[:EXPLAINED]]
        for explanation in explanations:
            print(f"\n{reasons_text(answerer, explanation)}")
        for note in dict.fromkeys(explanation.note for explanation in explanations):
            print(f"\n{note}")


def print_answers(answerer: "Answerer", answers: "Answers") -> None:
    """Prints answers as a table: label, identifier, known or predicted, probability, and the support that was asked for."""
    further = [name for name in answers.columns if name not in (answers.query.target.name, "score", "known")]
    start = common_start([answer.entity for answer in answers])
    identifiers = [answer.entity.removeprefix(start) for answer in answers]
    names = [spoken(answer.label) for answer in answers]
    columns: dict[str, list[str | float | None]] = {
        "answer": list(names),
        "identifier": list(identifiers),
        "status": ["known" if answer.known else "predicted" for answer in answers],
        "probability": [None if answer.known else answer.probability for answer in answers],
        # The name of a variable may be a word of the table: it keeps its question mark.
        **{f"?{name}": [spoken(answerer.label(answer.support[name])) for answer in answers] for name in further},
    }
    if names == identifiers:
        del columns["identifier"]
    if answers:
        print_table(tuple(columns), list(zip(*columns.values(), strict=True)))
    if start:
        print(f"identifiers begin with {start}")


def common_start(identifiers: Sequence[str]) -> str:
    """Gives all but the last part of IRIs, if it is the same for all of them; else nothing."""
    starts = {found[1] if (found := _IRI.fullmatch(identifier)) else "" for identifier in identifiers}
    return starts.pop() if len(starts) == 1 else ""


def spoken(label: str) -> str:
    """Gives a label as it is shown: an IRI that stands in for one is cut down to its last part."""
    found = _IRI.fullmatch(label)
    return found[2] if found else label


def summary(answers: "Answers", threshold: float | None, known_only: bool) -> str:
    """Says in words what was found, what counts as known, and what a prediction is."""
    known, predicted = len(answers.known), len(answers.predicted)
    found = f"{known:,} known (by {', '.join(answers.known_splits)})"
    if not known_only:
        least = f" with a probability of {threshold:g} or more" if threshold is not None else ""
        found += f", {predicted:,} predicted{least}" + (": a model's guess, not a fact" if predicted else "")
        if not predicted and threshold is not None and not answers.notes:
            found += f". The best guesses are shown by --top {known + 5}"
    return "\n".join([found, *answers.notes])


def reasons_text(answerer: "Answerer", explanation: "Explanation") -> str:
    """Writes an explanation in lines: each statement, and whether it is a fact or a prediction."""
    answer = explanation.answer

    def label(entity: str) -> str:
        return spoken(answerer.label(entity))

    def relation(name: str) -> str:
        return spoken(answerer.relation_label(name))

    lines = [f"{spoken(answer.label)}: {'known' if answer.known else f'predicted, probability {answer.probability:.2f}'}"]
    for reason in explanation.reasons:
        atom = reason.atom
        pairs = "; ".join(f"{relation(str(r))}: {label(str(v))}" for r, v in atom.qualifiers)
        mark = "fact" if reason.fact else f"predicted {reason.probability:.2f}"
        lines.append(
            f"  {mark:<14} {label(str(atom.head))} - {relation(str(atom.relation))} - {label(str(atom.tail))}"
            + (f"  ({pairs})" if pairs else "")
        )
        for part in reason.contributions:
            difference = round(part.difference, 2) + 0.0  # never -0.00
            lines.append(f"      {relation(part.relation)}: {label(part.value)} contributed {difference:+.2f}")
    return "\n".join(lines)


def _text(query: str | None) -> str | None:
    """Gives the text of the query: from standard input, from a file, or as it is given."""
    from starqe.errors import InputError

    if query == "-" or (query is None and not sys.stdin.isatty()):
        return sys.stdin.read()
    if query is not None and "{" not in query and os.path.isfile(query):  # noqa: PTH113  a Path raises where a text is too long
        try:
            return Path(query).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{query}: a query is text in UTF-8. Convert the file, or is it another one?") from None
    return query


def _json(answerer: "Answerer", text: str, answers: "Answers", explain: bool) -> str:
    import json

    content = answers.as_dict()
    if explain:
        content["explanations"] = [answerer.explain(text, answer.entity).as_dict() for answer in answers.answers[:EXPLAINED]]
    return json.dumps(content, indent=2, ensure_ascii=False)

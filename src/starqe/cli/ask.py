"""``starqe ask``: a question in SPARQL, answers known and predicted."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from starqe.cli.show import Json, print_table

if TYPE_CHECKING:
    from starqe.ask import Answerer, Answers, Explanation


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
    print(_csv(answers) if as_csv else _json(answerer, text, answers, explain), end="" if as_csv else "\n")


def show(answerer: "Answerer", text: str, top: int | None, threshold: float, known_only: bool, explain: bool) -> None:
    """Prints the answers to one question, and the reasons for the first three if wanted."""
    answers = answerer.ask(text, top=top, threshold=threshold, known_only=known_only)
    further = [name for name in answers.columns if name not in (answers.query.target.name, "score", "known")]
    label = answerer.label
    rows = [
        (
            answer.label,
            answer.entity if answer.entity != answer.label else "",
            "known" if answer.known else "predicted",
            "" if answer.known else f"{answer.probability:.2f}",
            *(label(answer.support[name]) for name in further),
        )
        for answer in answers
    ]
    if rows:
        print_table(("answer", "identifier", "", "probability", *further), rows)
    print(summary(answers, threshold if top is None else None, known_only))
    if explain:
        for answer in answers.answers[:3]:
            print()
            print(reasons_text(answerer, answerer.explain(text, answer.entity)))


def summary(answers: "Answers", threshold: float | None, known_only: bool) -> str:
    """Says in words what was found, what counts as known, and what a prediction is."""
    known, predicted = len(answers.known), len(answers.predicted)
    found = f"{known:,} known (by {', '.join(answers.known_splits)})"
    if not known_only:
        least = f" with a probability of {threshold:g} or more" if threshold is not None else ""
        found += f", {predicted:,} predicted{least}: a model's guess, not a fact"
    return "\n".join([found, *answers.notes])


def reasons_text(answerer: "Answerer", explanation: "Explanation") -> str:
    """Writes an explanation in lines: each statement, and whether it is a fact or a prediction."""
    label, relation = answerer.label, answerer.relation_label
    answer = explanation.answer
    lines = [f"{answer.label}: {'known' if answer.known else f'predicted, probability {answer.probability:.2f}'}"]
    for reason in explanation.reasons:
        atom = reason.atom
        pairs = "; ".join(f"{relation(str(r))}: {label(str(v))}" for r, v in atom.qualifiers)
        mark = "fact      " if reason.fact else f"predicted {reason.probability:.2f}"
        lines.append(
            f"  {mark:<14} {label(str(atom.head))} - {relation(str(atom.relation))} - {label(str(atom.tail))}"
            + (f"  ({pairs})" if pairs else "")
        )
        lines += [f"      {relation(c.relation)}: {label(c.value)} contributed {c.difference:+.2f}" for c in reason.contributions]
    return "\n".join([*lines, f"  {explanation.note}"])


def _text(query: str | None) -> str | None:
    """Gives the text of the query: from standard input, from a file, or as it is given."""
    if query == "-" or (query is None and not sys.stdin.isatty()):
        return sys.stdin.read()
    if query is not None and "{" not in query and Path(query).is_file():
        return Path(query).read_text(encoding="utf-8")
    return query


def _csv(answers: "Answers") -> str:
    import csv
    import io

    out = io.StringIO()
    names = list(dict.fromkeys([*answers.columns, "label", "known", "probability"]))
    writer = csv.DictWriter(out, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows(answers.rows())
    return out.getvalue()


def _json(answerer: "Answerer", text: str, answers: "Answers", explain: bool) -> str:
    import json

    content = json.loads(answers.to_json())
    if explain:
        content["explanations"] = [json.loads(answerer.explain(text, answer.entity).to_json()) for answer in answers.answers[:3]]
    return json.dumps(content, indent=2, ensure_ascii=False)

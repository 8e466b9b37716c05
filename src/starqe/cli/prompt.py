"""The conversation of ``starqe ask``: history, completion of labels, and errors that do not end it."""

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from starqe.errors import StarqeError

if TYPE_CHECKING:
    from starqe.ask import Answerer
    from starqe.kg import Vocabulary

HISTORY = Path("~/.cache/starqe/history")
WELCOME = "Ask in SPARQL; an empty line ends the question, Tab completes a label inside quotes, Ctrl-D leaves."


def converse(answerer: "Answerer", show: Callable[[str], None]) -> None:
    """Asks for questions until the end of input, and shows the answers to each; history is kept where it can be."""
    with _history(answerer):
        print(f"{WELCOME}\nFor example: {example(answerer)}")
        while (text := _question()) is not None:
            if not text:
                continue
            try:
                show(text)
            except StarqeError as error:
                print(f"starqe: {error}")


def example(answerer: "Answerer") -> str:
    """Gives a question that this graph has an answer to: for the tail of its first statement."""
    graph = answerer.graph
    first = next(graph.statements(*answerer.splits))

    def quoted(vocabulary: "Vocabulary", identifier: str) -> str:
        label = vocabulary.label(vocabulary.id(identifier))
        unique = len(vocabulary.find_label(label)) == 1 and label not in vocabulary
        return json.dumps(label if unique else identifier, ensure_ascii=False)

    return f"SELECT ?x {{ {quoted(graph.entities, first.head)} {quoted(graph.relations, first.relation)} ?x }}"


def _question() -> str | None:
    """Reads lines up to an empty one; None at the end of input, nothing where it was interrupted."""
    lines: list[str] = []
    try:
        while line := input("  ... " if lines else "ask> ").rstrip():
            lines.append(line)
    except EOFError:
        print()
        return "\n".join(lines) or None
    except KeyboardInterrupt:
        print()
        return ""
    return "\n".join(lines)


@contextlib.contextmanager
def _history(answerer: "Answerer") -> Iterator[None]:
    """Keeps what was asked in a file, and completes labels; a system without readline has neither."""
    try:
        import readline
    except ImportError:
        yield
        return
    with contextlib.suppress(OSError, RuntimeError):  # without a home there is no history
        readline.read_history_file(HISTORY.expanduser())
    readline.set_completer_delims('"')
    readline.set_completer(completer(answerer))
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    try:
        yield
    finally:
        with contextlib.suppress(OSError, RuntimeError):  # without a home there is no history
            HISTORY.expanduser().parent.mkdir(parents=True, exist_ok=True)
            readline.set_history_length(1_000)
            readline.write_history_file(HISTORY.expanduser())


def completer(answerer: "Answerer") -> Callable[[str, int], str | None]:
    """Gives the function that readline asks for the n-th completion of what stands between quotes."""

    def complete(text: str, state: int) -> str | None:
        found = answerer.names.find(text, 20) if text else []
        labels = [label for _, label in found if label.casefold().startswith(text.casefold())]
        return labels[state] if state < len(labels) else None

    return complete

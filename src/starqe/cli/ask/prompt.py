"""The conversation of ``starqe ask``: history, completion of names, help, and errors that do not end it."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from starqe.cli.show import say
from starqe.errors import StarqeError
from starqe.queries.sparql.foreign import example

if TYPE_CHECKING:
    from starqe.ask import Answerer
    from starqe.kg import Graph

HISTORY = Path("~/.cache/starqe/history")
WELCOME = "Ask in SPARQL. An empty line ends the question, Tab completes a name inside quotes, help shows more, quit leaves."
HELP = """\
Write names in quotes, and ?x for what you want to find:   SELECT ?x { "entity" "relation" ?x }
More conditions come after a dot, a qualifier in {| |}:    ?x "relation" "entity" {| "relation" "entity" |} .
LIMIT 6 after the last brace asks for the best six answers.
Tab after a few letters completes the name of an entity or a relation, also from the middle: "einst becomes "Albert Einstein".
help shows this, quit or exit (or Ctrl-D) leaves."""
LEAVE = ("quit", "exit")
_OFFERED = 30  # the number of names that Tab offers


def converse(answerer: "Answerer", show: Callable[[str], None]) -> None:
    """Asks for questions until the end of input, and shows the answers to each; history is kept where it can be."""
    with _history(answerer.graph):
        say(f"{WELCOME}\nFor example: {example(answerer.graph)}")
        while (text := _question()) is not None and text.lower() not in LEAVE:
            if not text:
                continue
            if text.lower() == "help":
                say(f"{HELP}\nFor example: {example(answerer.graph)}")
                continue
            try:
                show(text)
            except StarqeError as error:
                say(f"starqe: {error}")


def _question() -> str | None:
    """Reads lines up to an empty one, or one command; None at the end of input, an empty text after Ctrl-C."""
    lines: list[str] = []
    try:
        while line := input("  ... " if lines else "ask> ").rstrip():
            lines.append(line)
            if len(lines) == 1 and line.strip().lower() in ("help", *LEAVE):
                return line.strip()
    except EOFError:
        print()
        return "\n".join(lines) or None
    except KeyboardInterrupt:
        print()
        return ""
    return "\n".join(lines)


@contextlib.contextmanager
def _history(graph: "Graph") -> Iterator[None]:
    """Keeps what was asked in a file, and completes names; a system without readline has neither."""
    try:
        import readline
    except ImportError:
        yield
        return
    with contextlib.suppress(OSError, RuntimeError):  # without a home there is no history
        readline.read_history_file(HISTORY.expanduser())
    readline.set_completer_delims('"')
    readline.set_completer(completer(graph))
    readline.parse_and_bind("bind ^I rl_complete" if "libedit" in (readline.__doc__ or "") else "tab: complete")
    try:
        yield
    finally:
        with contextlib.suppress(OSError, RuntimeError):  # without a home there is no history
            HISTORY.expanduser().parent.mkdir(parents=True, exist_ok=True)
            readline.set_history_length(1_000)
            readline.write_history_file(HISTORY.expanduser())


def completer(graph: "Graph") -> Callable[[str, int], str | None]:
    """Makes the function that readline asks for the n-th completion of what stands between quotes."""

    def complete(text: str, state: int) -> str | None:
        names = completions(graph, text)
        return names[state] if state < len(names) else None

    return complete


def completions(graph: "Graph", text: str) -> list[str]:
    """Returns the names of entities and relations that complete a text: those that begin with it, or else contain it.

    Readline replaces the text by what all completions begin with. Where that would lose what was typed, there is one completion: the
    best.
    """
    if not text.strip():
        return []
    found = [vocabulary.name(id_) for vocabulary in (graph.entities, graph.relations) for id_ in vocabulary.find(text, _OFFERED)]
    key = text.casefold()
    names = list(dict.fromkeys([name for name in found if name.casefold().startswith(key)] or found))
    folded = [name.casefold() for name in names]
    first = folded[0] if folded else ""
    shared = next((first[:end] for end in range(len(first), 0, -1) if all(name.startswith(first[:end]) for name in folded)), "")
    return names if key in shared else names[:1]

"""Ask an incomplete knowledge graph: query embedding on hyper-relational knowledge graphs.

    import starqe

    graph = starqe.read("my-graph.ttl")
    answerer = starqe.fit(graph, "run", minutes=10)
    answerer = starqe.open("run")  # later, or elsewhere
    answers = answerer.ask('SELECT ?x { "Albert Einstein" "educated at" ?x }')
    answers[0], len(answers), answers.predicted, answerer.explain(answers.query, answers[0])

Importing this module loads neither torch nor any other large package; the functions do when they are called.
"""

import importlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from starqe.errors import StarqeError

if TYPE_CHECKING:
    from starqe.ask import Answer, Answerer, Answers, Explanation
    from starqe.kg import Graph, Statement
    from starqe.queries import Query

__version__ = "0.1.0"

_ROOMS = {
    "Answer": "ask",
    "Answerer": "ask",
    "Answers": "ask",
    "Explanation": "ask",
    "Graph": "kg",
    "Query": "queries",
    "Statement": "kg",
}
"""Classes that can be imported from here, and the packages that they are loaded from on first use."""

__all__ = [
    "Answer",
    "Answerer",
    "Answers",
    "Explanation",
    "Graph",
    "Query",
    "StarqeError",
    "Statement",
    "__version__",
    "fit",
    "open",
    "read",
]


def read(source: str | Path, format: str | None = None) -> "Graph":  # noqa: A002  the usual word
    r"""Reads a graph: a file or folder in any form that starqe knows, a graph folder, or a fetched data set by its name.

        >>> with open("statements.csv", "w") as file:
        ...     print("Einstein,bornIn,Ulm", "Curie,bornIn,Warsaw,in,1867", sep="\n", file=file)
        >>> graph = starqe.read("statements.csv")
        >>> len(graph), len(graph.entities)
        (2, 5)

    Args:
        source: The path, the address of a graph folder such as ``s3://bucket/graph``, or the name of a data set.
        format: The form of the file; detected from its content and name if left out. `starqe.kg.FORMS` lists them.

    Raises:
        InputError: The source is missing, malformed, or of no known form.
        StorageError: It is a graph folder, and damaged.
    """
    import os
    import sys

    from starqe.kg import import_graph, load_graph
    from starqe.kg.graph_folder import HEADER
    from starqe.kg.published.datasets import data_home, named_source
    from starqe.remote import address

    if address(Path(source)):
        return load_graph(Path(source))
    place = named_source(Path(source), data_home(os.environ, sys.platform))
    return load_graph(place) if (place / HEADER).exists() else import_graph(place, format)[0]


def fit(
    source: "str | Path | Graph",
    out: str | Path,
    *,
    minutes: float = 10,
    seed: int = 0,
    resume: bool = False,
    start: str | Path | None = None,
    progress: Callable[[str, dict[str, Any]], None] = lambda *_: None,
) -> "Answerer":
    """Trains a model of a graph, keeps it in the folder ``out``, and returns the answerer of questions about it.

        >>> from starqe.kg import embedded_graph  # or the path of a graph file
        >>> answerer = starqe.fit(embedded_graph(), "run", minutes=0.05)  # ten minutes suit a graph of a few thousand statements
        >>> answerer.ask('SELECT ?x { ?x "place of birth" "Ulm" }').known[0].label
        'Albert Einstein'

    Args:
        source: A graph, or anything that `read` reads.
        out: The folder of the run; it must not exist yet, unless ``resume`` is given.
        minutes: Time for training.
        seed: Decides everything that is random.
        resume: Continue the run that is there.
        start: The folder of a run to go on from, such as that of the graph before an update: a few minutes are enough then.
        progress: Called with the name of the stage and a report about it.

    Raises:
        InputError: The source cannot be read, or nothing of the graph can be held out for validation.
        MismatchError: The run to go on from has learned statements that are valid or test in the graph.
        StorageError: The folder exists already, or cannot be written.
    """
    from starqe.ask import fit as train
    from starqe.ask.continuing import Before
    from starqe.kg import Graph

    graph = source if isinstance(source, Graph) else read(source)
    return train(graph, Path(out), minutes, seed, resume, progress, before=Before.open(Path(start)) if start else None)


def open(  # noqa: A001  starqe.open(run), as one opens a file
    run: str | Path, *, splits: Collection[str] = ("train", "valid", "test"), by: Literal["mixture", "encoder"] = "mixture"
) -> "Answerer":
    """Opens a run that was fitted or calibrated, to ask it.

        >>> answerer = starqe.open("run")
        >>> answers = answerer.ask('SELECT ?x { "Albert Einstein" "educated at" ?x }', top=2)
        >>> [(answer.label, answer.known) for answer in answers][:2]
        [('ETH Zurich', True), ('University of Zurich', True)]

    Args:
        run: The folder of the run.
        splits: The splits of the graph that count as known.
        by: What ranks predicted answers: the mixture, or the encoder alone, which is faster.

    Raises:
        StorageError: The folder is not a run, was not calibrated, or is damaged.
    """
    from starqe.ask import Answerer

    return Answerer.open(Path(run), splits=splits, by=by)


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return getattr(importlib.import_module(f"starqe.{_ROOMS[name]}"), name)
    raise AttributeError(f"module 'starqe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

"""Speed of single questions from Python: reading, known rows and all answers; side by side with another version of starqe."""

import contextlib
import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from starqe.bench import asking_process
from starqe.bench.measured import machine
from starqe.bench.serving import questions
from starqe.bench.versions import in_turns, start_versions, summary
from starqe.errors import InputError
from starqe.kg import load_graph

BLOCK = 10
"""Number of questions that one version answers before the other has its turn."""
SHARED = ("reading", "known rows", "conjunctive")
"""What every version of starqe can be asked."""
_GROUP = re.compile(r"\{.*\}", re.DOTALL)


def bench_ask(run: Path, count: int = 200, other: Path | None = None, threads: int = 1, seed: int = 0) -> list[dict[str, Any]]:
    """Measures the CPU time of questions, each asked once: conjunctive ones of the seven shapes, unions of two, tuples of three variables.

    Two versions of starqe answer the same questions in turns, so that other load on the machine slows both down equally. The time
    of the process that holds the SPARQL store is in ``ms`` only.

    Args:
        run: The folder of a run that can be asked; both versions have to read it.
        count: Number of questions of each kind, if the graph has that many.
        other: The folder ``src`` of another version of starqe.
        threads: Number of threads.
        seed: Decides the questions.

    Raises:
        InputError: A number is out of range, the other version is missing, or the graph has no query.
        StarqeError: A version does not start.
    """
    if count < 1 or threads < 1:
        raise InputError(f"questions and threads are 1 or more, found {count} and {threads}")
    loads = {load: texts[:count] for load, texts in _loads(run, seed).items() if texts}
    rows = []
    with contextlib.ExitStack() as stack:
        versions = start_versions(stack, asking_process.__file__, [str(run.resolve()), str(threads)], other)
        for load, texts in loads.items():
            blocks = [{"load": load, "texts": texts[start : start + BLOCK]} for start in range(0, len(texts), BLOCK)]
            costs = in_turns(versions if load in SHARED else versions[:1], blocks)
            rows.append({"load": load, "questions": len(texts), **summary(costs), "threads": threads, **machine()})
    single = next((row for row in rows if row["load"] == "one pattern"), None)
    return [{**row, **_beside(row, single)} for row in rows]


def _loads(run: Path, seed: int) -> dict[str, list[str]]:
    """Returns the questions of each kind."""
    drawn = questions(load_graph(run / "graph"), seed)
    single = [text for text, shape in drawn.items() if shape == "1p"]
    groups = [found[0] for text in single if (found := _GROUP.search(text))]
    unions = [f"SELECT DISTINCT ?target WHERE {{ {one} UNION {other} }}" for one, other in pairwise(groups)]
    tuples = [f"SELECT DISTINCT * WHERE {found[0]}" for text, shape in drawn.items() if shape == "3p" and (found := _GROUP.search(text))]
    return {**{load: list(drawn) for load in SHARED}, "one pattern": single, "union of two": unions, "tuples of three": tuples}


def _beside(row: Mapping[str, Any], single: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the time of a union as a multiple of that of one pattern: of wall and of CPU time."""
    if single is None or row["load"] != "union of two":
        return {}
    return {"of_one_pattern": round(row["ms"] / single["ms"], 2), "of_one_pattern_cpu": round(row["cpu_ms"] / single["cpu_ms"], 2)}

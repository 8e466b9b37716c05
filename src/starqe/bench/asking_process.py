"""Answers questions from standard input and reports what each cost. Run as a script: it uses only what all versions of starqe have.

    python asking_process.py RUN THREADS

When it has warmed up, it prints the folder that starqe was imported from. Then one line is one request, and one
line its reply, in seconds per text:

    <- {"load": "reading" | "known rows" | …, "texts": […]}
    -> {"cpu": […], "wall": […]}
"""

import json
import sys
import time
from pathlib import Path

BEST = 10
"""Number of predicted answers that are asked for."""


def main() -> None:
    """Answers until standard input is closed."""
    import torch

    import starqe
    from starqe.ask import Answerer
    from starqe.queries import read_sparql

    torch.set_num_threads(int(sys.argv[2]))
    answerer = Answerer.open(Path(sys.argv[1]))
    answerer.warm_up()
    print(Path(starqe.__file__).resolve().parent, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        cpu, wall = [], []
        for text in request["texts"]:
            busy, began = time.process_time(), time.perf_counter()
            if request["load"] == "reading":
                read_sparql(text, answerer.graph)
            elif request["load"] == "known rows":
                answerer.ask(text, known_only=True)
            elif request["load"] == "conjunctive":
                answerer.ask(text)  # what "top" counts has changed: this means the same in all versions
            else:
                answerer.ask(text, top=BEST)
            cpu.append(time.process_time() - busy)
            wall.append(time.perf_counter() - began)
        print(json.dumps({"cpu": cpu, "wall": wall}), flush=True)


if __name__ == "__main__":
    main()

"""``starqe serve``: serves a run: SPARQL endpoint, JSON API and page."""

import hashlib
import logging
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from starqe.cli.show import Json

if TYPE_CHECKING:
    from fastapi import FastAPI

    from starqe.reason.calibration import RankedBy
    from starqe.serve import ServeSettings
    from starqe.serve.running.memory import Estimate
    from starqe.serve.running.runs import Loaded


def serve(
    run: Annotated[Path, typer.Argument(help="The run folder of a model that can be asked.")],
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 listens on all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 chooses a free port.", min=0, max=65535)] = 8000,
    allow_host: Annotated[list[str] | None, typer.Option(help="A further host name that the service answers to; may be repeated.")] = None,
    token: Annotated[str | None, typer.Option(envvar="STARQE_TOKEN", help="Token that clients have to send.")] = None,
    cors: Annotated[list[str] | None, typer.Option(help="An origin whose pages may ask from a browser; may be repeated.")] = None,
    graph: Annotated[
        Path | None, typer.Option(help="Another graph of the same vocabulary, or a newer one, in place of the run's own.")
    ] = None,
    splits: Annotated[str, typer.Option(help="Splits that count as known, separated by commas.")] = "train,valid,test",
    by: Annotated[
        Literal["mixture", "encoder"], typer.Option(help="What predicts: encoder and executor, or the encoder alone, which is faster.")
    ] = "mixture",
    threads: Annotated[
        int, typer.Option(help="Number of threads for arithmetic. Queries are small: on WD50K, two are slower than one.", min=1)
    ] = 1,
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value, a limit of the service; may be repeated.")] = None,
    log: Annotated[bool, typer.Option("--log", help="Log every request, without the query, on standard error.")] = False,
    memory: Annotated[
        str | None, typer.Option(help="Refuse to start if the service needs more, such as 4GB; the default is the free memory.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Answer queries over HTTP: a SPARQL endpoint, JSON routes, and a page to ask on."""
    import torch

    from starqe.learn.run import kind_of
    from starqe.serve import ServeSettings, create_app
    from starqe.serve.running.memory import estimate, limit
    from starqe.serve.running.server import address, end_process, listen, prepare
    from starqe.serve.running.server import serve as run_server
    from starqe.serve.running.starting import answering
    from starqe.serve.settings import LOCAL_HOSTS

    torch.set_num_threads(threads)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("starqe.serve").setLevel(logging.INFO if log else logging.WARNING)
    hosts = tuple(dict.fromkeys((*LOCAL_HOSTS, host, *(allow_host or ()))))
    limits = ServeSettings.parse({"name": _folder_name(run, graph), "hosts": hosts, "token": token, "cors": tuple(cors or ())})
    limits = limits.with_settings(settings or [])
    kind_of(run)  # a folder that is not a run is refused with that message
    needed = estimate(run, graph, limits)
    needed.check(*limit(memory))

    def opened_app() -> "FastAPI":
        loaded = _open(run, graph, splits, by, limits)
        return create_app(loaded, load=partial(_open_again, run, graph, splits, by, limits, memory))

    app = None if needed.is_large else opened_app()
    with listen(host, port) as opened:
        _announce(address(opened), token is not None, needed, as_json)
        if app is None:
            with answering(opened, limits):
                app = opened_app()
                prepare(app)
        run_server(app, opened, limits, prepared=needed.is_large)
    end_process()  # taking the graph apart, object by object, would take longer than the time to end on a busy machine


def _open_again(run: Path, graph: Path | None, splits: str, by: "RankedBy", limits: "ServeSettings", memory: str | None) -> "Loaded":
    """Reads the run that is in the folder now, if it fits into the memory beside the one that answers."""
    from dataclasses import replace

    from starqe.serve.running.memory import estimate, limit, taken

    needed = estimate(run, graph, limits)
    replace(needed, other_run=0 if memory is None else taken()).check(*limit(memory))  # free memory does not have it any more
    return _open(run, graph, splits, by, limits)


def _open(run: Path, graph: Path | None, splits: str, by: "RankedBy", limits: "ServeSettings") -> "Loaded":
    """Reads the run.

    Raises:
        StorageError: It cannot be read, or was changed meanwhile.
    """
    from starqe.ask import Answerer
    from starqe.errors import StorageError
    from starqe.kg import load_graph
    from starqe.serve.running.runs import Loaded, run_fingerprint

    print_ = run_fingerprint(run)
    answerer = Answerer.open(run, load_graph(graph) if graph else None, splits.split(","), by)
    if run_fingerprint(run) != print_:
        raise StorageError(f"{run} was changed while it was read, so that its parts may not belong together. Load it again")
    title = answerer.graph.title
    if graph:
        print_ = hashlib.sha256(f"{print_} {answerer.graph.fingerprint}".encode()).hexdigest()
    return Loaded(answerer, limits.replace(name=title) if title and limits.name == _folder_name(run, graph) else limits, print_)


def _folder_name(run: Path, graph: Path | None) -> str:
    """Returns the default name of a service."""
    return (graph or run).resolve().name


def _announce(address: str, token: bool, needed: "Estimate", as_json: bool) -> None:
    """Prints where the service is, and how to ask it."""
    import json

    if as_json:
        content = {"address": address, "sparql": f"{address}/sparql", "page": f"{address}/", "memory_mb": round(needed.total / 1e6)}
        print(json.dumps(content), flush=True)
        return
    authorization = "  -H 'Authorization: Bearer TOKEN' \\\n" if token else ""
    print(f"The page:        {address}/")
    print(f"SPARQL endpoint: {address}/sparql")
    print(f"  curl {address}/sparql -H 'Accept: text/csv' \\\n{authorization}    --data-urlencode 'query=SELECT ?x ?score WHERE {{ … }}'")
    print(f"Memory:          {needed}")
    print("Ctrl-C stops it.", flush=True)

"""``starqe serve``: a run as a service, with a SPARQL endpoint and a page."""

import logging
import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from starqe.cli.show import Json


def serve(
    run: Annotated[Path, typer.Argument(help="The run folder of a model that can be asked.")],
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 listens on all.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 takes any that is free.", min=0, max=65535)] = 8000,
    allow_host: Annotated[list[str] | None, typer.Option(help="A name by which the service may be called too; may be repeated.")] = None,
    token: Annotated[str | None, typer.Option(envvar="STARQE_TOKEN", help="What clients have to know to be answered.")] = None,
    cors: Annotated[list[str] | None, typer.Option(help="An origin whose pages may ask from a browser; may be repeated.")] = None,
    graph: Annotated[Path | None, typer.Option(help="Another graph of the same vocabulary, in place of the run's own.")] = None,
    splits: Annotated[str, typer.Option(help="The splits that count as known, with commas.")] = "train,valid,test",
    by: Annotated[
        Literal["mixture", "encoder"], typer.Option(help="What predicts: encoder and executor, or the encoder alone, which is faster.")
    ] = "mixture",
    threads: Annotated[
        int, typer.Option(help="Threads of the arithmetic. A question is small: on WD50K, two are slower than one.", min=1)
    ] = 1,
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value, a limit of the service; may be repeated.")] = None,
    log: Annotated[bool, typer.Option("--log", help="Log every request on standard error; what was asked is left out.")] = False,
    as_json: Json = False,
) -> None:
    """Answer queries over HTTP: a SPARQL endpoint, JSON routes, and a page to ask on."""
    import torch

    from starqe.ask import Answerer
    from starqe.kg import load_graph
    from starqe.serve import ServeSettings, create_app
    from starqe.serve.server import address, listen
    from starqe.serve.server import serve as run_server
    from starqe.serve.settings import LOCAL_HOSTS

    torch.set_num_threads(threads)
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("starqe.serve").setLevel(logging.INFO if log else logging.WARNING)
    hosts = tuple(dict.fromkeys((*LOCAL_HOSTS, host, *(allow_host or ()))))
    limits = ServeSettings.parse({"name": (graph or run).resolve().name, "hosts": hosts, "token": token, "cors": tuple(cors or ())})
    limits = limits.with_settings(settings or [])
    answerer = Answerer.open(run, load_graph(graph) if graph else None, splits.split(","), by)
    app = create_app(answerer, limits)
    with listen(host, port) as opened:
        _announce(address(opened), token is not None, as_json)
        run_server(app, opened, limits)


def _announce(address: str, token: bool, as_json: bool) -> None:
    """Says where the service is, and how to ask it."""
    import json

    if as_json:
        print(json.dumps({"address": address, "sparql": f"{address}/sparql", "page": f"{address}/"}), flush=True)
        return
    authorization = "  -H 'Authorization: Bearer TOKEN' \\\n" if token else ""
    print(f"The page:        {address}/")
    print(f"SPARQL endpoint: {address}/sparql")
    print(f"  curl {address}/sparql -H 'Accept: text/csv' \\\n{authorization}    --data-urlencode 'query=SELECT ?x ?score WHERE {{ … }}'")
    print("Ctrl-C stops it.", flush=True)

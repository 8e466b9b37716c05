"""``starqe calibrate``: makes a trained run one that can be asked."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starqe.cli.show import Json, print_json, print_pairs

if TYPE_CHECKING:
    from starqe.ask import Answerer
    from starqe.kg import Graph
    from starqe.queries import QueryTable


def calibrate(
    run: Annotated[Path, typer.Argument(help="The run folder of a trained encoder.")],
    predictor: Annotated[
        Path | None, typer.Option(help="The run folder of a one-hop predictor; the one in RUN if left out, or else the encoder.")
    ] = None,
    queries: Annotated[Path | None, typer.Option(help="A query set whose validation queries to fit on; drawn from the graph else.")] = None,
    limit: Annotated[int, typer.Option(help="So many validation (and test) queries of each shape.")] = 150,
    settings: Annotated[list[str], typer.Option("--set", help="key=value of the executor, such as beam=64; may be repeated.")] = [],  # noqa: B006
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    as_json: Json = False,
) -> None:
    """Fit probabilities and the mixture of encoder and executor on validation, and keep them in RUN.

    Where the graph has a test split, the probabilities are then checked on it.
    """
    import torch

    from starqe.ask import calibrate as fit
    from starqe.learn import Run
    from starqe.reason.run import PredictorRun
    from starqe.reason.settings import ReasonSettings

    if threads:
        torch.set_num_threads(threads)
    opened = Run.open(run)
    one_hop = PredictorRun.open(predictor, opened.graph) if predictor else None
    answerer = fit(opened, one_hop, _queries(opened.graph, queries, "valid", limit), ReasonSettings().with_settings(settings))
    checked = _check(run, answerer, _queries(opened.graph, queries, "test", limit))
    result = {"run": str(run), "weight_of_executor": dict(answerer.weights.executor), **checked}
    if as_json:
        print_json(result)
        return
    weights = {f"weight of the executor, {name}": weight for name, weight in answerer.weights.executor.items()}
    print_pairs({**weights, **checked}, f"{run} can be asked: starqe ask {run} 'SELECT ...'")


def _queries(graph: "Graph", folder: Path | None, split: str, limit: int) -> dict[str, "QueryTable"]:
    """Gives the queries of a split: of a query set, or drawn as people ask them."""
    from starqe.ask import drawn_queries
    from starqe.queries import load_queries, tables_of

    if folder is None:
        return drawn_queries(graph, split, limit) if len(graph.known([split])) else {}
    if split == "test" and split not in tables_of(folder):
        return {}
    return load_queries(folder, split, None, limit, graph)


def _check(folder: Path, answerer: "Answerer", queries: dict[str, "QueryTable"]) -> dict[str, Any]:
    """Measures on test queries how far the probabilities can be trusted; nothing, where there are none."""
    from dataclasses import asdict

    from starqe.ask.probability import check_probability
    from starqe.measure.reliability import plot_reliability

    scorer = answerer.reasoner.mixture(["train"])
    found = check_probability(answerer.graph, scorer, answerer.probability, queries) if queries else None
    if found is None:
        return {}
    (folder / "reliability.json").write_text(json.dumps(asdict(found), indent=2) + "\n", encoding="utf-8")
    plot_reliability(found, folder / "reliability.png")
    return {"test_candidates": found.count, "test_ece": round(found.ece, 4), "test_brier": round(found.brier, 4)}

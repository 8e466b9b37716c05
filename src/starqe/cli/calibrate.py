"""``starqe calibrate``: prepares a trained run for questions."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from starqe.cli.show import Json, Memory, print_json, print_pairs
from starqe.folders import locked

if TYPE_CHECKING:
    from starqe.ask import Answerer
    from starqe.kg import Graph
    from starqe.measure.reliability import Reliability
    from starqe.queries import QueryTable


LEAST_OF_A_TENTH = 200
"""The least number of candidates of a tenth of the probabilities of which the error is printed."""


def calibrate(
    run: Annotated[Path, typer.Argument(help="The run folder of a trained encoder.")],
    predictor: Annotated[
        Path | None, typer.Option(help="The run folder of a one-hop predictor; if left out, the one in RUN, or else the encoder.")
    ] = None,
    queries: Annotated[Path | None, typer.Option(help="A query set to fit on; queries are sampled if left out.")] = None,
    limit: Annotated[int, typer.Option(help="Number of validation (and test) queries per shape.")] = 150,
    settings: Annotated[list[str], typer.Option("--set", help="key=value of the executor, such as beam=64; may be repeated.")] = [],  # noqa: B006
    threads: Annotated[int | None, typer.Option(help="All cores if left out.")] = None,
    memory: Memory = None,
    as_json: Json = False,
) -> None:
    """Fit probabilities and the mixture of encoder and executor on validation, and keep them in RUN.

    If the graph has a test split, the probabilities are then checked on it.
    """
    import torch

    from starqe.ask import calibrate as fit
    from starqe.learn import Run
    from starqe.reason.executor.settings import ReasonSettings
    from starqe.reason.predictor.run import PredictorRun
    from starqe.reason.reasoner import check_calibration_fits
    from starqe.serve.running.memory import limit as memory_limit

    if threads:
        torch.set_num_threads(threads)
    opened = Run.open(run)
    one_hop = PredictorRun.open(predictor, opened.graph) if predictor else None
    executor = ReasonSettings().with_settings(settings)
    check_calibration_fits(opened, one_hop, executor, memory_limit(memory)[0] if memory else None)
    with locked(run):
        answerer = fit(opened, one_hop, _queries(opened.graph, queries, "valid", limit), executor)
        checked = _check(run, answerer, _queries(opened.graph, queries, "test", limit))
    evidence = answerer.probability.evidence
    result = {"run": str(run), "weight_of_executor": dict(answerer.weights.executor), "calibrated": answerer.calibrated}
    result |= {"fitted_on": asdict(evidence), "probability": answerer.probability.chance.name, **checked}
    if as_json:
        print_json(result)
        return
    weights = {f"weight of the executor, {name}": weight for name, weight in answerer.weights.executor.items()}
    counts = {
        "validation statements": evidence.statements,
        "candidates": evidence.candidates,
        "candidates that came true": evidence.positives,
        "probability": answerer.probability.chance.name,
    }
    print_pairs({**weights, **counts, **checked}, f"{run} can be asked: starqe ask {run} 'SELECT ...'")
    if evidence.note:
        print(f"Note: {evidence.note}")


def _queries(graph: "Graph", folder: Path | None, split: str, limit: int) -> dict[str, "QueryTable"]:
    """Returns the queries of a split: from a query set, or sampled."""
    from starqe.ask import drawn_queries
    from starqe.queries import load_queries, tables_of

    if folder is None:
        return drawn_queries(graph, split, limit) if len(graph.known([split])) else {}
    if split == "test" and split not in tables_of(folder):
        return {}
    return load_queries(folder, split, None, limit, graph)


def _check(folder: Path, answerer: "Answerer", queries: dict[str, "QueryTable"]) -> dict[str, Any]:
    """Measures on test queries how far the probabilities can be trusted; nothing if there are none."""
    from starqe.folders import new_file
    from starqe.measure.reliability import plot_reliability
    from starqe.reason.fitting import check_probability
    from starqe.reason.numbers import SHARES, number_rows, number_statements

    scorer = answerer.reasoner.mixture(["train"])
    found = check_probability(answerer.reasoner.graph, scorer, answerer.probability.chance, queries) if queries else None
    if found is None:
        return {}
    every, classes = found.every, {"classes": found.classes, "known_answers": found.known}
    with new_file(folder / "reliability.json", overwrite=True) as beside:
        beside.write_text(json.dumps({**asdict(every), **_written(classes)}, indent=2) + "\n", encoding="utf-8")
    with new_file(folder / "reliability.png", overwrite=True) as beside:
        plot_reliability(every, beside)
    checked = {
        "test_candidates": every.count,
        "test_ece": round(every.ece, 4),
        "test_ece_of_the_worst_class": round(max(part.ece for part in found.classes.values()), 4),
        "test_error_of_the_worst_tenth": round(every.worst(LEAST_OF_A_TENTH), 4),
        "test_brier": round(every.brier, 4),
        "test_log_loss": round(every.log_loss, 4),
    }
    numbers = answerer.reasoner.numbers(["train"])
    if numbers is None or not len(number_statements(numbers.scales.part, "test")[0]):
        return checked
    together = number_rows(numbers)[-1]
    return {
        **checked,
        "test_numbers": together.count,
        "test_numbers_within_80_percent_interval": round(together.within[SHARES.index(0.8)] / 100, 4),
    }


def _written(groups: dict[str, Mapping[str, "Reliability"]]) -> dict[str, Any]:
    """Returns the reliability of parts of the candidates for JSON."""
    return {name: {part: asdict(found) for part, found in parts.items()} for name, parts in groups.items()}

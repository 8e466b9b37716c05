"""What the golden folders hold, as plain values."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from starqe.kg import load_graph
from starqe.learn import Run
from starqe.queries import load_queries, tables_of
from starqe.reason.calibration import load_calibration
from starqe.reason.mixture import FIRST_CLASSES
from starqe.reason.predictor.run import PredictorRun


def graph(folder: Path) -> Any:
    found = load_graph(folder)
    return [found.fingerprint, [statement.fields() for statement in found.statements("train", "valid", "test")]]


def queries(folder: Path) -> Any:
    return {
        f"{split}/{shape}": [table.anchors.tolist(), table.relations.tolist(), table.pairs.items.tolist(), table.answers.items.tolist()]
        for split in tables_of(folder)
        for shape, table in load_queries(folder, split).items()
    }


def run(folder: Path) -> Any:
    found = Run.open(folder)
    state = found.load_state()
    assert state is not None
    fitted = load_calibration(folder, found.graph)
    weights = {name: fitted.weights.executor[name] for name in FIRST_CLASSES}  # those that every version has
    return [_sums(found.encoder().state_dict()), _sums(state[0]), state[1]["step"], weights, fitted.one_hop.written()]


def predictor(folder: Path) -> Any:
    found = PredictorRun.open(folder)
    state = found.load_state()
    assert state is not None
    return [_sums(found.predictor().state_dict()), _sums(state[0]), state[1]["step"]]


def _sums(tensors: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(tensor.double().sum()) for name, tensor in sorted(tensors.items())}


READERS: Mapping[str, Callable[[Path], Any]] = {"graph": graph, "queries": queries, "run": run, "predictor": predictor}

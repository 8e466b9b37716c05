"""What the golden folders hold, as plain values."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starqe.experiments.tuning.study import Study, Terms
from starqe.experiments.work_folder import open_work
from starqe.kg import import_graph, load_graph
from starqe.kg.published.datasets import DataFile, DataSet
from starqe.kg.published.fetch import fetch
from starqe.learn import Recipe, Run
from starqe.measure.rows import Row
from starqe.queries import load_queries, tables_of
from starqe.queries.query_json import query_from_json
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


def ruled(folder: Path) -> Any:
    book = PredictorRun.open(folder).rules()
    assert book is not None
    return [
        book.rules.weight,
        [[book.rules.words(rule), *book.rules.counts(rule).values()] for rule in book.rules.best(8)],
        len(book.rules),
    ]


def query(file: Path) -> Any:
    found = query_from_json(file.read_bytes())
    return [[variable.name for variable in found.answers], str(found)]


def reproduction(folder: Path) -> Any:
    """Opens the folder as `reproduce` does, and reads its rows: they are not computed again."""
    with _copied(folder) as copy:
        work = open_work(copy, folder.parent / "graph", folder.parent / "queries")
        return [row.to_json() for row in work.rows_once(copy / "table" / "rows.json", Row, list)]


SPACE = {"model.width": (16, 32)}


def study(folder: Path) -> Any:
    """Opens the folder as `tune` does, and reads its trials."""
    with _copied(folder) as copy:
        found = Study(copy, Terms("0123456789abcdef", {"train.1p": 10}, {"seed": 0}, Recipe(seed=3), SPACE))
        return [[result.trial, result.state, result.value, result.epochs, result.parameters] for result in found.results()]


SPLITS = {"train.txt": "a,r,b,q,c\nb,r,c\n", "valid.txt": "a,r,c\n", "test.txt": "b,s,a\n"}
DATA_SET = DataSet("dataset", 4, tuple(DataFile(name, len(text)) for name, text in SPLITS.items()), "", "CC0", "Nobody: Nothing. 2020")


def dataset(folder: Path) -> Any:
    """Imports the folder, whose files are compared with its checksums; nothing is fetched again."""
    fetched = fetch(DATA_SET, folder.parent, str(folder.parent))
    statements = import_graph(folder)[0].statements("train", "valid", "test")
    return [fetched.brought, fetched.checksums, [statement.fields() for statement in statements]]


@contextmanager
def _copied(folder: Path) -> Iterator[Path]:
    """Copies a folder in which the program may write."""
    with TemporaryDirectory() as place:
        yield shutil.copytree(folder, Path(place, folder.name))


def _sums(tensors: Mapping[str, Any]) -> dict[str, float]:
    return {name: float(tensor.double().sum()) for name, tensor in sorted(tensors.items())}


READERS: Mapping[str, Callable[[Path], Any]] = {
    "graph": graph,
    "queries": queries,
    "run": run,
    "predictor": predictor,
    "ruled": ruled,
    "query.json": query,
    "reproduction": reproduction,
    "study": study,
    "dataset": dataset,
}

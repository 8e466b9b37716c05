"""Forged folders with correct checksums: they are read, or refused with one of our errors, and never give a traceback."""

import contextlib
import json
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from starqe.ask import Answerer
from starqe.errors import StarqeError
from starqe.folders import checksum, file_checksum, write_header
from starqe.kg import load_graph, save_graph
from starqe.learn import QueryLesson, Run, Trainer
from starqe.measure.index.nearest import HEADER, LISTS
from starqe.queries import SHAPES, load_queries, sample, tables_of
from starqe.queries.gaps import TAIL, with_gap
from starqe.queries.table import CHECKSUMS
from starqe.reason.predictor.lesson import PredictLesson
from starqe.reason.predictor.run import PredictorRun
from starqe.reason.rules.rule_table import CHECKSUM
from tests.golden.make import make
from tests.reason.sized_town import sized_run

VALUES: tuple[Any, ...] = (None, -1, 2**63, 10**30, 1e308, True, "", "x", "x" * 100_000, [], {}, [None], {"a": {}}, [[[]]], -0.5)
GOLDEN_LITERALS = Path(__file__).parent / "golden" / "literals"
GOLDEN_INDEXED = Path(__file__).parent / "golden" / "indexed"
SECONDS = 10.0
SOME = 20
"""Number of changes of a kind that are tried in the fast test."""


def read_queries(folder: Path) -> None:
    for split in tables_of(folder):
        load_queries(folder, split)


def read_run(folder: Path) -> None:
    run = Run.open(folder)
    run.encoder()
    Answerer.open(folder).ask('SELECT ?x { "a" "r" ?x }', top=2)
    Trainer(run, QueryLesson(run, {"1p": sample(run.graph, SHAPES["1p"], 2, "train", [(0, 2)])}, {})).resume()


def read_predictor(folder: Path) -> None:
    run = PredictorRun.open(folder)
    run.predictor()
    Trainer(run, PredictLesson(run)).resume()


def read_literals(folder: Path) -> None:
    graph = load_graph(folder)
    assert len(graph.literals.numbers) == len(graph.literals.axes[1]) == len([*graph.literals])


def read_numbers(folder: Path) -> None:
    answerer = Answerer.open(folder, splits=["train"])
    try:
        answerer.ask("SELECT ?s { e:p0 r:size ?s FILTER (?s > 5) }", threshold=0.0)
    finally:
        answerer.close()


def read_rules(folder: Path) -> None:
    run = PredictorRun.open(folder)
    book = run.rules()
    assert book is not None
    for rule in book.rules.best(len(book.rules)):
        book.rules.words(rule)
    gaps = with_gap(run.graph, np.arange(3), TAIL)
    for candidate in run.scorer().nearest_entities(gaps, 2).best.ids[0]:
        for rule in book.why(gaps, int(candidate), 3):
            book.facts(gaps, int(candidate), rule)


def read_index(folder: Path) -> None:
    run = Run.open(folder)
    run.scorer().best([(sample(run.graph, SHAPES["1p"], 5, "valid", [(0, 1)]), np.arange(5))], 10)


READERS: dict[str, Callable[[Path], object]] = {"graph": load_graph, "queries": read_queries, "run": read_run, "predictor": read_predictor}
WITH_LITERALS: dict[str, Callable[[Path], object]] = {"literals": read_literals, "numbers": read_numbers}
ALL = {**READERS, **WITH_LITERALS, "ruled": read_rules, "indexed": read_index}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("sound")
    make(place)
    save_graph(load_graph(GOLDEN_LITERALS), place / "literals")
    shutil.copytree(GOLDEN_INDEXED, place / "indexed")
    return place


@pytest.fixture(scope="module")
def sized(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same folders, and a run that predicts numbers."""
    folder = sized_run(tmp_path_factory.mktemp("sized"))
    return folder.rename(sound / "numbers").parent


def refused(read: Callable[[Path], object], folder: Path, what: str) -> bool:
    """Reads a folder: says whether it is refused."""
    began = time.process_time()
    try:
        read(folder)
    except StarqeError:
        return True
    except BaseException as error:
        error.add_note(what)
        raise
    finally:
        assert time.process_time() - began < SECONDS, what
    return False


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """Yields the path to every value in a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield (key,)
        for rest in places(part):
            yield (key, *rest)


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    copy = json.loads(json.dumps(value))
    at = copy
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = new
    return copy


def headers(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(folder.rglob("*.json")):
        yield path, json.loads(path.read_text())


@contextlib.contextmanager
def forged(path: Path, new: dict[str, Any]) -> Iterator[None]:
    """Puts another header in the place of one, or another file with its checksum in the header of its folder."""
    owner = path if "format" in new else path.parent / "run.json"
    before = {each: each.read_bytes() for each in (path, owner)}
    try:
        if owner != path:
            path.write_text(json.dumps(new))
            new = json.loads(owner.read_text())
            new["checksums"][path.name] = checksum(path.read_bytes())
        new.pop("checksum", None)
        write_header(owner, new.pop("format"), new.pop("version"), new)
        yield
    finally:
        for each, content in before.items():
            each.write_bytes(content)


@pytest.mark.parametrize("kind", [*READERS, "literals", "indexed", pytest.param("numbers", marks=pytest.mark.full)])
@pytest.mark.parametrize("count", [SOME, pytest.param(10**9, marks=pytest.mark.slow)])
def test_a_header_with_other_values_is_refused_or_read(request, tmp_path, kind, count):
    if kind == "indexed":
        pytest.importorskip("faiss", reason="needs the extra index")
    sound, folder = request.getfixturevalue("sized" if kind == "numbers" else "sound"), tmp_path / kind
    shutil.copytree(sound / kind, folder)
    tries = [
        (path, header, place, value)
        for path, header in headers(folder)
        for place in places(header)
        for value in VALUES
        if place[0] != "checksum"
    ]
    random.Random(0).shuffle(tries)
    refusals = 0
    assert not refused(ALL[kind], folder, "as it was")
    for path, header, place, value in tries[:count]:
        with forged(path, changed(header, place, value)):
            refusals += refused(ALL[kind], folder, f"{path.relative_to(folder)}: {value!r:.40} at {place}")
    print(f"\n{kind}: {len(tries[:count])} headers, {refusals} refused")
    assert refusals


def tables(chance: random.Random, table: pa.Table) -> Iterator[tuple[str, pa.Table]]:
    """Yields tables with a column of other types, other values, in another number, or none."""
    for name in table.column_names:
        place, rows = table.column_names.index(name), len(table)
        yield f"without {name}", table.drop_columns([name])
        for what, column in {
            "text": pa.array(["x"] * rows),
            "null": pa.nulls(rows, table[name].type),
            "floats": pa.array([float("nan")] * rows),
            "negative": pa.array([-1] * rows),
            "large": pa.array([2**62] * rows),
            "lists": pa.array([[1] * chance.randrange(3)] * rows),
            "bytes": pa.array([b"\xff"] * rows),
        }.items():
            yield f"{name}: {what}", table.set_column(place, name, column)
    yield "no rows", table.slice(0, 0)
    yield "many rows", pa.concat_tables([table] * 1_000)


@pytest.mark.full
@pytest.mark.parametrize(
    ("kind", "left_out"),
    [("graph", ()), ("literals", ()), ("ruled", ()), ("queries", ("train", "test")), pytest.param("queries", (), marks=pytest.mark.slow)],
)
def test_a_table_with_other_columns_is_refused_or_read(sound, tmp_path, kind, left_out):
    folder = tmp_path / kind
    shutil.copytree(sound / kind, folder)
    for split in left_out:
        shutil.rmtree(folder / split)
    chance, refusals, tries = random.Random(0), 0, 0
    assert not refused(ALL[kind], folder, "as it was")
    for path in sorted(folder.rglob("*.parquet")):
        content, header_path = path.read_bytes(), path.parent / "graph.json"
        header = header_path.read_bytes() if header_path.exists() else b""
        table = pq.read_table(path)
        sums = (CHECKSUMS, CHECKSUM)
        metadata = {key: value for key, value in (table.schema.metadata or {}).items() if key not in sums}  # as before there were any
        for what, other in tables(chance, table):
            tries += 1
            try:
                pq.write_table(other.replace_schema_metadata(metadata), path)
                if header:
                    fields = json.loads(header)
                    fields["checksums"][path.name] = checksum(path.read_bytes())
                    fields.pop("checksum")
                    write_header(header_path, fields.pop("format"), fields.pop("version"), fields)
                refusals += refused(ALL[kind], folder, f"{path.relative_to(folder)}: {what}")
            finally:
                path.write_bytes(content)
                if header:
                    header_path.write_bytes(header)
    print(f"\n{kind}: {tries} tables, {refusals} refused")
    assert refusals > tries / 2


@pytest.mark.full
@pytest.mark.parametrize("kind", ["run", "predictor"])
@pytest.mark.parametrize("name", ["weights.safetensors", "state.safetensors"])
def test_tensors_of_other_shapes_and_types_are_refused_or_read(sound, tmp_path, kind, name):
    folder = tmp_path / kind
    shutil.copytree(sound / kind, folder)
    path = folder / name
    with safe_open(path, "np") as file:
        metadata, tensors = dict(file.metadata() or {}), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
    sums = [key for key, value in metadata.items() if "checksum" in key or "crc" in value]
    save_file(tensors, path, {part: value for part, value in metadata.items() if part not in sums})
    assert not refused(ALL[kind], folder, "as it was")
    refusals, tries = 0, 0
    for key in list(tensors)[:12]:
        for what, other in {
            "cut": tensors[key].reshape(-1)[:1],
            "integers": np.zeros(tensors[key].shape, np.int64),
            "nan": np.full(tensors[key].shape, np.nan, np.float32),
            "larger": np.zeros((3, *tensors[key].shape), np.float32),
            "half": tensors[key].astype(np.float16),
            "none": None,
        }.items():
            tries += 1
            new = {**tensors, key: other}
            kept = {part: np.asarray(value, order="C") for part, value in new.items() if value is not None}
            save_file(kept, path, {part: value for part, value in metadata.items() if part not in sums})
            refusals += refused(ALL[kind], folder, f"{name}: {key} {what}")
    print(f"\n{kind} {name}: {tries} files, {refusals} refused")
    assert refusals


@pytest.mark.full
@pytest.mark.parametrize("tries", [150, pytest.param(2_000, marks=pytest.mark.slow)])
def test_an_index_with_other_bytes_and_the_right_checksum_is_refused_or_read(tmp_path, tries):
    """Sizes are at the beginning of the file and at the end of its lists: most changes are there."""
    pytest.importorskip("faiss", reason="needs the extra index")
    folder, chance, refusals = tmp_path / "indexed", random.Random(0), 0
    shutil.copytree(GOLDEN_INDEXED, folder)
    path, header_path = folder / "index" / LISTS, folder / "index" / HEADER
    content, header = path.read_bytes(), json.loads(header_path.read_text())
    for _ in range(tries):
        near = chance.choice((chance.randrange(300), len(content) - 8 - chance.randrange(2_500), chance.randrange(len(content) - 8)))
        number = chance.choice((0, 1, 2**20, 2**31 - 1, 2**33, 2**40, 2**63 - 1, 2**64 - 1, chance.getrandbits(64)))
        width = chance.choice((1, 4, 8))
        path.write_bytes(content[:near] + number.to_bytes(8, "little")[:width] + content[near + width :])
        with forged(header_path, {**header, "checksums": {LISTS: file_checksum(path)}}):
            refusals += refused(read_index, folder, f"{number} in {width} bytes at {near}")
    print(f"\nindex: {tries} files, {refusals} refused")
    assert tries / 10 < refusals < tries

"""Damaged and hostile files are imported, or refused with an error of ours; within 10 seconds of work and 1 GB each."""

import bz2
import gzip
import os
import random
import resource
import time
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pytest

from starqe.errors import StarqeError
from starqe.kg import FORMS, Changes, Graph, Statement, graph_of, import_graph, load_graph, save_graph, update_graph
from starqe.kg.reading.files import OPENERS
from starqe.kg.reading.import_options import Columns
from tests.damage import damaged, hostile
from tests.fuzz.sound import SOUND
from tests.kg.contents import contents

pytestmark = pytest.mark.slow

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())
TRIES = int(os.environ.get("STARQE_MUTATIONS", "150"))
"""Number of damaged and of hostile files for each form."""
SECONDS = 10.0
"""Processor time, which other work on the machine does not change."""
KILOBYTES = 10**6
"""How much the peak of the memory may grow."""
OLD = graph_of([Statement("urn:old:head", "urn:old:relation", "urn:old:tail")])
FEW = 1_000
"""Graphs with at most this many statements are also added to another one."""
COLUMNS = Columns("head", "relation", "tail", ("since",))
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda content: pa.compress(content, "zstd", asbytes=True),
}


def check_import(path: Path, what: str, form: str | None, place: Path, on_error: Literal["stop", "skip"] = "stop") -> bool:
    """Imports a file: says whether it is a graph; fails if it ends in another way, or takes too much."""
    began, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    graph = None
    try:
        graph, _ = import_graph(path, form, on_error=on_error, columns=COLUMNS if form == "table" else None)
        if len(graph) <= FEW:
            check_update(graph, place / "updated")
    except StarqeError:
        assert graph is None, "what was read can be added to a graph"
    except BaseException as error:
        error.add_note(f"{path.name} as {form}, on_error={on_error}: {what}")
        raise
    assert time.process_time() - began < SECONDS, what
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < KILOBYTES, what
    return graph is not None


def check_update(graph: Graph, folder: Path) -> None:
    """Adds what was read to a graph, which can be stored and read again, and takes it away again."""
    grown, _ = update_graph(OLD, Changes.of([graph]))
    save_graph(grown, folder, overwrite=True)
    found = load_graph(folder)
    assert (found.fingerprint, found.entities.labels) == (grown.fingerprint, grown.entities.labels)
    assert contents(update_graph(found, Changes.of([], [graph]))[0]) == contents(OLD)


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
@pytest.mark.parametrize("form", [None, *FORMS])
def test_a_kept_file_is_read_or_refused_in_every_form(path, form, tmp_path):
    check_import(path, "kept", form, tmp_path)


@pytest.mark.parametrize("form", SOUND)
@pytest.mark.parametrize("harm", [damaged, hostile])
def test_a_changed_file_is_read_or_refused(form, harm, tmp_path):
    chance = random.Random(f"{form} {harm.__name__}")
    for name, content in SOUND[form].items():
        (tmp_path / name).write_bytes(content)
        assert check_import(tmp_path / name, "sound", form, tmp_path)
    read = 0
    for _ in range(TRIES):
        name = chance.choice(list(SOUND[form]))
        what, harmed = harm(SOUND[form][name], chance)
        (tmp_path / name).write_bytes(harmed)
        read += check_import(tmp_path / name, what, chance.choice([form, None]), tmp_path, chance.choice(["stop", "skip"]))
    print(f"\n{form}: {TRIES} files {harm.__name__}, {read} read, {TRIES - read} refused")


@pytest.mark.parametrize("extension", OPENERS)
def test_a_damaged_compressed_file_is_read_or_refused(extension, tmp_path):
    chance = random.Random(extension)
    for _ in range(TRIES):
        form = chance.choice(list(SOUND))
        name = chance.choice(list(SOUND[form]))
        what, harmed = damaged(COMPRESS[extension](SOUND[form][name] * 20), chance)
        (tmp_path / (name + extension)).write_bytes(harmed)
        check_import(tmp_path / (name + extension), what, form, tmp_path)


@pytest.mark.parametrize(("form", "extension"), list(zip(SOUND, cycle(OPENERS), strict=False)))
def test_a_small_file_that_expands_to_a_huge_one_is_read_or_refused(form, extension, tmp_path):
    """Copies of a line, of a line end and of nothing, 1 GB each: in parts, which the formats allow, since compressing takes long."""
    name, content = next((name, content) for name, content in SOUND[form].items() if not name.endswith(".parquet"))
    for part in (b"\n", b"\0", content[: content.find(b"\n") + 1] or content):
        packed = COMPRESS[extension](part * (2**24 // len(part)))
        (tmp_path / (name + extension)).write_bytes(COMPRESS[extension](content) + packed * 64)
        assert not check_import(tmp_path / (name + extension), f"1 GB of {part[:20]!r}", form, tmp_path)

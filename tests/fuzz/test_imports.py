"""Damaged and hostile files are imported, or refused with an error of ours; within 10 seconds of work and 1 GB each."""

import random
import resource
import time
from pathlib import Path

import pytest

from starqe.errors import StarqeError
from starqe.kg import FORMS, embedded_graph, export_graph, import_graph
from tests.damage import damaged

pytestmark = pytest.mark.slow

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())
TRIES = 40
SECONDS = 10.0
"""Processor time, which other work on the machine does not change."""
KILOBYTES = 10**6
"""How much the peak of the memory may grow."""


def bring(path: Path, what: str, form: str | None = None) -> None:
    began, peak = time.process_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        import_graph(path, form)
    except StarqeError:
        pass
    except BaseException as error:
        error.add_note(f"{path.name} as {form}: {what}")
        raise
    assert time.process_time() - began < SECONDS, what
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < KILOBYTES, what


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.name)
@pytest.mark.parametrize("form", [None, *FORMS])
def test_a_kept_file_is_read_or_refused_in_every_form(path, form):
    bring(path, "kept", form)


@pytest.mark.parametrize("form", [name for name, form in FORMS.items() if form.write])
def test_damaged_files_are_read_or_refused(form, tmp_path):
    try:
        written = export_graph(embedded_graph(), tmp_path / "sound", form)
    except StarqeError as error:
        pytest.skip(str(error))
    chance = random.Random(form)
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    assert files, written
    for number in range(TRIES):
        path = files[number % len(files)]
        content = path.read_bytes()[:20_000]
        what, harmed = damaged(content, chance)
        place = tmp_path / f"damaged{path.suffix}"
        place.write_bytes(harmed)
        bring(place, what, form)

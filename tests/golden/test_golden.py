"""Folders that earlier versions wrote are read, or refused with the way to renew them."""

import json
import re
from pathlib import Path

import pytest

from starqe.errors import StorageError
from tests.golden.read import READERS
from tests.places import ROOT

GOLDEN = sorted(path for path in Path(__file__).parent.iterdir() if (path / "expected.json").exists())


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize("version", GOLDEN, ids=lambda path: path.name)
def test_a_golden_folder_is_read_or_refused_with_the_way_to_renew_it(version, kind):
    expected = json.loads((version / "expected.json").read_text())[kind]
    try:
        found = json.loads(json.dumps(READERS[kind](version / kind)))
    except StorageError as error:
        if not re.search("again|anew|starqe calibrate", str(error)):
            raise
        return
    assert found == expected


def test_this_version_reads_what_this_version_writes():
    newest = GOLDEN[-1]
    expected = json.loads((newest / "expected.json").read_text())
    assert {kind: json.loads(json.dumps(read(newest / kind))) for kind, read in READERS.items()} == expected


def test_the_documentation_lists_every_format_with_its_version():
    text = (ROOT / "docs" / "reliability.md").read_text()
    named = dict(re.findall(r"^\| .+? \| `(starqe [a-z ]+)` \| (\d+) \|$", text, re.MULTILINE))
    found = {}
    for path in sorted((ROOT / "src").rglob("*.py")):
        found |= dict(re.findall(r'^FORMAT, VERSION = "(starqe [a-z ]+)", (\d+)$', path.read_text(), re.MULTILINE))
    assert named == found

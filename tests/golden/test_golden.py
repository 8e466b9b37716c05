"""Folders that earlier versions wrote are read, or refused with the way to renew them."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from starqe.ask import Answerer
from starqe.errors import MismatchError, StorageError
from starqe.kg import Statement, load_graph
from starqe.kg.literal import DATE_TIME, DECIMAL, LANGUAGE_STRING, YEAR, Literal
from starqe.learn import Run
from starqe.measure.index.nearest import Measured
from starqe.measure.retrieval import retrieve
from starqe.queries import SHAPES, sample
from tests.golden.read import READERS
from tests.places import ROOT

LITERALS = [
    Statement("a", "born", Literal("1949-01-01T00:00:00Z", DATE_TIME, precision=9), (("said", Literal("oui", LANGUAGE_STRING, "fr")),)),
    Statement("a", "weighs", Literal("+5", DECIMAL, unit="Q11573", lower="+4", upper="+6")),
    Statement("b", "knows", "a", (("since", Literal("1921", YEAR)),)),
]
"""What ``save_graph(graph_of(LITERALS[:2], [], LITERALS[2:]), …)`` wrote."""
INDEXED = Path(__file__).parent / "indexed"
"""An untrained encoder of width 8 for ``write_world(World(1_000, 2), …)``, and what ``build_indexes`` wrote."""
GOLDEN = sorted(path for path in Path(__file__).parent.iterdir() if (path / "expected.json").exists())


KINDS = [(version, kind) for version in GOLDEN for kind in json.loads((version / "expected.json").read_text())]


@pytest.mark.parametrize(("version", "kind"), KINDS, ids=[f"{version.name}-{kind}" for version, kind in KINDS])
def test_a_golden_folder_is_read_or_refused_with_the_way_to_renew_it(version, kind):
    expected = json.loads((version / "expected.json").read_text())[kind]
    try:
        found = json.loads(json.dumps(READERS[kind](version / kind)))
    except (StorageError, MismatchError) as error:
        if not re.search("again|anew|starqe calibrate|another folder", str(error)):
            raise
        return
    assert found == expected


def test_this_version_reads_what_this_version_writes():
    newest = GOLDEN[-1]
    expected = json.loads((newest / "expected.json").read_text())
    assert {kind: json.loads(json.dumps(read(newest / kind))) for kind, read in READERS.items()} == expected


BUILT_AGAIN = {"starqe facts"}
"""Formats of what another version builds again from the graph."""


def test_there_is_a_golden_one_of_every_format():
    folders = (GOLDEN[-1], INDEXED)
    written = "\n".join(path.read_bytes().decode("latin-1") for folder in folders for path in folder.rglob("*") if path.is_file())
    assert {name for name in formats() if f'"{name}"' not in written.replace("\\", "")} == BUILT_AGAIN


def test_a_golden_graph_with_literals_is_read():
    graph = load_graph(Path(__file__).parent / "literals")
    assert [*graph.statements("train", "valid", "test")] == LITERALS


def test_a_golden_run_that_predicts_numbers_is_read():
    """What ``tests.reason.sized_town.sized_run`` wrote, without locks and metrics."""
    answerer = Answerer.open(Path(__file__).parent / "numbers", splits=["train"])
    (predicted,) = answerer.ask("SELECT ?s { e:p0 r:size ?s }")
    (known,) = answerer.ask("SELECT ?s { e:p60 r:size ?s }")
    answerer.close()
    found = [float(text) for text in (predicted.bindings["s"].value, *predicted.bindings["s"].interval)]
    assert found == pytest.approx([2444, 3, 5019], abs=5)
    assert (known.known, known.entity) == (True, "10")


@pytest.mark.parametrize(
    ("folder", "measured"),
    [
        (INDEXED, Measured(1000, 126, 56, 209, 0.9668899521531101, 2.659216068227023e-07, 0.0)),
        (INDEXED.with_name("indexed-1"), Measured(1000, 128, 40, 209, 0.9698086124401913, 2.659216068227023e-07, 0.0)),
    ],
    ids=["this version", "version 1"],
)
def test_a_golden_index_is_read(folder, measured):
    pytest.importorskip("faiss", reason="needs the extra index")
    run = Run.open(folder)
    scorer = run.scorer()
    assert scorer.index is not None
    assert scorer.index.measured == measured
    part = (sample(run.graph, SHAPES["1p"], 20, "valid", [(0, 1)]), np.arange(20))
    found, true = scorer.best([part], 10), retrieve(scorer.blocks([part]), 20, 10)
    assert np.mean([np.isin(one, other).mean() for one, other in zip(true.ids, found.ids, strict=True)]) > 0.9


def formats() -> dict[str, str]:
    """Finds the formats of this version in the source, with their numbers."""
    texts = "\n".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py")))
    return dict(re.findall(r'^FORMAT, VERSION = "(starqe [a-z ]+)", (\d+)$', texts, re.MULTILINE))


def test_the_documentation_lists_every_format_with_its_version():
    text = (ROOT / "docs" / "reliability.md").read_text()
    assert dict(re.findall(r"^\| .+? \| `(starqe [a-z ]+)` \| (\d+) \|$", text, re.MULTILINE)) == formats()

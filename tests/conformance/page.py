"""The page docs/conformance.md, written from the outcomes of all tests."""

from collections import Counter
from collections.abc import Mapping, Sequence

from tests.conformance.manifest import W3cTest
from tests.conformance.outcome import FAILED, NOT_OURS, PASSED, REFUSED, Outcome
from tests.places import ROOT

PAGE = ROOT / "docs" / "conformance.md"
Outcomes = Mapping[str, Sequence[tuple[W3cTest, Outcome]]]

_BEGIN = """# Conformance

The test suites of the W3C, run with starqe. This page is written by `python -m tests.conformance` and checked by
`test_the_page_says_what_the_suites_give`; the suites are [w3c/rdf-tests](https://github.com/w3c/rdf-tests), in the folder `w3c` of the
folder that `STARQE_DATA` names.

What "passed" means:

- **RDF syntax**: starqe's readers accept or reject the file, as the manifest says.
- **RDF evaluation**: the reader's quads are those of the expected file, and the import makes the same statements from both. A graph of
  statements has no place for some of what RDF can say (such as triple terms elsewhere than after `rdf:reifies`): there the
  quads are compared, and that both imports leave out the same.
- **Canonical N-Triples and N-Quads** (`c14n`): what `/sparql` writes is the expected text, byte by byte. Results have no named graphs, so
  these are left out of the comparison.
- **RDF semantics**: simple entailment, asked as a query.
- **SPARQL syntax**: the text is answered or rejected as the manifest says, by starqe's reader or by the store of known facts.
- **SPARQL evaluation**: the store of known facts, loaded with the test's data, gives the expected rows, truth or graph, in the form of the
  expected file (JSON, XML, CSV, TSV, Turtle). Numbers are compared by value. Where the data is a graph of statements, a service over it is
  asked too, so that the reader answers what it takes.
- **Protocol**: each request is sent to a running service.

"Refused" is answered with an error that names what is refused; only entailment beyond simple entailment is not run at all. "Failed" gives
another result than expected.

"""


def write_page(outcomes: Outcomes) -> str:
    """Returns the text of the page."""
    lines = ["| folder | tests | passed | refused | failed |", "| --- | --: | --: | --: | --: |"]
    total: Counter[str] = Counter()
    for folder, found in outcomes.items():
        states = Counter(outcome.state for _, outcome in found)
        total += states
        lines.append(_line(f"`{folder}`", states))
    lines.append(_line("all", total))
    return _BEGIN + "\n".join([*lines, "", *_refused(outcomes), "", *_failed(outcomes)]) + "\n"


def _line(name: str, states: Counter[str]) -> str:
    return f"| {name} | {states.total()} | {states[PASSED]} | {states[REFUSED]} | {states[FAILED]} |"


def _refused(outcomes: Outcomes) -> list[str]:
    by_reason: dict[str, list[W3cTest]] = {}
    for test, outcome in (pair for found in outcomes.values() for pair in found):
        if outcome.state == REFUSED:
            by_reason.setdefault(outcome.reason, []).append(test)
    lines = ["## Refused by name", "", "| what is refused, and why | tests | which |", "| --- | --: | --- |"]
    for reason, tests in sorted(by_reason.items()):
        names: dict[str, list[str]] = {}
        for test in tests:
            names.setdefault(test.manifest.folder.rpartition("/")[2], []).append(test.name)
        shown = "; ".join(f"{folder}: {', '.join(of_folder)}" for folder, of_folder in names.items())
        lines.append(f"| {reason} | {len(tests)} | {shown} |")
    return lines


def _failed(outcomes: Outcomes) -> list[str]:
    tests = [str(test) for found in outcomes.values() for test, outcome in found if outcome.state == FAILED]
    lines = ["## Failed", "", "All of these are results of Oxigraph, which parses RDF and answers what is not predicted:", ""]
    return [*lines, *(f"- `{test}`: {NOT_OURS.get(test, 'not explained')}" for test in tests)]

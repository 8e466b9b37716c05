"""Speed of imports."""

import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import orjson
from pyoxigraph import NamedNode, RdfFormat, Store, Triple, parse, serialize

from starqe.bench.measured import Measured, machine, measured
from starqe.bench.wikidata_dump import write_wikidata_dump
from starqe.kg import Graph, export_graph, import_graph, save_graph
from starqe.kg.iris import OBJECT, PREDICATE, SUBJECT
from starqe.seed import generator


def write_random_statements(path: Path, statements: int, seed: int) -> None:
    """Writes a statement file, half of it with one to three qualifier pairs, over entities with a long tail."""
    random = generator(seed, "bench import")
    entities = max(10, statements // 5)
    with path.open("w", encoding="utf-8") as file:
        for start in range(0, statements, 50_000):
            count = min(50_000, statements - start)
            ids = (random.random((count, 5)) ** 3 * entities).astype(np.int64)
            relations = random.integers(0, 500, (count, 4))
            pairs = np.where(random.random(count) < 0.5, random.integers(1, 4, count), 0)
            for e, r, n in zip(ids.tolist(), relations.tolist(), pairs.tolist(), strict=True):
                extra = "".join(f",P{r[i + 1]},Q{e[i + 2]}" for i in range(n))
                file.write(f"Q{e[0]},P{r[0]},Q{e[1]}{extra}\n")


def bench_import(statements: int = 1_000_000, seed: int = 0) -> dict[str, Any]:
    """Measures the import of a generated file, compared with reading its lines with DuckDB."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "statements.txt"
        write_random_statements(source, statements, seed)
        with measured() as reading:
            options = "columns = {'line': 'VARCHAR'}, delim = '\x01', quote = '', header = false"
            lines = duckdb.sql(f"SELECT count(*), sum(length(line)) FROM read_csv('{source}', {options})").fetchall()[0][0]
        with measured() as importing:
            graph, report = import_graph(source)
            save_graph(graph, Path(folder) / "graph")
        return {
            "statements": lines,
            "distinct_statements": len(graph),
            "duplicates": report.duplicates,
            "file_mb": round(source.stat().st_size / 1e6, 1),
            "import_seconds": round(importing.seconds, 2),
            "statements_per_second": round(lines / importing.seconds),
            "peak_mb": round(importing.peak_mb),
            "growth_mb": round(importing.growth_mb),
            "duckdb_read_seconds": round(reading.seconds, 3),
            "ratio_to_reading": round(importing.seconds / reading.seconds, 1),
            "seed": seed,
            **machine(),
        }


RDF_FILES = {
    "turtle": ("rdf/train.ttl", RdfFormat.TURTLE),
    "trig": ("rdf.trig", RdfFormat.TRIG),
    "ntriples": ("rdf/train.nt", RdfFormat.N_TRIPLES),
    "nquads": ("rdf.nq", RdfFormat.N_QUADS),
    "rdfxml": ("rdf.rdf", RdfFormat.RDF_XML),
    "jsonld": ("rdf.jsonld", RdfFormat.JSON_LD),
}
"""The RDF forms that are measured: the file of an export (the last two: what Oxigraph makes of N-Triples), and its syntax."""
ROUNDS = 3
"""How often the parser, the loader and the import of RDF are measured, in turns; the fastest run of each counts."""


def _write_rdf(graph: Graph, folder: Path, form: str) -> Path:
    """Writes a graph in a form of RDF; returns the file."""
    name, syntax = RDF_FILES[form]
    source = folder / name
    if syntax not in (RdfFormat.RDF_XML, RdfFormat.JSON_LD):
        export_graph(graph, source if source.parent == folder else source.parent, form)
        return source
    export_graph(graph, folder / "lines", "ntriples")
    triples = (quad.triple for quad in parse(path=folder / "lines" / "train.nt", format=RdfFormat.N_TRIPLES))
    serialize(triples if syntax == RdfFormat.RDF_XML else _without_triple_terms(triples), source, syntax)
    return source


def _without_triple_terms(triples: Iterable[Triple]) -> Iterator[Triple]:
    """Replaces reifications by standard ones: JSON-LD has no triple terms."""
    for triple in triples:
        reified = triple.object
        if isinstance(reified, Triple):
            yield Triple(triple.subject, NamedNode(SUBJECT), reified.subject)
            yield Triple(triple.subject, NamedNode(PREDICATE), reified.predicate)
            yield Triple(triple.subject, NamedNode(OBJECT), reified.object)
        else:
            yield triple


def bench_import_rdf(statements: int = 1_000_000, seed: int = 0, form: str = "ntriples") -> dict[str, Any]:
    """Measures the import of a generated RDF file, compared with Oxigraph: its parser, and its loader of a store in memory.

    All are given in processor time, the fastest of three runs in turns. The parser alone makes Python objects of the triples, which
    nobody looks at; the loader makes none, and stores the triples. The import ends with a graph.
    """
    syntax = RDF_FILES[form][1]
    with tempfile.TemporaryDirectory() as folder:
        write_random_statements(Path(folder) / "statements.txt", statements, seed)
        source = _write_rdf(import_graph(Path(folder) / "statements.txt")[0], Path(folder), form)
        runs: dict[str, list[Measured]] = {"parsing": [], "loading": [], "importing": []}
        for _ in range(ROUNDS):
            with measured() as importing:
                graph, _ = import_graph(source)
            with measured() as parsing:
                triples = sum(1 for _ in parse(path=source, format=syntax))
            with measured() as loading:
                Store().bulk_load(path=source, format=syntax)
            for times, run in zip(runs.values(), (parsing, loading, importing), strict=True):
                times.append(run)
        parser, loader, own = (min(run.cpu_seconds for run in times) for times in runs.values())
        return {
            "triples": triples,
            "statements_in_graph": len(graph),
            "file_mb": round(source.stat().st_size / 1e6, 1),
            "rounds": ROUNDS,
            "triples_per_core_second": round(triples / own),
            "parser_triples_per_core_second": round(triples / parser),
            "loader_triples_per_core_second": round(triples / loader),
            "share_of_parser_speed": round(parser / own, 3),
            "share_of_loader_speed": round(loader / own, 3),
            "import_seconds": round(min(run.seconds for run in runs["importing"]), 2),
            "peak_mb": round(runs["importing"][0].peak_mb),  # before the first store, whose memory the process keeps
            "growth_mb": round(runs["importing"][0].growth_mb),
            "seed": seed,
            **machine(),
        }


def bench_import_wikidata(statements: int = 1_000_000, seed: int = 0) -> dict[str, Any]:
    """Measures the import of a generated Wikidata dump, compared with reading its lines and parsing them with orjson.

    Both are also given in processor time, since reading is the work of one core: statements per second and core.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "dump.json"
        write_wikidata_dump(source, statements, seed)
        start = time.process_time()
        with measured() as parsing, source.open("rb") as file:
            records = sum(orjson.loads(line.rstrip(b",\n")) is not None for line in file if len(line) > len("[,\n"))
        parsing_cpu = time.process_time() - start
        start = time.process_time()
        with measured() as importing:
            graph, _ = import_graph(source)
        importing_cpu = time.process_time() - start
        return {
            "statements": statements,
            "records": records,
            "statements_in_graph": len(graph),
            "literals": len(graph.literals),
            "file_mb": round(source.stat().st_size / 1e6, 1),
            "import_seconds": round(importing.seconds, 2),
            "statements_per_second": round(statements / importing.seconds),
            "statements_per_core_second": round(statements / importing_cpu),
            "peak_mb": round(importing.peak_mb),
            "growth_mb": round(importing.growth_mb),
            "orjson_seconds": round(parsing.seconds, 2),
            "orjson_statements_per_core_second": round(statements / parsing_cpu),
            "ratio_to_orjson": round(importing_cpu / parsing_cpu, 1),
            "seed": seed,
            **machine(),
        }

"""RDF documents from text, read as one import reads them."""

import io

from pyoxigraph import RdfFormat

from starqe.kg.iris import Names
from starqe.kg.rdf.read import RdfReader
from starqe.kg.reading.import_task import ImportTask
from starqe.kg.reading.report import Report

SYNTAX = {
    "turtle": RdfFormat.TURTLE,
    "trig": RdfFormat.TRIG,
    "ntriples": RdfFormat.N_TRIPLES,
    "nquads": RdfFormat.N_QUADS,
    "reification": RdfFormat.N_QUADS,
    "rdfxml": RdfFormat.RDF_XML,
    "jsonld": RdfFormat.JSON_LD,
    "n3": RdfFormat.N3,
}


def read_document(
    text: str | bytes,
    form: str,
    names: Names,
    report: Report | None = None,
    split: str = "train",
    unasserted="leave",
    literals="drop",
    **options: object,
) -> ImportTask:
    """Reads one document, and returns the finished import."""
    task = ImportTask(report=report or Report(), names=names, unasserted=unasserted, literals=literals, **options)  # type: ignore[arg-type]
    stream = io.BytesIO(text if isinstance(text, bytes) else text.encode())
    task.shared(RdfReader).read(stream, f"file.{form}", SYNTAX[form], split, form == "reification")
    task.finish()
    return task

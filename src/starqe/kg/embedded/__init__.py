"""The embedded graph: facts from the history of science, for the demo and for tests."""

from dataclasses import replace
from importlib import resources

from pyoxigraph import RdfFormat

from starqe.kg.graph import Graph
from starqe.kg.iris import Names
from starqe.kg.rdf.read import RdfReader
from starqe.kg.reading.import_task import ImportTask

NAMES = Names("https://starqe.example/science/", "https://starqe.example/science/relation/")


def embedded_graph() -> Graph:
    """Reads the embedded graph, with its splits and labels."""
    task = ImportTask(names=NAMES)
    with resources.files(__package__).joinpath("science.trig").open("rb") as file:
        task.shared(RdfReader).read(file, "science.trig", RdfFormat.TRIG)
    task.finish()
    return replace(task.draft.finish(NAMES), title="History of science")

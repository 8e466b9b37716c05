"""The embedded graph: facts from the history of science, to start with and to test with."""

from importlib import resources

from starqe.kg.draft import Draft
from starqe.kg.graph import Graph
from starqe.kg.names import Names
from starqe.kg.rdf_in import read_rdf
from starqe.kg.report import Report

NAMES = Names("https://starqe.example/science/", "https://starqe.example/science/relation/")


def embedded_graph() -> Graph:
    """Reads the embedded graph, with its splits and labels."""
    draft, report = Draft(), Report()
    with resources.files(__package__).joinpath("science.trig").open("rb") as file:
        read_rdf(file, "science.trig", "trig", draft, report, NAMES)
    return draft.finish(NAMES)

"""Graphs: files, statements, and look-ups that name their splits. Never imports torch."""

from starqe.kg.draft import Draft, graph_of, with_split
from starqe.kg.embedded import embedded_graph
from starqe.kg.exchange import FORMS, export_graph, import_graph
from starqe.kg.formats.tables import graph_of_table
from starqe.kg.graph import Graph
from starqe.kg.graph_folder import load_graph, save_graph
from starqe.kg.iris import Names
from starqe.kg.known import Known
from starqe.kg.reading.import_options import Columns, WikidataOptions
from starqe.kg.reading.report import Report
from starqe.kg.split import SplitFindings, check_split, hold_out_validation, transductive_split
from starqe.kg.statement import SPLITS, Statement
from starqe.kg.stats import graph_stats
from starqe.kg.update import Changes, UpdateReport, diff_graphs, update_graph
from starqe.kg.vocabulary import Vocabulary

__all__ = [
    "FORMS",
    "SPLITS",
    "Changes",
    "Columns",
    "Draft",
    "Graph",
    "Known",
    "Names",
    "Report",
    "SplitFindings",
    "Statement",
    "UpdateReport",
    "Vocabulary",
    "WikidataOptions",
    "check_split",
    "diff_graphs",
    "embedded_graph",
    "export_graph",
    "graph_of",
    "graph_of_table",
    "graph_stats",
    "hold_out_validation",
    "import_graph",
    "load_graph",
    "save_graph",
    "transductive_split",
    "update_graph",
    "with_split",
]

"""Ask an incomplete knowledge graph: query embedding on hyper-relational knowledge graphs."""

__version__ = "0.1.0"

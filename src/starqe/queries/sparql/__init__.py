"""SPARQL in and out: from text to a query over one graph, and back."""

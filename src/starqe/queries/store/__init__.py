"""Any SPARQL over known facts: an Oxigraph store in a process of its own, in memory or on disk."""

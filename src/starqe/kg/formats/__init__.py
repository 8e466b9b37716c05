"""File formats other than RDF that graphs are read from and written to."""

"""An approximate index of the entities: the best ones of a query without comparing it with all."""

"""The executor: plans a query and computes its truth edge by edge, by fuzzy logic."""

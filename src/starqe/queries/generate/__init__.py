"""Query sets: every query of a shape, or a random sample, found by an engine."""

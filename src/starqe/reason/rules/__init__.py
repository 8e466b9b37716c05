"""Rules: patterns of known statements that make others likely, mined from a graph."""

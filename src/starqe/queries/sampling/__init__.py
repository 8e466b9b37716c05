"""Query sets sampled by the rules of published benchmarks."""

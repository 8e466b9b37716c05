"""Cost against size: a synthetic world, and the steps from import to asking on it."""

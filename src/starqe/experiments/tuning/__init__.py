"""The search of hyper-parameters."""

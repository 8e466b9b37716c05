"""The one-hop predictor: models of single facts, their training, and calibrated probabilities."""

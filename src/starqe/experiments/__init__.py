"""How the paper is reproduced: each table a function, each row a preset."""

from starqe.experiments.held_out import FrequencyScorer, held_out_table
from starqe.experiments.oracle import oracle_table

TABLES = {"oracle": oracle_table}
"""The paper's tables that can be computed, by the name on the command line."""

__all__ = ["TABLES", "FrequencyScorer", "held_out_table", "oracle_table"]

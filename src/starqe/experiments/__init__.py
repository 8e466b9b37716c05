"""Reproduces the paper: each table is a function, each row a regime."""

from starqe.experiments.held_out import held_out_table
from starqe.experiments.impact import impacts
from starqe.experiments.regimes import REGIMES, ROWS, regime_recipe
from starqe.experiments.reproduce import TABLES, reproduce
from starqe.experiments.table_report import Report
from starqe.experiments.work_folder import Settings, WorkFolder, open_work

__all__ = [
    "REGIMES",
    "ROWS",
    "TABLES",
    "Report",
    "Settings",
    "WorkFolder",
    "held_out_table",
    "impacts",
    "open_work",
    "regime_recipe",
    "reproduce",
]

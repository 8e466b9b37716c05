"""Compares measurements with those of an earlier run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from starqe.errors import InputError

IDENTITY = ("shape", "beam", "every", "by", "load", "work", "similarity", "loss", "threads", "statements", "records")
"""What two measurements must have in common to be compared, as far as both say it."""
COMPARED = (
    "queries_per_second",
    "answered_per_second",
    "statements_per_second",
    "share_of_bound",
    "cpu_share",
    "predictions",
    "mrr",
    "cpu_ms",
    "p50_ms",
    "p99_ms",
    "product_gflops",
    "copy_gb_per_second",
)
"""What is compared."""


def with_ratios(rows: Sequence[Mapping[str, Any]], previous: Path) -> list[dict[str, Any]]:
    """Adds the ratios to an earlier measurement: ``p50_ms_ratio`` is now divided by then. Rows without a counterpart get none.

    Args:
        rows: The measurements of now.
        previous: What ``starqe bench … --json`` printed then.

    Raises:
        InputError: The file is missing, or not the output of a benchmark.
    """
    try:
        earlier = json.loads(previous.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{previous} is what 'starqe bench … --json' printed, found: {error}. Measure it again") from None
    earlier = [earlier] if isinstance(earlier, dict) else earlier
    if not isinstance(earlier, list) or not all(isinstance(row, dict) for row in earlier):
        raise InputError(f"{previous} is what 'starqe bench … --json' printed, found other JSON. Measure it again")
    found = []
    for row in rows:
        same: Mapping[str, Any] = next(
            (other for other in earlier if all(row[key] == other[key] for key in IDENTITY if key in row and key in other)), {}
        )
        numbers = [name for name in COMPARED if row.get(name) is not None and same.get(name)]
        found.append({**row, **{f"{name}_ratio": round(row[name] / same[name], 3) for name in numbers}})
    return found

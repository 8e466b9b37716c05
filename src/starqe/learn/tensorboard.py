"""Metrics for TensorBoard; an extra."""

from pathlib import Path
from typing import Any

from starqe.errors import MissingExtraError


def writer(folder: Path) -> Any:
    """Opens a writer of TensorBoard's files.

    Raises:
        MissingExtraError: TensorBoard is not installed.
    """
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise MissingExtraError("tensorboard", "tensorboard", "logging to TensorBoard") from None
    return SummaryWriter(str(folder))


def log(to: Any, line: dict[str, Any]) -> None:
    """Writes the numbers of one report."""
    for name in ("loss_per_query", "learning_rate", "queries_per_second", "validation_mrr"):
        if line.get(name) is not None:
            to.add_scalar(name, line[name], line["step"])
    for shape, value in (line.get("validation") or {}).items():
        to.add_scalar(f"validation_mrr/{shape}", value, line["step"])

"""Checks before work begins that it fits into memory."""

from collections.abc import Iterator
from pathlib import Path

import psutil

from starqe.errors import InputError

GROUPS, OWN_GROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")
"""Where Linux keeps the limits of containers and services, and says which of them hold for this process."""


def free_memory() -> int:
    """Returns the bytes that this process can still take: free on this machine, and within the limits of its container or service."""
    return max(0, min(int(psutil.virtual_memory().available), *_left_in_groups(), 2**63))


def _left_in_groups() -> Iterator[int]:
    """Yields what every group of this process has left, if it has a limit; the files that a group has read are no loss."""
    lines = OWN_GROUPS.read_text().splitlines() if OWN_GROUPS.exists() else []
    for _, controllers, path in (line.split(":", 2) for line in lines):
        if not controllers:  # version 2
            folder, names, read = GROUPS, ("memory.max", "memory.current"), "inactive_file "
        elif "memory" in controllers.split(","):
            folder, names, read = GROUPS / "memory", ("memory.limit_in_bytes", "memory.usage_in_bytes"), "total_inactive_file "
        else:
            continue
        own = folder / path.lstrip("/")
        for group in (own, *own.parents):
            if not group.is_relative_to(folder):
                break
            try:
                most, used = (int((group / name).read_text()) for name in names)  # without a limit: "max"
                stat = (group / "memory.stat").read_text().splitlines()
            except (OSError, ValueError):
                continue
            yield most - used + sum(int(line.removeprefix(read)) for line in stat if line.startswith(read))


def check_memory(needed: int, limit: int | None, work: str, smaller: str) -> None:
    """Checks that work fits into memory.

    Args:
        needed: The bytes that it takes, in addition to what the process uses now.
        limit: The total bytes that the process may use; None: what it uses now and what is free for it.
        work: The name of the work, such as "training".
        smaller: What would take less, for the message.

    Raises:
        InputError: It does not fit.
    """
    has = psutil.Process().memory_info().rss
    free = free_memory() if limit is None else max(0, limit - has)
    if needed > free:
        place = "of this machine's memory" if limit is None else "of the memory limit"
        raise InputError(
            f"{work} needs about {needed / 1e6:,.0f} MB more than the {has / 1e6:,.0f} MB that starqe has, and {free / 1e6:,.0f} MB "
            f"{place} are free. Take a machine with more memory, or {smaller}; the option memory sets another limit"
        )

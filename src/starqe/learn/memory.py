"""Whether work fits into memory: compared before it begins."""

import psutil

from starqe.errors import InputError


def check_memory(needed: int, limit: int | None, work: str, smaller: str) -> None:
    """Makes sure that work fits into memory.

    Args:
        needed: The bytes that it takes, beyond what the process has now.
        limit: The bytes that the process may take in all; None: what it has, and what is free on this machine.
        work: What it is, such as "training".
        smaller: What would take less.

    Raises:
        InputError: It does not fit.
    """
    has = psutil.Process().memory_info().rss
    free = psutil.virtual_memory().available if limit is None else max(0, limit - has)
    if needed > free:
        place = "of this machine's memory" if limit is None else "of --memory"
        raise InputError(
            f"{work} needs about {needed / 1e6:,.0f} MB more than the {has / 1e6:,.0f} MB that starqe has, and {free / 1e6:,.0f} MB "
            f"{place} are free. Take a machine with more memory, or {smaller}; --memory sets another limit"
        )

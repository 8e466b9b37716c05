"""Checks before work begins that it fits into memory."""

import psutil

from starqe.errors import InputError


def check_memory(needed: int, limit: int | None, work: str, smaller: str) -> None:
    """Checks that work fits into memory.

    Args:
        needed: The bytes that it takes, in addition to what the process uses now.
        limit: The total bytes that the process may use; None: what it uses now and what is free on this machine.
        work: The name of the work, such as "training".
        smaller: What would take less, for the message.

    Raises:
        InputError: It does not fit.
    """
    has = psutil.Process().memory_info().rss
    free = psutil.virtual_memory().available if limit is None else max(0, limit - has)
    if needed > free:
        place = "of this machine's memory" if limit is None else "of the memory limit"
        raise InputError(
            f"{work} needs about {needed / 1e6:,.0f} MB more than the {has / 1e6:,.0f} MB that starqe has, and {free / 1e6:,.0f} MB "
            f"{place} are free. Take a machine with more memory, or {smaller}; the option memory sets another limit"
        )

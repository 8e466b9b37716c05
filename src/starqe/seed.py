"""One seed, and one named random stream per purpose.

Two purposes never share a stream, so adding a draw in one place changes nothing in another. The library
never seeds a global generator.
"""

import hashlib

import numpy as np


def derive(seed: int, purpose: str) -> int:
    """Returns the 63-bit seed of one purpose, for generators other than NumPy's."""
    digest = hashlib.sha256(f"{seed}/{purpose}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def generator(seed: int, purpose: str) -> np.random.Generator:
    """Returns the random stream of one purpose: ``generator(0, "epoch order")``."""
    return np.random.default_rng(derive(seed, purpose))

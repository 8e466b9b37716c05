"""Damage as disks do it: bits flipped, ends cut off, blocks of zeros, at places that a seed decides."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from starqe.errors import StarqeError


def damaged(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Returns what was done to a file, and what it holds then."""
    place = chance.randrange(len(content))
    match chance.choice(("flip", "cut", "zero", "noise")):
        case "flip":
            return f"bit flipped at {place}", content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1 :]
        case "cut":
            return f"cut at {place}", content[:place]
        case "zero":
            length = min(chance.choice((1, 16, 512)), len(content) - place)
            return f"{length} zeros at {place}", content[:place] + bytes(length) + content[place + length :]
        case _:
            return f"another byte at {place}", content[:place] + chance.randbytes(1) + content[place + 1 :]


def silent_changes(folder: Path, read: Callable[[], Any], tries: int, seed: int = 0) -> Iterator[str]:
    """Damages one file of a folder at a time, reads the folder, and yields every damage that passes as another content.

    Anything but an error of ours is raised, with a note of what was done.
    """
    chance, sound = random.Random(seed), read()
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    for number in range(tries):
        path = files[number % len(files)]
        content = path.read_bytes()
        what, harmed = damaged(content, chance)
        path.write_bytes(harmed)
        try:
            if read() != sound:
                yield f"{path.relative_to(folder)}: {what}"
        except StarqeError:
            pass
        except BaseException as error:
            error.add_note(f"{path.relative_to(folder)}: {what}")
            raise
        finally:
            path.write_bytes(content)

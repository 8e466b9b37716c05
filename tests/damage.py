"""Damage as disks do it (bits flipped, ends cut off, blocks of zeros) and as attackers do it, at places that a seed decides."""

import random
import re
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


_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\w.:+-]+|[^\s]')
_DEEP = (b"[", b'{"a":', b"<a>", b"<<( ", b"( ", b"[ <urn:p> ", b'"', b"{| ")
_NUMBERS = (b"9" * 5_000, b"1e999", b"-1", b"99999999999999999999", b"NaN", b"0x7fffffff", b"-0", b"1e-400", b"+9999999999-00-00T00:00:00Z")
_VALUES = (b"null", b"[]", b"{}", b"true", b"5", b'""', b"[[[]]]", b'{"a":{}}', b'"\\ud800"', b"1.5")
_BYTES = (b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\r", "\u2028".encode(), b"\x1b[31m", b"\n", b"\t", b"\\", b'"', b"&x;")


def hostile(content: bytes, chance: random.Random) -> tuple[str, bytes]:
    """Returns what was done to a text, and the text then: deep nesting, huge numbers, other types, odd characters, repeated parts."""
    token = chance.choice([*_TOKEN.finditer(content)])
    before, after = content[: token.start()], content[token.end() :]
    match chance.choice(("deep", "number", "value", "bytes", "repeat", "long", "remove", "swap")):
        case "deep":
            mark = chance.choice(_DEEP)
            return f"{mark!r} 100,000 times at {token.start()}", before + mark * 100_000 + content[token.start() :]
        case "number":
            number = chance.choice(_NUMBERS)
            return f"{number[:30]!r} for {token[0]!r} at {token.start()}", before + number + after
        case "value":
            value = chance.choice(_VALUES)
            return f"{value!r} for {token[0]!r} at {token.start()}", before + value + after
        case "bytes":
            place, odd = chance.randrange(len(content)), chance.choice(_BYTES)
            return f"{odd!r} at {place}", content[:place] + odd + content[place:]
        case "repeat":
            length = chance.randrange(1, 200)
            part = content[token.start() : token.start() + length]
            return f"{len(part)} bytes at {token.start()} 20,000 times", before + part * 20_000 + content[token.start() :]
        case "long":
            return f"{token[0]!r} made 20 MB long", before + token[0][:-1] + b"x" * 20_000_000 + token[0][-1:] + after
        case "remove":
            return f"{token[0]!r} removed at {token.start()}", before + after
        case _:
            other = chance.choice([*_TOKEN.finditer(content)])
            return f"{other[0]!r} for {token[0]!r} at {token.start()}", before + other[0] + after


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

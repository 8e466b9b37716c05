"""Files of tensors in the safetensors format, with a checksum of the whole file among their metadata.

    8 bytes                the length of the header
    header                 JSON: name -> dtype, shape, place; and the metadata
    tensors

They are written one tensor after the other and read through a memory map, so neither takes the memory of a copy. The format is written
here because the library makes a copy of all tensors at once.
"""

import json
import math
import mmap
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import torch
from torch import Tensor

from starqe.errors import StorageError

UNKNOWN = "0" * 8
"""The value of the checksum field while the checksum is computed."""
DTYPES: Mapping[str, torch.dtype] = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
"""The names of the types of numbers in the format."""
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
_PART = 1 << 24  # bytes that are written, or summed up, at a time
_KEY = '"checksum":"'


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Writes tensors with their checksum."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    order = sorted(plain, key=lambda name: (-plain[name].element_size(), name))  # so that all of them are aligned
    header: dict[str, Any] = {"__metadata__": {**metadata, "checksum": UNKNOWN}}
    end = 0
    for name in order:
        begin, end = end, end + plain[name].nbytes
        header[name] = {"dtype": _NAMES[plain[name].dtype], "shape": list(plain[name].shape), "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        running = _put(file, len(text).to_bytes(8, "little") + text, 0)
        for name in order:
            running = _put(file, plain[name].flatten().view(torch.uint8).numpy().data, running)
        file.seek(8 + text.index(f'{_KEY}{UNKNOWN}"'.encode()) + len(_KEY))
        file.write(f"{running:08x}".encode())


def _put(file: BinaryIO, content: bytes | memoryview, running: int) -> int:
    """Writes content, and returns the checksum so far."""
    for start in range(0, len(content), _PART):
        part = content[start : start + _PART]
        file.write(part)
        running = zlib.crc32(part, running)
    return running


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Returns the tensors and the metadata of a file; the tensors are mapped into memory, and changing them does not change the file.

    Raises:
        StorageError: The file is damaged.
    """
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            content = mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY)
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        metadata = {str(key): str(value) for key, value in dict(header.pop("__metadata__", {})).items()}
        tensors = {str(name): _tensor(content, 8 + length, **entry) for name, entry in header.items()}
    except (OSError, ValueError, TypeError, AttributeError, KeyError, OverflowError, RecursionError) as error:
        raise StorageError(f"{path}: damaged ({error}). Train again") from None
    if (recorded := metadata.pop("checksum", None)) is not None and recorded != (found := _checksum(content, recorded)):
        raise StorageError(f"{path}: damaged (checksum {found}, recorded {recorded}). Train again")
    return tensors, metadata


def recorded_checksum(path: Path) -> str:
    """Returns the checksum that a file of tensors records about itself: it identifies the weights.

    Raises:
        StorageError: The file is missing or damaged.
    """
    try:
        with path.open("rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        return str(header["__metadata__"]["checksum"])
    except (OSError, ValueError, KeyError, TypeError, MemoryError, OverflowError) as error:
        raise StorageError(f"{path}: damaged ({error!r}). Train again") from None


def _tensor(content: mmap.mmap, first: int, dtype: str, shape: list[int], data_offsets: list[int]) -> Tensor:
    """Returns one tensor of a mapped file, whose tensors begin at ``first``."""
    kind, (begin, end) = DTYPES[dtype], data_offsets
    if not all(type(number) is int and number >= 0 for number in (*shape, begin, end)):
        raise ValueError(f"sizes and places are numbers from 0, found {shape} and {data_offsets}")
    if end - begin != math.prod(shape) * kind.itemsize or first + end > len(content):
        raise ValueError(f"{shape} numbers of {kind.itemsize} bytes do not fit into bytes {begin} to {end} of {len(content)}")
    if begin == end:
        return torch.empty(shape, dtype=kind)
    return torch.frombuffer(content, dtype=kind, count=math.prod(shape), offset=first + begin).view(shape)


def _checksum(content: mmap.mmap, recorded: str) -> str:
    """Computes the checksum of a file with `UNKNOWN` in place of the recorded one."""
    place = content.find(f'{_KEY}{recorded}"'.encode())
    if place < 0 or len(recorded) != len(UNKNOWN):
        return "?"
    place += len(_KEY)
    running = zlib.crc32(UNKNOWN.encode(), zlib.crc32(content[:place]))
    for start in range(place + len(UNKNOWN), len(content), _PART):
        running = zlib.crc32(content[start : start + _PART], running)
    return f"{running:08x}"

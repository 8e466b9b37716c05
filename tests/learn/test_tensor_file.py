from pathlib import Path

import pytest
import safetensors.torch
import torch

from starqe.errors import StorageError
from starqe.learn.tensor_file import read_tensors, write_tensors

TENSORS = {
    "byte": torch.tensor([1, 2, 3], dtype=torch.uint8),
    "half": torch.tensor([[1.5, -2.0]], dtype=torch.float16),
    "one": torch.tensor(7),
    "none": torch.empty(0, 4),
    "turned": torch.arange(6.0).view(2, 3).T,
}


def test_what_is_written_is_read_by_us_and_by_the_library(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", TENSORS, {"counters": '{"step": 1}'})
    found, metadata = read_tensors(tmp_path / "file")
    assert metadata == {"counters": '{"step": 1}'}
    for read in (found, safetensors.torch.load_file(tmp_path / "file")):
        assert read.keys() == TENSORS.keys()
        assert all(torch.equal(read[name], tensor) and read[name].dtype == tensor.dtype for name, tensor in TENSORS.items())


def test_files_of_the_library_are_read(tmp_path: Path) -> None:
    safetensors.torch.save_file({name: tensor.contiguous() for name, tensor in TENSORS.items()}, tmp_path / "file")
    assert all(torch.equal(found, TENSORS[name]) for name, found in read_tensors(tmp_path / "file")[0].items())


def test_changing_a_tensor_does_not_change_the_file(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", TENSORS, {})
    before = (tmp_path / "file").read_bytes()
    read_tensors(tmp_path / "file")[0]["byte"].fill_(9)
    assert (tmp_path / "file").read_bytes() == before


def test_every_changed_byte_is_noticed(tmp_path: Path) -> None:
    write_tensors(tmp_path / "file", {"byte": TENSORS["byte"]}, {"a": "b"})
    content = (tmp_path / "file").read_bytes()
    key = content.index(b"checksum")  # a file without it is of another program, and is read as it is
    for place in {*range(len(content))} - {*range(key, key + len(b"checksum"))}:
        (tmp_path / "file").write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            found, _ = read_tensors(tmp_path / "file")
        except StorageError:
            continue
        pytest.fail(f"byte {place} was changed to {found}")
    for length in range(len(content)):
        (tmp_path / "file").write_bytes(content[:length])
        with pytest.raises(StorageError, match="damaged"):
            read_tensors(tmp_path / "file")

"""Files are compared with the checksums that came with them."""

import hashlib
from pathlib import Path

import pytest

from starqe.errors import InputError, StorageError
from starqe.folders import write_header
from starqe.kg import import_graph


def record(path: Path, content: bytes) -> None:
    """Writes a checksum as sha256sum does."""
    path.with_name(path.name + ".sha256").write_text(f"{hashlib.sha256(content).hexdigest()}  {path.name}\n")


def test_a_file_is_compared_with_the_checksum_beside_it(tmp_path):
    path = tmp_path / "facts.csv"
    path.write_bytes(b"head,relation,tail\na,r,b\n")
    record(path, path.read_bytes())
    assert len(import_graph(path)[0]) == 1
    path.write_bytes(b"head,relation,tail\na,r,c\n")  # well-formed, but another graph
    with pytest.raises(InputError, match=r"facts\.csv: damaged or changed \(its sha256 is \w{12}…, and \w{12}… is recorded\)\. Restore it"):
        import_graph(path)


def test_each_file_of_a_folder_is_compared_and_the_checksums_are_not_statements(tmp_path):
    for split in ("train", "valid"):
        (tmp_path / f"{split}.txt").write_text(f"a,r,{split}\n")
        record(tmp_path / f"{split}.txt", (tmp_path / f"{split}.txt").read_bytes())
    assert len(import_graph(tmp_path)[0]) == 2
    (tmp_path / "valid.txt").write_text("a,r,other\n")
    with pytest.raises(InputError, match=r"valid\.txt: damaged or changed"):
        import_graph(tmp_path)


def test_a_fetched_data_set_is_compared_with_what_was_fetched(tmp_path):
    (tmp_path / "train.txt").write_text("a,r,b\n")
    files = {"train.txt": {"bytes": 6, "sha256": hashlib.sha256(b"a,r,b\n").hexdigest()}, "gone.txt": {"bytes": 1, "sha256": "0"}}
    write_header(tmp_path / "dataset.json", "starqe data set", 1, {"files": files})
    assert len(import_graph(tmp_path)[0]) == 1
    (tmp_path / "train.txt").write_text("a,r,c\n")
    with pytest.raises(InputError, match=rf"train\.txt: damaged .* Fetch it again: starqe data fetch {tmp_path.name}"):
        import_graph(tmp_path)
    (tmp_path / "dataset.json").write_text((tmp_path / "dataset.json").read_text().replace("gone", "lost"))
    with pytest.raises(StorageError, match=r"dataset\.json: damaged or changed"):
        import_graph(tmp_path)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"no checksum"])
def test_an_invalid_checksum_is_refused_or_empty(tmp_path, content):
    (tmp_path / "facts.txt").write_text("a,r,b\n")
    (tmp_path / "facts.txt.sha256").write_bytes(content)
    if not content:
        assert len(import_graph(tmp_path / "facts.txt")[0]) == 1
        return
    with pytest.raises(InputError, match="is recorded"):
        import_graph(tmp_path / "facts.txt")

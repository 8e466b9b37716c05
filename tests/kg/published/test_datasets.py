from pathlib import Path

import pytest

from starqe.errors import InputError
from starqe.kg.published.datasets import DATASETS, DataFile, data_home, data_set, named_source

HOME = Path.home()


def test_every_data_set_has_one_file_per_split_a_licence_and_a_citation():
    for name, data in DATASETS.items():
        assert data.name == name
        assert [file.name for file in data.files] == ["train.txt", "valid.txt", "test.txt"]
        assert data.licence
        assert data.citation
        assert data.base.startswith("https://")
        assert data.address(data.base).endswith(f"/{name}/statements")


def test_an_unknown_name_is_answered_by_the_known_ones():
    assert data_set("wd50k").statements == 166_435 + 23_913 + 46_159
    with pytest.raises(InputError, match=r"^published data sets are wd50k, wd50k_33, wd50k_66, wd50k_100, found 'fb15k'$"):
        data_set("fb15k")


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", "/etc/passwd"])
def test_a_file_of_a_data_set_is_in_no_other_folder(name):
    with pytest.raises(InputError, match="has a name without folders"):
        DataFile(name, 1)


@pytest.mark.parametrize(
    ("environment", "platform", "home"),
    [
        ({"STARQE_DATA": "/data", "XDG_CACHE_HOME": "/cache"}, "linux", Path("/data")),
        ({"STARQE_DATA": "~/data"}, "linux", HOME / "data"),
        ({"STARQE_DATA": "", "XDG_CACHE_HOME": "/cache"}, "linux", Path("/cache/starqe")),
        ({"XDG_CACHE_HOME": "relative"}, "linux", HOME / ".cache" / "starqe"),
        ({}, "linux", HOME / ".cache" / "starqe"),
        ({}, "darwin", HOME / "Library" / "Caches" / "starqe"),
        ({"LOCALAPPDATA": "/local"}, "win32", Path("/local/starqe")),
    ],
)
def test_data_sets_are_kept_where_the_user_says_or_where_the_platform_keeps_caches(environment, platform, home):
    assert data_home(environment, platform) == home


def test_a_path_that_exists_wins_over_a_name_and_a_name_over_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "home" / "wd50k").mkdir(parents=True)
    assert named_source(Path("wd50k"), tmp_path / "home") == tmp_path / "home" / "wd50k"
    (tmp_path / "wd50k").mkdir()
    assert named_source(Path("wd50k"), tmp_path / "home") == Path("wd50k")
    assert named_source(Path("./x/wd50k_33"), tmp_path) == Path("x/wd50k_33")  # a path: who reads it says that it is missing


def test_an_unknown_name_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"no such file or folder, and no published data set of that name \(wd50k, wd50k_33, wd50k_66, "):
        named_source(Path("fb15k"), tmp_path)
    with pytest.raises(InputError, match=r"not in .* yet. Try: starqe data fetch wd50k_33$"):
        named_source(Path("wd50k_33"), tmp_path)

"""The catalogue of published data sets: files, licence, address, and where local copies are kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath

from starqe.errors import InputError
from starqe.kg.reading.files import STDIN

STAR_E = "https://raw.githubusercontent.com/migalkin/StarE/master/data/clean"
CITATION = "Galkin, Trivedi, Maheshwari, Usbeck, Lehmann: Message Passing for Hyper-Relational Knowledge Graphs. EMNLP 2020"


@dataclass(frozen=True)
class DataFile:
    """One file of a data set."""

    name: str
    size: int
    """In bytes."""
    sha256: str | None = None
    """None if none is published: it is then recorded at the first fetch, and checked from then on."""

    def __post_init__(self) -> None:
        if self.name in ("", "..") or PurePath(self.name).name != self.name:
            raise InputError(f"a file of a data set has a name without folders, found '{self.name}'")


@dataclass(frozen=True)
class DataSet:
    """A published data set: statement files, one per split."""

    name: str
    statements: int
    files: tuple[DataFile, ...]
    base: str = STAR_E
    """The address that has one folder per data set."""
    licence: str = "CC BY 4.0"
    citation: str = CITATION

    @property
    def size(self) -> int:
        """The total size in bytes."""
        return sum(file.size for file in self.files)

    def address(self, base: str) -> str:
        """Returns the address of the folder with the files, in the publishers' layout."""
        return f"{base.rstrip('/')}/{self.name}/statements"


def _splits(
    train: int, valid: int, test: int, sha256: tuple[str | None, str | None, str | None] = (None, None, None)
) -> tuple[DataFile, ...]:
    """Returns the three files of a data set, from their sizes and checksums."""
    return tuple(map(DataFile, ("train.txt", "valid.txt", "test.txt"), (train, valid, test), sha256))


_WD50K = (
    "e9aba6bb10e3deba00e2172d793ee793b93d134050d2fd00038f74e5757ecf59",
    "1e14707f2be1df2725f85876894c937e3293ff7bce68aaf8b340c743fb0a6f3d",
    "d361fe8b4a0cfb41016471f9118f2d61ef0ed5c97569709ec2ba869b721b5028",
)
_WD50K_100 = (
    "383a1c794128fde7c595b53cfdb7b4fd5a13924ad9347f6a06b106bd54abbc60",
    "100a7acb06c79d1ed4c195f7f8973131feaeead30e07d5e08e901ab4c740727a",
    "d27ee487fac4f53ba333562603cbd5866d40b876fb3b56e1c00ecb2f9490c565",
)
_ALL = (
    DataSet("wd50k", 236_507, _splits(3_859_498, 551_994, 1_064_219, _WD50K)),
    DataSet("wd50k_33", 102_107, _splits(1_958_845, 282_097, 488_893)),
    DataSet("wd50k_66", 49_167, _splits(1_196_646, 172_981, 278_055)),
    DataSet("wd50k_100", 31_314, _splits(923_073, 133_559, 219_516, _WD50K_100)),
)
DATASETS = {data.name: data for data in _ALL}
"""Every published data set, by its name on the command line."""


def data_set(name: str) -> DataSet:
    """Returns a data set by name.

    Raises:
        InputError: The name is unknown.
    """
    if name not in DATASETS:
        raise InputError(f"published data sets are {', '.join(DATASETS)}, found '{name}'")
    return DATASETS[name]


def data_home(environment: Mapping[str, str], platform: str) -> Path:
    """Returns the folder where data sets are kept: ``STARQE_DATA``, else the platform's cache folder.

    Args:
        environment: The environment variables, ``os.environ``.
        platform: The platform, ``sys.platform``.
    """
    if chosen := environment.get("STARQE_DATA"):
        return Path(chosen).expanduser()
    if (xdg := environment.get("XDG_CACHE_HOME", "")) and Path(xdg).is_absolute():  # the standard says to ignore relative paths
        return Path(xdg) / "starqe"
    if platform == "win32" and (local := environment.get("LOCALAPPDATA")):
        return Path(local) / "starqe"
    return Path.home() / ("Library/Caches" if platform == "darwin" else ".cache") / "starqe"


def named_source(source: Path, home: Path) -> Path:
    """Returns the source of a graph: the path if it exists, else the fetched data set of this name.

    Raises:
        InputError: It is neither a path nor the name of a fetched data set.
    """
    if source.exists() or len(source.parts) != 1 or source == STDIN:
        return source
    name = str(source)
    if name not in DATASETS:
        raise InputError(f"{name}: there is no such file or folder, and no published data set of that name ({', '.join(DATASETS)})")
    if not (home / name).is_dir():
        raise InputError(f"{name}: there is no such file or folder, and the data set is not in {home} yet. Try: starqe data fetch {name}")
    return home / name

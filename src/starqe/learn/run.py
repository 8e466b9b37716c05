"""The run folder: everything needed to use a model, and to continue its training.

    run.json               {"format": "starqe run", "version": 1, kind of model, fingerprints, the version of starqe, where it starts from}
    config.toml            the recipe, every value written out
    scales.json            of a one-hop predictor that knows numbers and dates: their scales
    rules.parquet          of a one-hop predictor that counts rules: the rules, and their weight
    graph/                 the graph
    weights.safetensors    the model: the best by validation, or the last
    state.safetensors      what training resumes from
    metrics.jsonl          one line per report: loss, speed, validation
    index/                 an approximate index of the entities, if one was built
    facts/                 of a large graph: a store of its known facts

Every file is written under another name and renamed: a crash at any moment leaves the last good state. No pickle is ever read.
"""

import contextlib
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch

from starqe import __version__
from starqe.config import read_toml, to_toml
from starqe.disk import flush
from starqe.errors import ConfigError, MismatchError, StorageError
from starqe.folders import checksum, new_file, new_folder, read_checked, read_header, write_header
from starqe.kg import Graph, load_graph, save_graph
from starqe.kg.graph_folder import FORMAT as GRAPH_FORMAT
from starqe.kg.graph_folder import HEADER as GRAPH_HEADER
from starqe.kg.update import part_before
from starqe.learn.config import AnyRecipe, Recipe
from starqe.learn.device import device_of
from starqe.learn.scorer import EncoderScorer
from starqe.learn.tensor_file import read_tensors, recorded_checksum, write_tensors
from starqe.learn.warm_start import Start
from starqe.measure.index.nearest import index_of, remove_index
from starqe.model import Encoder, Space

FORMAT, VERSION = "starqe run", 1
HEADER, RECIPE, WEIGHTS, STATE = "run.json", "config.toml", "weights.safetensors", "state.safetensors"
METRICS = "metrics.jsonl"


R = TypeVar("R", bound=AnyRecipe)
M = TypeVar("M", bound=torch.nn.Module)


class RunFolder(Generic[R]):
    """An existing run folder of one kind of model; made by `create`, or opened by `open`."""

    kind: ClassVar[str]
    """The kind of model, as in the header."""
    recipe_type: ClassVar[type[AnyRecipe]]

    def __init__(self, folder: Path, recipe: R, graph: Graph, origin: Mapping[str, Any] | None = None) -> None:
        self.folder, self.recipe, self.graph = folder, recipe, graph
        self.origin = origin
        """Where its first weights come from, if they are not random: see `Start`."""

    @classmethod
    def create(cls, folder: Path, recipe: R, graph: Graph, start: Start | None = None) -> Self:
        """Makes the folder of a new run, with the weights to start from if there are some.

        Raises:
            StorageError: The folder exists already, or cannot be written.
        """
        graph = graph.entity_part

        def refuse() -> None:
            raise StorageError(f"{folder} exists already. Continue it with the option resume, or choose another place")

        with new_folder(folder, True, refuse) as place:  # an empty folder may be replaced
            files = {RECIPE: to_toml(recipe).encode(), **(start.files if start else cls.new_files(recipe, graph))}
            for name, text in files.items():
                (place / name).write_bytes(text)
            save_graph(graph.whole, place / "graph")
            prints = {"fingerprint": graph.fingerprint, "vocabulary": graph.vocabulary_fingerprint}
            sums = {"checksums": {name: checksum(text) for name, text in files.items()}}
            content = {"kind": cls.kind, **prints, "starqe": __version__, **sums}
            if start is not None:
                cls(place, recipe, graph).save_weights(start.weights)
                content["from"] = dict(start.origin)
            write_header(place / HEADER, FORMAT, VERSION, content)
        return cls(folder, recipe, graph, start.origin if start else None)

    @classmethod
    def new_files(cls, recipe: R, graph: Graph) -> dict[str, bytes]:  # noqa: ARG003
        """Returns further files of a new run, by name."""
        return {}

    @property
    def further_files(self) -> dict[str, bytes]:
        """The further files of this run, by name: a run that starts from it takes them over."""
        return {}

    @classmethod
    def open(cls, folder: Path, graph: Graph | None = None) -> Self:
        """Opens a run, with its own graph or another one of the same vocabulary (facts added or removed).

        If updates have added entities or relations to the graph, only the part that the model knows is used.

        Raises:
            StorageError: The folder is not a run of this kind, or is damaged.
            MismatchError: The other graph has another vocabulary.
        """
        header = read_header(folder / HEADER, FORMAT, VERSION)
        if (kind := kind_of(folder)) != cls.kind:
            raise StorageError(f"{folder} is a run of the kind '{kind}', and one of the kind '{cls.kind}' is needed here")
        vocabulary = str(header.get("vocabulary"))
        if graph is not None and graph.vocabulary_fingerprint != vocabulary:
            found = graph.vocabulary_fingerprint
            if (graph := _known_part(folder, graph, vocabulary)) is None:
                raise MismatchError(
                    f"a model works with graphs of its own vocabulary, or with one that data update has appended to: the model's is "
                    f"{vocabulary[:12]}, the graph's {found[:12]}. Train a model on this graph"
                )
        read_checked(folder / RECIPE, header, "Restore it as it was, or train again")
        recipe: Any = read_toml(folder / RECIPE, cls.recipe_type)
        own = graph.entity_part if graph is not None else _own_graph(folder, str(header.get("fingerprint")))
        return cls(folder, recipe, own, header.get("from"))

    @classmethod
    def open_or_create(cls, folder: Path, recipe: R, graph: Graph, start: Start | None = None) -> Self:
        """Opens the run in a folder, to continue it, or makes a new one.

        Raises:
            ConfigError: The existing run has another recipe.
            StorageError: The folder holds something else, or cannot be written.
            MismatchError: The existing run is of another graph.
        """
        if not (folder / HEADER).exists():
            return cls.create(folder, recipe, graph, start)
        run = cls.open(folder)
        run.check_graph(graph)
        run.check_recipe(recipe)
        return run

    def check_recipe(self, recipe: AnyRecipe, way_out: str = "Delete that folder, or choose another place") -> None:
        """Checks that the run has this recipe.

        Raises:
            ConfigError: It is not.
        """
        if self.recipe != recipe:
            raise ConfigError(f"{self.folder} has another recipe (its config.toml, seed {self.recipe.seed}). {way_out}")

    def check_graph(self, graph: Graph) -> None:
        """Checks that the run was started with this graph.

        Raises:
            MismatchError: It is another graph.
        """
        own, given = self.graph.whole.fingerprint, graph.whole.fingerprint
        if own != given:
            raise MismatchError(
                f"{self.folder} is a run on another graph: its fingerprint is {own[:12]}, and that of this graph {given[:12]}. "
                "Choose another place"
            )

    def save_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Writes the model; an index of earlier weights is removed."""
        remove_index(self.folder)
        self._write(WEIGHTS, weights, {})

    def load_weights(self, model: M) -> M:
        """Loads the trained weights into a model, and prepares it for use on the device of the recipe.

        Raises:
            StorageError: There are none yet, they are damaged, or of another model.
        """
        self.put_into(model, self.weights(), mapped=True)
        return model.to(device_of(self.recipe)).eval()

    def weights(self) -> dict[str, torch.Tensor]:
        """Returns the trained weights, or those to start from.

        Raises:
            StorageError: There are none yet, or they are damaged.
        """
        return self._read(WEIGHTS)[0]

    def put_into(self, model: torch.nn.Module, weights: Mapping[str, torch.Tensor], *, mapped: bool = False) -> None:
        """Loads weights that were read from this run into a model: copies them, or uses their own memory, which processes share.

        Raises:
            StorageError: They are of another model, or not numbers.
        """
        own = model.state_dict()
        if own.keys() != weights.keys() or any(own[name].shape != weights[name].shape for name in own):
            raise StorageError(
                f"{self.folder}: its weights do not fit its config.toml: it was changed, or the weights are of another version of starqe. "
                "Train it again"
            )
        parts = (part for tensor in weights.values() for part in torch.split(tensor.flatten(), 1 << 22))
        if not all(bool(torch.isfinite(part).all()) for part in parts):
            raise StorageError(f"{self.folder}: its weights are numbers, found some that are infinite or not a number. Train it again")
        if mapped:
            weights = {name: tensor.to(own[name].dtype) for name, tensor in weights.items()}  # float16 is for training only
        model.load_state_dict(weights, assign=mapped)

    def save_state(self, tensors: Mapping[str, torch.Tensor], counters: Mapping[str, Any]) -> None:
        """Writes the state to resume from, in one file, so that it is consistent."""
        with contextlib.suppress(FileNotFoundError):
            flush(self.folder / METRICS)  # the counters record its length
        self._write(STATE, tensors, {"counters": json.dumps(counters)})

    def load_state(self) -> tuple[dict[str, torch.Tensor], dict[str, Any]] | None:
        """Returns the state to resume from, or None before the first checkpoint."""
        if not (self.folder / STATE).exists():
            return None
        tensors, metadata = self._read(STATE)
        try:
            return tensors, dict(json.loads(metadata["counters"]))
        except (KeyError, ValueError, TypeError, RecursionError) as error:
            raise StorageError(f"{self.folder / STATE}: damaged ({error!r}). Train again") from None

    def metrics_size(self) -> int:
        """The length of the metrics so far, in bytes; a checkpoint records it."""
        path = self.folder / METRICS
        return path.stat().st_size if path.exists() else 0

    def cut_metrics(self, size: int) -> None:
        """Removes the metrics that were written after a checkpoint."""
        if self.metrics_size() > size:
            with (self.folder / METRICS).open("r+b") as file:
                file.truncate(size)

    def add_metrics(self, line: Mapping[str, Any]) -> None:
        """Appends one report."""
        try:
            with (self.folder / METRICS).open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise StorageError(f"cannot write {self.folder / METRICS}: {error.strerror or error}") from error

    def metrics(self) -> list[dict[str, Any]]:
        """Returns all reports so far."""
        path = self.folder / METRICS
        try:
            return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []
        except (ValueError, RecursionError) as error:
            raise StorageError(f"{path}: damaged ({error}). The model is not affected: delete the lines after the last good one") from None

    def _write(self, name: str, tensors: Mapping[str, torch.Tensor], metadata: dict[str, str]) -> None:
        with new_file(self.folder / name, overwrite=True) as beside:
            write_tensors(beside, tensors, metadata)

    def _read(self, name: str) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
        if not (self.folder / name).exists():
            raise StorageError(f"{self.folder}: the run has no {name} yet. Was its training interrupted early?")
        return read_tensors(self.folder / name)  # a running training may replace the file at any moment, but does not change it


def _known_part(folder: Path, graph: Graph, vocabulary: str) -> Graph | None:
    """Returns the part of a newer graph that the model of a run knows; None if the vocabulary of the graph is another one."""
    try:
        sizes = read_header(folder / "graph" / GRAPH_HEADER, GRAPH_FORMAT)
        entities, relations = int(sizes["entities"]), int(sizes["relations"])
    except (StorageError, KeyError, TypeError, ValueError):
        return None
    if len(graph.entities) < entities or len(graph.relations) < relations:
        return None
    part = part_before(graph, entities, relations)
    return part if part.vocabulary_fingerprint == vocabulary else None


def _own_graph(folder: Path, fingerprint: str) -> Graph:
    """Reads the graph in a run's folder, which is the one that the run was made with."""
    graph = load_graph(folder / "graph").entity_part
    if graph.fingerprint != fingerprint:
        raise MismatchError(
            f"{folder / 'graph'} is not the graph that the run was made with (fingerprint {graph.fingerprint[:12]}, {HEADER} says "
            f"{fingerprint[:12]}). Restore it, or train again"
        )
    return graph


class Run(RunFolder[Recipe]):
    """The run of an encoder of queries."""

    kind = "encoder"
    recipe_type = Recipe

    @property
    def space(self) -> Space:
        """The rows of the embeddings."""
        return Space(len(self.graph.entities), len(self.graph.relations), self.recipe.train.variant == "reified")

    def encoder(self) -> Encoder:
        """Returns the trained encoder.

        Raises:
            StorageError: There are no weights yet, they are damaged, or of another model.
        """
        return self.load_weights(Encoder(self.recipe.model, self.space, self.recipe.seed))

    def scorer(self) -> EncoderScorer:
        """Returns the trained encoder as a scorer of query tables, which uses the index of the run if there is one."""
        encoder = self.encoder()
        index = index_of(
            self.folder, encoder.entity_matrix, self.recipe.model.similarity, partial(recorded_checksum, self.folder / WEIGHTS)
        )
        return EncoderScorer(encoder, self.graph, self.recipe.train.variant, frozen=True, index=index)


def kind_of(folder: Path) -> str:
    """Returns the kind of model in a run folder.

    Raises:
        StorageError: The folder is not a run.
    """
    return str(read_header(folder / HEADER, FORMAT, VERSION).get("kind", Run.kind))

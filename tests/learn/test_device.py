"""The device that a recipe names: trained on, and used on by everything that loads a model."""

from pathlib import Path

import pytest
import torch

from starqe.errors import ConfigError
from starqe.kg import Statement, graph_of
from starqe.learn import Run, preset, run
from starqe.learn.device import device_of, products_as, training_device
from starqe.model import SIMILARITY, Encoder
from starqe.model.similarity import EntityRows
from starqe.reason.predictor.presets import recipe_of
from starqe.reason.predictor.run import PredictorRun

GRAPH = graph_of([Statement("a", "r", "b"), Statement("b", "r", "c")])
SIZE = ["model.width=8", "model.heads=2"]


@pytest.mark.parametrize(
    ("device", "cuda", "expected"), [("auto", False, "cpu"), ("auto", True, "cuda"), ("cpu", True, "cpu"), ("cuda", True, "cuda")]
)
def test_a_recipe_names_the_device(monkeypatch: pytest.MonkeyPatch, device: str, cuda: bool, expected: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: cuda)
    recipe = preset("demo").with_settings([f"device={device}"])
    assert device_of(recipe).type == training_device(recipe).type == expected


def test_cuda_that_is_not_there_is_refused_for_training_and_done_without_for_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    recipe = preset("demo").with_settings(["device=cuda"])
    with pytest.raises(ConfigError, match=r"needs a CUDA device, and torch finds none\. Set device=auto or device=cpu"):
        training_device(recipe)
    assert device_of(recipe).type == "cpu"


def test_the_precision_of_products_is_what_it_was_after_a_step() -> None:
    settings = torch.backends.mkldnn.matmul
    before = settings.fp32_precision
    with pytest.raises(ZeroDivisionError), products_as("bfloat16"):
        _ = 1 / 0
    assert settings.fp32_precision == before
    with products_as("bfloat16"), products_as("float32"):
        assert settings.fp32_precision == "ieee"


def test_whatever_loads_a_model_puts_it_on_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another device that every torch has takes the place of CUDA."""
    encoder = Run.create(tmp_path / "encoder", preset("demo").with_settings(SIZE), GRAPH)
    encoder.save_weights(Encoder(encoder.recipe.model, encoder.space, 0).state_dict())
    predictor = PredictorRun.create(tmp_path / "predictor", recipe_of("one-hop").with_settings(["model.width=8"]), GRAPH)
    predictor.save_weights(predictor.new_predictor().state_dict())
    assert {parameter.device.type for parameter in encoder.encoder().parameters()} == {"cpu"}
    monkeypatch.setattr(run, "device_of", lambda _: torch.device("meta"))
    for model in (encoder.encoder(), predictor.predictor()):
        assert {parameter.device.type for parameter in model.parameters()} == {"meta"}


def test_scores_are_copied_into_a_buffer_on_another_device() -> None:
    vectors, entities = torch.randn(3, 4), torch.randn(5, 4)

    class Elsewhere:
        """A buffer that says to be on another device."""

        device = "another device"

        def copy_(self, scores: torch.Tensor) -> torch.Tensor:
            return scores + 100

    found = EntityRows(SIMILARITY["dot"], lambda: entities, frozen=True).scores(vectors, Elsewhere())  # type: ignore[arg-type]
    torch.testing.assert_close(found, vectors @ entities.T + 100)

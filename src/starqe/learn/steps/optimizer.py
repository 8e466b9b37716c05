"""Updates the weights by their gradients, and the average of the weights: by Adam, and for entities by Adam or `RowAdam`."""

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from starqe.learn.config import LoopConfig
from starqe.learn.steps.row_adam import RowAdam, decay_at
from starqe.model.embedding import InputEmbedding, RowGradient, Table, added_up


class _Adam(torch.optim.AdamW):
    """AdamW that does not import torch's compiler: that would take seconds, and nothing here is compiled."""

    add_param_group = inspect.unwrap(torch.optim.AdamW.add_param_group)
    zero_grad = inspect.unwrap(torch.optim.AdamW.zero_grad)
    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))


class Optimizer:
    """Updates the weights of a model, and their average if there is one.

    Args:
        model: The model.
        average: A model with the same initial weights, for the average; None for no average.
        config: The rates, and the decay of the average.
        seed: Decides how numbers are rounded.
    """

    def __init__(self, model: nn.Module, average: nn.Module | None, config: LoopConfig, seed: int) -> None:
        self._model, self._average, self._config = model, average, config
        self.adam = _Adam(_at_their_rates(model, config.embedding_rate), weight_decay=config.weight_decay, fused=True)
        means = dict(average.named_parameters()) if average is not None else {}
        self.tables = {
            name: RowAdam(weight, means.get(name), config.average, seed)  # type: ignore[arg-type]  # the model is of the same kind
            for name, weight in model.named_parameters()
            if isinstance(weight, Table)
        }
        self._sums: dict[int, Tensor] = {}  # the gradients of several shards, by the number of the weight
        self._of_rows: list[dict[str, RowGradient]] = []  # those of tables, shard by shard

    @property
    def dense(self) -> list[nn.Parameter]:
        """The parameters that are not tables."""
        return [weight for name, weight in self._model.named_parameters() if name not in self.tables]

    def begin(self) -> None:
        """Clears the gradients of the last step."""
        self.adam.zero_grad(set_to_none=True)
        self._sums.clear()
        self._of_rows.clear()

    def end_shard(self, is_only: bool) -> None:
        """Stores the gradients of a shard of a batch. Shards are kept apart, so that processes add up the same numbers."""
        self._of_rows.append({name: rows.table.gradient() for name, rows in self.tables.items()})
        if is_only:
            return
        for number, weight in enumerate(self.dense):
            if weight.grad is not None:
                self._sums[number] = self._sums[number].add_(weight.grad) if number in self._sums else weight.grad.clone()
                weight.grad = None

    def end_batch(self) -> dict[str, RowGradient]:
        """Puts the sums over the shards into the dense weights; returns those of the touched rows of each table."""
        for number, weight in enumerate(self.dense):
            if number in self._sums:
                weight.grad = self._sums[number]
        if len(self._of_rows) == 1:
            return self._of_rows[0]
        return {
            name: added_up([found[name] for found in self._of_rows]) if self._of_rows else rows.table.gradient()
            for name, rows in self.tables.items()
        }

    def norm(self, of_rows: Mapping[str, RowGradient]) -> Tensor:
        """Computes the norm of the whole gradient. ()."""
        found = [weight.grad for weight in self.dense if weight.grad is not None]
        return torch.nn.utils.get_total_norm([*found, *(gradient for _, gradient in of_rows.values())])

    def step(self, of_rows: Mapping[str, RowGradient], rate: float, norm: Tensor, done: int) -> None:
        """Updates the weights after ``done`` steps, and their average."""
        if self._config.clip:
            torch.nn.utils.clip_grads_with_norm_(self.dense, self._config.clip, norm)
        for group in self.adam.param_groups:
            group["lr"] = rate * group["factor"]
        self.adam.step()
        shrink = min(1.0, self._config.clip / (float(norm) + 1e-6)) if self._config.clip else 1.0
        for name, (rows, gradient) in of_rows.items():
            self.tables[name].step(rows, gradient * shrink if shrink < 1 else gradient, rate * self._config.embedding_rate, done)
        self._follow(done)

    @torch.no_grad()
    def _follow(self, done: int) -> None:
        """Moves the average of the dense weights towards them."""
        if self._average is None:
            return
        decay = decay_at(done, self._config.average)
        pairs = zip(self._average.state_dict().items(), self._model.state_dict().values(), strict=True)
        for (name, mean), tensor in pairs:
            if name in self.tables:
                continue
            if tensor.is_floating_point():
                mean.lerp_(tensor, 1 - decay)
            else:
                mean.copy_(tensor)

    def settle(self, done: int) -> None:
        """Brings the average up to date, for its use after ``done`` steps."""
        for rows in self.tables.values():
            rows.settle(done)

    def state(self) -> dict[str, Tensor]:
        """Returns the part of a checkpoint besides the weights and their average."""
        found: dict[str, Tensor] = {}
        for name, parameter in self._model.named_parameters():
            found |= {f"adam/{name}/{key}": value for key, value in self.adam.state.get(parameter, {}).items()}
        for name, rows in self.tables.items():
            found |= {f"rows/{name}/{key}": value for key, value in rows.state().items()}
        return found

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Restores the state.

        Raises:
            ValueError: It does not fit the model.
            KeyError: A part of it is missing.
        """
        for name, parameter in self._model.named_parameters():
            if name in self.tables:
                self.tables[name].load(below(tensors, f"rows/{name}"))
            elif f"adam/{name}/step" in tensors:
                self.adam.state[parameter] = _moments(below(tensors, f"adam/{name}"), name, parameter)


def _moments(moments: Mapping[str, Tensor], name: str, parameter: nn.Parameter) -> dict[str, Tensor]:
    if any(moment.shape not in ((), parameter.shape) or not moment.is_floating_point() for moment in moments.values()):
        raise ValueError(f"adam/{name} does not fit {name}")
    return {key: moment.clone().to(parameter.device) for key, moment in moments.items()}


def _at_their_rates(model: nn.Module, embedding_rate: float) -> list[dict[str, Any]]:
    """Groups the parameters that are not tables by the factor of their learning rate."""
    embeddings = [module.weight for module in model.modules() if isinstance(module, InputEmbedding)]
    known = {id(parameter) for parameter in embeddings}
    others = [parameter for parameter in model.parameters() if id(parameter) not in known]
    parts: Iterable[tuple[list[nn.Parameter], float]] = ((others, 1.0), (embeddings, embedding_rate))
    return [{"params": [one for one in group if not isinstance(one, Table)], "factor": factor} for group, factor in parts]


def below(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Returns the tensors whose names begin with a prefix and a slash, without it."""
    return {name.removeprefix(f"{prefix}/"): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}/")}

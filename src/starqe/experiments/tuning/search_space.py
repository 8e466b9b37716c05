"""The search space: the values that a hyper-parameter search tries, by key of the recipe.

A space is data: from a key to its choices, or to a range of numbers.
"""

import functools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self, TypeAlias

import pydantic
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from starqe.config import Section, known_keys, read_toml, unknown_key
from starqe.errors import ConfigError
from starqe.learn.config import Recipe

Value = str | bool | int | float


class Range(Section):
    """Numbers from low to high, both included: all of them, in steps, or evenly on a log scale."""

    low: int | float
    """The smallest number."""
    high: int | float
    """The largest number."""
    step: int | float | None = pydantic.Field(default=None, gt=0)
    """Only low, low + step, …, high."""
    log: bool = False
    """Whether each power of ten is as likely as the next."""

    @pydantic.model_validator(mode="after")
    def _fits(self) -> Self:
        if self.low > self.high:
            raise ValueError(f"a range goes from low to high, found low {self.low} and high {self.high}. Swap them")
        if self.log and (self.low <= 0 or self.step is not None):
            raise ValueError(f"a logarithmic range begins above 0 and has no step, found low {self.low} and step {self.step}")
        if self.step is not None and abs((steps := (self.high - self.low) / self.step) - round(steps)) > 1e-9:
            raise ValueError(f"a range ends after whole steps, found {steps:.3f} steps of {self.step} from {self.low} to {self.high}")
        return self


Domain: TypeAlias = Range | tuple[Value, ...]
Space = Mapping[str, Domain]

AUTHORS_SPACE: Space = {
    "model.width": Range(low=32, high=256, step=32),
    "model.layers": (2, 3),
    "model.dropout": Range(low=0.0, high=0.8, step=0.1),
    "model.bias": (True, False),
    "model.similarity": ("dot", "cosine", "distance", "power-norm"),
    "model.weighting": ("symmetric", "attention"),
    "model.activation": ("leaky-relu", "identity", "prelu", "relu"),
    "model.pooling": ("target", "sum"),
    "train.learning_rate": Range(low=1e-4, high=1e-2, log=True),
    "train.batch": (32, 64, 128, 256, 512, 1024),
}
"""What the authors of the paper searched: from a key of the recipe to what it may be."""

SAME_FOR_ALL = ("train.shapes", "train.pool_per_shape", "train.validation_queries")
"""Keys that decide which queries are read; they are the same for all trials."""


def parse_space(values: Mapping[str, Any], where: str = "") -> Space:
    """Reads a space from plain values: a key has a list of choices, or a table with low, high and step or log.

    Raises:
        ConfigError: A key is unknown (the nearest known one is suggested), or a choice or an end of a range is not valid for its key.
    """
    space = {key: _domain(key, value, where) for key, value in _leaves(values)}
    if not space:
        raise ConfigError(f"{where}a search space has at least one key, found none. An example: model.width = [64, 128]")
    return space


def read_space(path: Path) -> Space:
    """Reads a space from a TOML file.

    Raises:
        ConfigError: The file is missing, not TOML, or not a space.
    """
    return parse_space(read_toml(path, _AnyTable).model_extra or {}, where=f"{path}: ")


def plain(domain: Domain) -> Any:
    """Returns a domain as the plain values that `parse_space` reads."""
    return domain.model_dump(exclude_defaults=True) if isinstance(domain, Range) else list(domain)


def distributions(space: Space) -> dict[str, BaseDistribution]:
    """Returns a space as optuna's distributions."""
    return {key: _distribution(key, domain) for key, domain in space.items()}


def value_at(recipe: Recipe, key: str) -> Any:
    """Returns the value of a dotted key."""
    return functools.reduce(getattr, key.split("."), recipe)


def with_values(base: Recipe, chosen: Mapping[str, Value]) -> Recipe:
    """Returns the recipe with these values.

    Raises:
        ConfigError: The values are not valid in combination, such as a width and a number of heads.
    """
    values = base.model_dump()
    for key, value in chosen.items():
        *parents, last = key.split(".")
        # Sums of steps have rounding errors (0.1 + 0.2); twelve digits are enough.
        functools.reduce(dict.__getitem__, parents, values)[last] = float(f"{value:.12g}") if isinstance(value, float) else value
    return Recipe.parse(values)


class _AnyTable(Section):
    """A TOML file with any keys."""

    model_config = pydantic.ConfigDict(extra="allow")


_SECTIONS = {key.rpartition(".")[0] for key in known_keys(Recipe)} - {""}


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if prefix + name in _SECTIONS and isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def _domain(key: str, value: Any, where: str) -> Domain:
    if key not in known_keys(Recipe) or key in _SECTIONS:
        raise ConfigError(where + unknown_key(Recipe, key))
    if key in SAME_FOR_ALL:
        raise ConfigError(f"{where}'{key}' decides which queries are read, and is the same for all trials. Set it in the base: {key}=…")
    if isinstance(value, Mapping):
        domain: Domain = Range.parse(value, where=f"{where}'{key}': ")
    elif isinstance(value, list | tuple) and value:
        domain = tuple(value)
    else:
        raise ConfigError(f"{where}'{key}' has a list of choices, or {{low, high, step or log}} (got {value!r})")
    for one in _extremes(domain) if isinstance(domain, Range) else domain:
        _check(key, one, where)
    return domain


def _extremes(numbers: Range) -> tuple[Value, ...]:
    """Returns numbers that are values of a key only if all numbers of the range are."""
    return numbers.low, min(numbers.low + (numbers.step or 0), numbers.high), numbers.high


def _check(key: str, value: Any, where: str) -> None:
    """Checks a value by the rules of its field alone: rules over several keys depend on the other values of a trial."""
    if not isinstance(value, Value):
        raise ConfigError(f"{where}'{key}': a choice is a text, a number, true or false (got {value!r})")
    field = _field(key)
    single: Any = pydantic.create_model("Value", __base__=Section, **{key: (field.annotation, field)})  # type: ignore[call-overload]
    single.parse({key: value}, where)


def _field(key: str) -> pydantic.fields.FieldInfo:
    *parents, last = key.split(".")
    section: Any = Recipe
    for name in parents:
        section = section.model_fields[name].annotation
    field: pydantic.fields.FieldInfo = section.model_fields[last]
    return field


def _distribution(key: str, domain: Domain) -> BaseDistribution:
    if not isinstance(domain, Range):
        return CategoricalDistribution(domain)
    if _field(key).annotation is float:
        return FloatDistribution(domain.low, domain.high, log=domain.log, step=domain.step)
    return IntDistribution(int(domain.low), int(domain.high), log=domain.log, step=max(1, int(domain.step or 1)))

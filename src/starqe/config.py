"""Reads configuration, and refuses unknown keys and values.

Each room defines its own section as a subclass of `Section`, with each field documented by the string
below it. This module knows no sections; it reads TOML and ``key=value`` settings into any of them.
"""

import difflib
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

import pydantic
import tomli_w

from starqe.errors import ConfigError


class Section(pydantic.BaseModel):
    """A typed, immutable part of a configuration that refuses unknown keys."""

    model_config = pydantic.ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, values: Mapping[str, Any], where: str = "") -> Self:
        """Reads a section from plain values.

        Raises:
            ConfigError: A key is unknown (the nearest known one is suggested) or a value is out of range.
        """
        try:
            return cls.model_validate(dict(values))
        except pydantic.ValidationError as error:
            raise ConfigError(_explain(cls, error, where)) from None

    def with_settings(self, settings: Iterable[str]) -> Self:
        """Returns a copy with ``key.key=value`` settings applied; a value is read as TOML, or else as plain text.

        Raises:
            ConfigError: A setting has no ``=``, an unknown key or a value out of range.
        """
        values = self.model_dump()
        for setting in settings:
            path, equals, text = setting.partition("=")
            if not equals:
                raise ConfigError(f"a setting is key=value, found '{setting}'")
            *parents, last = path.strip().split(".")
            place = values
            for parent in parents:
                if not isinstance(place.get(parent), dict):
                    raise ConfigError(unknown_key(type(self), path.strip()))
                place = place[parent]
            place[last] = _toml_value(text.strip())
        return type(self).parse(values)

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with other values; a mapping changes a nested section: ``recipe.replace(seed=1, train={"epochs": 3})``.

        Raises:
            ConfigError: A key is unknown or a value out of range.
        """
        return type(self).parse(_changed(self, changes))


def _changed(section: Section, changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of a section with these changes; nested sections are changed key by key."""
    values = section.model_dump()
    for name, change in changes.items():
        inner = getattr(section, name, None)
        values[name] = _changed(inner, change) if isinstance(inner, Section) and isinstance(change, Mapping) else change
    return values


AnySection = TypeVar("AnySection", bound=Section)


def read_toml(path: Path, section: type[AnySection]) -> AnySection:
    """Reads a TOML file as one section (which may contain others).

    Raises:
        ConfigError: The file is missing, not TOML, or has unknown keys or invalid values.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the configuration ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file: {error}") from None
    return section.parse(values, where=f"{path}: ")


def to_toml(section: Section) -> str:
    """Writes a section as TOML that `read_toml` reads back to an equal section; fields that are None are left out."""
    return tomli_w.dumps(section.model_dump(mode="json", exclude_none=True))


def _toml_value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _explain(section: type[Section], error: pydantic.ValidationError, where: str) -> str:
    lines = []
    for problem in error.errors():
        key = ".".join(str(part) for part in problem["loc"])
        if problem["type"] == "extra_forbidden":
            lines.append(where + unknown_key(section, key))
        elif problem["type"] == "value_error":  # a rule over several keys, whose message includes the values
            lines.append(f"{where}{problem['ctx']['error']}")
        else:
            lines.append(f"{where}'{key}': {problem['msg']} (got {problem['input']!r})")
    return "\n".join(lines)


def unknown_key(section: type[Section], key: str) -> str:
    """Returns the message for an unknown key, with the nearest known one."""
    near = difflib.get_close_matches(key, known_keys(section), n=1, cutoff=0.5)
    return f"unknown key '{key}'." + (f" Did you mean '{near[0]}'?" if near else f" Known keys: {', '.join(known_keys(section))}")


def known_keys(section: type[pydantic.BaseModel], prefix: str = "") -> list[str]:
    """Lists every key of a section and of the sections in it, dotted."""
    keys = []
    for name, field in section.model_fields.items():
        keys.append(prefix + name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, pydantic.BaseModel):
            keys += known_keys(field.annotation, f"{prefix}{name}.")
    return keys

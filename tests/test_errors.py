import inspect

import pytest

from starqe import errors
from starqe.errors import MissingExtraError, StarqeError

KINDS = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if kind.__module__ == errors.__name__]


def test_catching_the_root_catches_every_error():
    assert len(KINDS) > 5
    assert all(issubclass(kind, StarqeError) for kind in KINDS)


def test_the_tree_at_the_top_draws_every_error_below_its_parent():
    parents: list[str] = []
    drawn = {}
    for line in (errors.__doc__ or "").splitlines():
        name = next((word for word in line.split() if word.endswith("Error")), None)
        if name and line.startswith("    "):
            depth = (len(line[: line.index(name)]) - 4) // 4
            parents[depth:] = [name]
            drawn[name] = parents[depth - 1] if depth else "Exception"
    assert drawn == {kind.__name__: kind.__base__.__name__ for kind in KINDS}


def test_a_missing_extra_names_purpose_package_and_remedy():
    with pytest.raises(
        MissingExtraError, match=r"^logging to TensorBoard needs the package 'tensorboard'.*extra 'logs', or: pip install tensorboard$"
    ):
        raise MissingExtraError("tensorboard", "logs", "logging to TensorBoard")

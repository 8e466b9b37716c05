"""Property tests that run with few examples, and with many where slow tests run."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st


def few_and_many(few: int, many: int) -> list[Any]:
    """Returns the parameters of a test that takes a number of examples; the large number is for slow runs only."""
    return [pytest.param(few, id="few"), pytest.param(many, id="many", marks=pytest.mark.slow)]


def check_examples(check: Callable[..., None], count: int, profile: settings | None = None, **arguments: object) -> None:
    """Calls a check with this number of random sources of data; further arguments are passed on."""

    def once(data: st.DataObject) -> None:
        check(data, **arguments)

    settings(profile, max_examples=count)(given(data=st.data())(once))()

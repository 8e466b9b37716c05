from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from starqe.config import Section, known_keys, read_toml, to_toml
from starqe.errors import ConfigError


class Train(Section):
    learning_rate: float = 0.001
    """How far a step goes."""
    batch_size: int = Field(32, ge=1)
    schedule: Literal["constant", "cosine"] = "constant"


class Whole(Section):
    seed: int = 0
    note: str = ""
    minutes: float | None = None
    shapes: list[str] = Field(default_factory=list)
    train: Train = Train()


finite = st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
trains = st.builds(Train, learning_rate=finite, batch_size=st.integers(1, 2**62), schedule=st.sampled_from(["constant", "cosine"]))
wholes = st.builds(
    Whole,
    seed=st.integers(-(2**62), 2**62),
    note=texts,
    minutes=st.none() | finite,
    shapes=st.lists(texts, max_size=3),
    train=trains,
)


@given(wholes)
def test_a_section_written_as_toml_reads_back_equal(tmp_path_factory, section):
    path = tmp_path_factory.mktemp("config") / "config.toml"
    path.write_bytes(to_toml(section).encode())
    assert read_toml(path, Whole) == section


def test_toml_has_a_table_for_each_section_and_leaves_out_what_is_not_set():
    plain = 'seed = 0\nnote = "a \\"b\\""\nshapes = [\n    "1p",\n    "2i-1p",\n]\n'
    expected = plain + '\n[train]\nlearning_rate = 0.001\nbatch_size = 32\nschedule = "constant"\n'
    assert to_toml(Whole(note='a "b"', shapes=["1p", "2i-1p"])) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train": {"learning_rat": 0.1}}, "unknown key 'train.learning_rat'. Did you mean 'train.learning_rate'?"),
        ({"sead": 1}, "unknown key 'sead'. Did you mean 'seed'?"),
        (
            {"zzzzzzzzzzz": 1},
            "unknown key 'zzzzzzzzzzz'. Known keys: seed, note, minutes, shapes, train, "
            "train.learning_rate, train.batch_size, train.schedule",
        ),
        ({"train": {"batch_size": 0}}, "'train.batch_size': Input should be greater than or equal to 1 (got 0)"),
        ({"train": {"schedule": "cosin"}}, "'train.schedule': Input should be 'constant' or 'cosine' (got 'cosin')"),
        ({"train": {"learning_rate": float("nan")}}, "'train.learning_rate': Input should be a finite number (got nan)"),
        ({"train": 3}, "'train': Input should be a valid dictionary or instance of Train (got 3)"),
    ],
)
def test_what_is_not_understood_is_refused_with_the_value_met(values, message):
    with pytest.raises(ConfigError) as caught:
        Whole.parse(values)
    assert str(caught.value) == message


@pytest.mark.parametrize(("key", "value"), [("seed", "ten"), ("seed", 1.5), ("note", 3), ("shapes", "1p"), ("minutes", "soon")])
def test_a_value_of_another_type_is_refused_with_the_value_met(key, value):
    with pytest.raises(ConfigError) as caught:
        Whole.parse({key: value})
    assert str(caught.value).startswith(f"'{key}': Input should be ")
    assert str(caught.value).endswith(f"(got {value!r})")


def test_every_problem_is_named_with_the_file_one_line_each(tmp_path):
    path = tmp_path / "config.toml"
    path.write_text("seed = 'x'\nnotes = 'y'\n")
    with pytest.raises(ConfigError) as caught:
        read_toml(path, Whole)
    first, second = str(caught.value).splitlines()
    assert first.startswith(f"{path}: 'seed': ")
    assert second == f"{path}: unknown key 'notes'. Did you mean 'note'?"


def test_settings_replace_single_values_and_are_read_as_toml_or_else_as_text():
    changed = Whole().with_settings(["train.batch_size=64", " train.schedule = cosine", "note=a=b", "shapes=['1p']", "minutes=2"])
    assert changed == Whole(note="a=b", shapes=["1p"], minutes=2, train=Train(batch_size=64, schedule="cosine"))
    assert changed.with_settings([]) == changed


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("seed", "a setting is key=value, found 'seed'"),
        ("train.learning_rat=1", "unknown key 'train.learning_rat'. Did you mean 'train.learning_rate'?"),
        ("trian.batch_size=1", "unknown key 'trian.batch_size'. Did you mean 'train.batch_size'?"),
        ("seed.x=1", "unknown key 'seed.x'. Did you mean 'seed'?"),
        ("train.batch_size=many", "(got 'many')"),
    ],
)
def test_a_setting_that_is_not_understood_is_refused(setting, message):
    with pytest.raises(ConfigError) as caught:
        Whole().with_settings([setting])
    assert message in str(caught.value)


def test_replace_changes_single_values_and_refuses_unknown_keys():
    changed = Whole(note="n").replace(seed=3, shapes=["1p"], train={"batch_size": 64})
    assert changed == Whole(note="n", seed=3, shapes=["1p"], train=Train(batch_size=64))
    assert changed.replace() == changed
    for wrong, message in (
        ({"sead": 1}, "'sead'. Did you mean 'seed'"),
        ({"train": {"learning_rat": 1}}, "'train.learning_rat'. Did you mean"),
    ):
        with pytest.raises(ConfigError, match=message):
            changed.replace(**wrong)
    with pytest.raises(ConfigError, match="got 'many'"):
        changed.replace(train={"batch_size": "many"})


def test_a_section_cannot_be_changed_in_place():
    with pytest.raises(ValueError, match="frozen"):
        Whole().seed = 3


@pytest.mark.parametrize(("content", "message"), [(b"seed = ", "not a TOML file"), (b"note = '\xe9'", "not a TOML file")])
def test_a_file_that_is_not_toml_is_refused(tmp_path, content, message):
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=message):
        read_toml(path, Whole)


def test_a_missing_file_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match=r"nowhere\.toml: cannot read the configuration \(No such file or directory\)"):
        read_toml(tmp_path / "nowhere.toml", Whole)


def test_known_keys_are_dotted_and_in_order():
    assert known_keys(Train, "train.") == ["train.learning_rate", "train.batch_size", "train.schedule"]

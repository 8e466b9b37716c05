"""The presets of the paper: every cell of its table of hyper-parameters."""

import pytest

from starqe.learn import as_run, preset

COLUMNS = ("starqe", "reification", "triple-only", "zero-layers", "mpqe-like", "mpqe-like-reification", "emql-like", "q2b-like")
TABLE = {
    "activation": "leaky-relu relu relu relu prelu relu leaky-relu leaky-relu",
    "optimiser": "adam adam adam adam adam adam adam adam",
    "learning rate": "0.0007741 0.003768 0.007253 0.0008733 0.0005256 0.0001414 0.007253 0.002075",
    "batch size": "64 32 32 64 128 32 128 32",
    "pooling": "target sum sum sum target target target sum",
    "weighting": "attention attention attention symmetric attention symmetric symmetric attention",
    "similarity": "dot power-norm power-norm power-norm dot dot dot power-norm",
    "layers": "3 2 2 2 3 3 3 3",
    "bias": "True True True False False False False True",
    "width": "192 224 224 160 128 96 256 224",
    "dropout": "0.5 0.3 0.3 0.3 0.5 0.2 0.3 0.1",
    "composition": "multiply multiply multiply multiply multiply multiply multiply multiply",
}
"""The paper's table, in our words: one line per hyper-parameter, one value per column."""

WITH_A_REASON = {
    ("layers", "zero-layers"): "0",  # no layer is what the row is about; the 2 in its column says nothing
    ("pooling", "zero-layers"): "sum-with-values",  # the authors' sum has the qualifier values, and this model sees them nowhere else
}
"""Where a preset differs from the table on purpose."""


def cells(column: str) -> dict[str, str]:
    recipe = preset(column)
    model, train = recipe.model, recipe.train
    assert model.pair_composition == model.edge_composition
    return {
        "activation": model.activation,
        "optimiser": "adamw" if train.weight_decay else "adam",
        "learning rate": str(train.learning_rate),
        "batch size": str(train.batch),
        "pooling": model.pooling,
        "weighting": model.weighting,
        "similarity": model.similarity,
        "layers": str(model.layers),
        "bias": str(model.bias),
        "width": str(model.width),
        "dropout": str(model.dropout),
        "composition": model.edge_composition,
    }


@pytest.mark.parametrize("column", COLUMNS)
def test_a_preset_has_every_cell_of_its_column(column: str) -> None:
    published = {name: line.split()[COLUMNS.index(column)] for name, line in TABLE.items()}
    expected = {name: WITH_A_REASON.get((name, column), value) for name, value in published.items()}
    assert cells(column) == expected


@pytest.mark.parametrize("column", COLUMNS)
def test_as_run_changes_what_the_table_leaves_open_and_nothing_of_the_table(column: str) -> None:
    table, ran = preset(column), as_run(preset(column))
    names = {"symmetric": "degree-sum", "attention": "shared-attention", "sum": "sum-with-values"}
    expected = {
        "batch_norm": True,
        "initial": "xavier",
        "weighting": names[table.model.weighting],
        "pooling": names.get(table.model.pooling, table.model.pooling),
    }
    assert ran.model.model_dump() == {**table.model.model_dump(), **expected}
    stopping = {"choose_by": "pooled Hits@10", "keep": "gained", "drop_last": True}
    assert ran.train.model_dump() == {**table.train.model_dump(), **stopping}
    assert (ran.train.patience, ran.train.delta, ran.train.loss, ran.train.validation_queries) == (5, 0.02, "binary", 3_500)


def test_the_table_is_whole() -> None:
    assert len(COLUMNS) == 8
    assert [len(line.split()) for line in TABLE.values()] == [8] * 12

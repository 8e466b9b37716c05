import pytest
import torch

from starqe.reason import NORMS

VALUES = torch.linspace(0, 1, 11)


@pytest.mark.parametrize(
    ("norm", "expected"), [("product", [0.32, 0.0, 0.4]), ("goedel", [0.4, 0.0, 0.4]), ("lukasiewicz", [0.2, 0.0, 0.4])]
)
def test_norms_by_hand(norm, expected):
    found = NORMS[norm](torch.tensor([0.8, 0.0, 1.0]), torch.tensor([0.4, 0.9, 0.4]), None)
    assert found.tolist() == pytest.approx(expected)


@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_is_commutative_associative_and_monotone_and_one_is_neutral(norm):
    join = NORMS[norm]
    a, b, c = VALUES[:, None, None], VALUES[None, :, None], VALUES[None, None, :]
    torch.testing.assert_close(join(a, b, None), join(b, a, None))
    torch.testing.assert_close(join(join(a, b, None), c, None), join(a, join(b, c, None), None))
    table = join(VALUES[:, None], VALUES[None, :], None)
    assert (table.diff(dim=0) >= 0).all()
    assert table[-1].tolist() == VALUES.tolist()
    assert table[0].tolist() == [0] * 11


@pytest.mark.parametrize("norm", NORMS)
def test_a_small_truth_joined_with_a_fact_stays_as_it_is(norm):
    small = torch.tensor([1e-9, 1e-30])
    assert NORMS[norm](small, torch.ones(2), None).tolist() == NORMS[norm](torch.ones(2), small, None).tolist() == small.tolist()


@pytest.mark.parametrize("norm", NORMS)
def test_a_norm_writes_into_the_given_buffer_also_if_that_is_an_argument(norm):
    expected = NORMS[norm](VALUES, VALUES.flip(0), None)
    own = VALUES.clone()
    assert NORMS[norm](own, VALUES.flip(0), own) is own
    assert own.tolist() == expected.tolist()

import torch

from starqe.experiments.reasoning.measurements import behind
from starqe.ragged import Ragged


def test_known_answers_come_last_where_that_is_asked_for() -> None:
    scores = torch.tensor([[0.5, 0.9, 0.1], [0.5, 0.9, 0.1]])
    found = behind(scores, Ragged.of_lists([[1], []]))
    assert found[0].argsort(descending=True).tolist() == [0, 2, 1]
    assert torch.equal(found[1], scores[1])
    assert scores[0, 1] == 0.9

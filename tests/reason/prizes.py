"""A graph of six statements about prizes, and a predictor for which every answer is equally probable."""

import torch

from starqe.kg import Statement, graph_of
from starqe.queries.gaps import Gaps

PRIZES = graph_of(
    [
        Statement("curie", "award", "nobel", (("when", "1911"), ("field", "chemistry"))),
        Statement("curie", "award", "nobel", (("when", "1903"), ("field", "physics"))),
        Statement("curie", "award", "davy"),
        Statement("curie", "bornIn", "warsaw"),
        Statement("meitner", "bornIn", "vienna"),
        Statement("meitner", "award", "davy"),
    ]
)


class Even:
    """Gives every answer the probability 0.25."""

    def probabilities(self, _gaps: Gaps, out: torch.Tensor) -> torch.Tensor:
        return out.fill_(0.25)

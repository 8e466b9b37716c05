"""How it is answered: one query in, known and predicted answers out, with reasons."""

from starqe.ask.answerer import Answerer
from starqe.ask.answers import Answer, Answers, Contribution, Explanation, Reason
from starqe.ask.prepare import calibrate, drawn_queries, fit, with_validation

__all__ = ["Answer", "Answerer", "Answers", "Contribution", "Explanation", "Reason", "calibrate", "drawn_queries", "fit", "with_validation"]

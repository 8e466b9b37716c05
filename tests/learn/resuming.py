"""Training in two parts: some steps, and later the rest."""

from starqe.learn.train import Trainer


def train_steps(trainer: Trainer, steps: int) -> None:
    """Trains the first steps, each with a checkpoint if that is due."""
    batches = trainer.lesson.batches(0)
    for _ in range(steps):
        trainer.step(next(batches))
        trainer._tick()


def train_the_rest(trainer: Trainer, step: int) -> None:
    """Resumes a training, which must be at this step, and ends it."""
    assert trainer.resume()
    assert trainer.counters.step == step
    trainer.train()

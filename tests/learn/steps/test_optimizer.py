"""Steps of Adam: those of torch to the last bit, without its compiler."""

import subprocess
import sys

import torch
from torch import nn

from starqe.learn.config import TrainConfig
from starqe.learn.steps.optimizer import Optimizer

STEPS = """
import sys, torch
from starqe.learn.config import TrainConfig
from starqe.learn.steps.optimizer import Optimizer
model = torch.nn.Linear(3, 2)
optimizer = Optimizer(model, None, TrainConfig(), 0)
optimizer.begin()
model(torch.ones(1, 3)).sum().backward()
optimizer.step({}, 0.1, torch.tensor(1.0), 0)
optimizer.state()
print("torch._dynamo" in sys.modules)
"""


def test_steps_are_those_of_torch():
    config = TrainConfig(weight_decay=0.1, clip=0.0)
    torch.manual_seed(0)
    one, other = nn.Linear(3, 2), nn.Linear(3, 2)
    other.load_state_dict(one.state_dict())
    optimizer, adam = Optimizer(one, None, config, 0), torch.optim.AdamW(other.parameters(), lr=0.05, weight_decay=0.1, fused=True)
    for done in range(5):
        given = torch.randn(4, 3)
        optimizer.begin()
        adam.zero_grad()
        for model in (one, other):
            model(given).square().sum().backward()
        optimizer.step({}, 0.05, torch.tensor(1.0), done)
        adam.step()
    assert all(torch.equal(left, right) for left, right in zip(one.parameters(), other.parameters(), strict=True))


def test_a_training_does_not_import_the_compiler_of_torch():
    said = subprocess.run([sys.executable, "-c", STEPS], capture_output=True, text=True, check=True).stdout
    assert said == "False\n"

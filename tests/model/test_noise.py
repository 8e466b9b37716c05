import torch

from starqe.model.noise import drop


def test_without_noise_nothing_is_dropped():
    values = torch.ones(3, 5)
    assert drop(values, 0.5, None) is values


def test_the_same_generator_drops_the_same_values():
    one, other = (drop(torch.ones(30, 7), 0.5, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one, other)
    assert not torch.equal(one, drop(torch.ones(30, 7), 0.5, torch.Generator().manual_seed(4)))


def test_a_draw_moves_the_generator_on():
    noise = torch.Generator().manual_seed(3)
    assert not torch.equal(drop(torch.ones(30, 7), 0.5, noise), drop(torch.ones(30, 7), 0.5, noise))


def test_the_share_and_the_mean_are_kept():
    dropped = drop(torch.ones(1000, 301), 0.3, torch.Generator().manual_seed(0))
    assert abs((dropped == 0).double().mean() - 0.3) < 0.005
    assert abs(dropped.mean() - 1) < 0.005
    assert sorted(set(dropped.flatten().tolist())) == [0.0, torch.tensor(65536 / (65536 - 19661)).item()]


def test_every_position_is_dropped_alike():
    dropped = drop(torch.ones(20000, 4), 0.75, torch.Generator().manual_seed(0))
    assert ((dropped == 0).double().mean(0) - 0.75).abs().max() < 0.02


def test_gradients_pass_where_values_stay():
    values = torch.ones(50, 4, requires_grad=True)
    dropped = drop(values, 0.5, torch.Generator().manual_seed(0))
    dropped.sum().backward()
    assert torch.equal(values.grad, dropped.detach())

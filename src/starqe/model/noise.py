"""Dropout with the caller's random generator, so that a resumed run uses the same masks."""

import torch
from torch import Tensor

_LEVELS = 2**16


def drop(values: Tensor, rate: float, noise: torch.Generator | None) -> Tensor:
    """Sets each value to zero with the probability `rate` and scales the others by 1 / (1 - rate); without noise, changes nothing.

    The probability is rounded to 16 bits: four values share one 64-bit draw, which is ten times as fast as one draw each.
    """
    if noise is None or rate == 0 or not values.numel():
        return values
    return values * keep_mask(values, rate, noise)


def keep_mask(values: Tensor, rate: float, noise: torch.Generator) -> Tensor:
    """Samples the factors of dropout: 0, or 1 / (the probability of staying)."""
    dropped = min(round(rate * _LEVELS), _LEVELS - 1)
    draws = torch.empty(-(-values.numel() // 4), dtype=torch.int64, device=values.device)
    draws.random_(-(2**63), None, generator=noise)
    bits = draws.view(torch.int16)[: values.numel()].view(values.shape)  # uniform on -2^15 … 2^15 - 1
    return (bits >= dropped - _LEVELS // 2).to(values.dtype).mul_(_LEVELS / (_LEVELS - dropped))


_LOST = 13  # bits of the mantissa of float32 that float16 has no place for


def round_to_half(values: Tensor, noise: torch.Generator) -> Tensor:
    """Rounds float32 to one of the two nearest float16 at random, so that the mean is the value itself; overwrites the values.

    Numbers below 6e-5, the subnormal ones of float16, are rounded to the nearest.
    """
    draws = torch.empty(-(-values.numel() // 4), dtype=torch.int64, device=values.device)
    draws.random_(-(2**63), None, generator=noise)
    bits = values.view(torch.int32)
    bits.add_(draws.view(torch.int16)[: values.numel()].view(values.shape).bitwise_and_(2**_LOST - 1))
    return bits.bitwise_and_(-(2**_LOST)).view(torch.float32).half()

"""The compositions γ: a node and a relation become one vector."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

Compose = Callable[[Tensor, Tensor], Tensor]

SMALLEST_MODULUS = 1e-6


def complex_multiply(node: Tensor, relation: Tensor) -> Tensor:
    """Multiplies complex numbers: the first half of a vector holds the real parts, the second half the imaginary parts."""
    node_re, node_im = node.chunk(2, dim=-1)
    re, im = relation.chunk(2, dim=-1)
    return torch.cat([node_re * re - node_im * im, node_re * im + node_im * re], dim=-1)


def rotate(node: Tensor, relation: Tensor) -> Tensor:
    """Turns each complex number of the node by the angle of the relation's: a product with r / |r|.

    A number of the relation closer to zero than `SMALLEST_MODULUS` has no reliable angle, and scales the node down instead.
    """
    re, im = relation.chunk(2, dim=-1)
    modulus = (re.square() + im.square()).clamp_min(SMALLEST_MODULUS**2).sqrt()
    return complex_multiply(node, torch.cat([re / modulus, im / modulus], dim=-1))


def circular_correlation(node: Tensor, relation: Tensor) -> Tensor:
    """Returns c_k = Σ_i node_i · relation_(i+k), indices modulo the width."""
    return _by_spectrum(node, relation, lambda one, other: one.conj() * other)


def circular_convolution(node: Tensor, relation: Tensor) -> Tensor:
    """Returns c_k = Σ_i node_i · relation_(k-i), indices modulo the width."""
    return _by_spectrum(node, relation, torch.mul)


def _by_spectrum(node: Tensor, relation: Tensor, combine: Compose) -> Tensor:
    if not node.numel():
        return node * relation  # the Fourier transform does not accept zero rows
    spectrum = combine(torch.fft.rfft(node), torch.fft.rfft(relation))
    return torch.fft.irfft(spectrum, n=node.shape[-1])  # type: ignore[no-any-return]


COMPOSE: Mapping[str, Compose] = {
    "multiply": torch.mul,
    "complex": complex_multiply,
    "rotate": rotate,
    "correlate": circular_correlation,
    "convolve": circular_convolution,
    "subtract": torch.sub,
}
"""Both γ_q (a pair's value with its relation) and γ_r (a node with a qualified relation) are chosen from here."""


def _one_and_zeros(ones: int, width: int) -> Tensor:
    return torch.cat([torch.ones(ones), torch.zeros(width - ones)])


NEUTRAL: Mapping[str, Callable[[int], Tensor]] = {
    "multiply": torch.ones,
    "complex": lambda width: _one_and_zeros(width // 2, width),
    "rotate": lambda width: _one_and_zeros(width // 2, width),
    "correlate": lambda width: _one_and_zeros(1, width),
    "convolve": lambda width: _one_and_zeros(1, width),
    "subtract": torch.zeros,
}
"""The relation of a given width that leaves a node unchanged (for "correlate", up to the order of its features)."""

"""The gradients of a subject in a precision, and their errors against those in F64."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from models.spec import Batch

ATTEMPTS = 24
"""Backward passes after which an overflow of the scaled loss is given up; each halves the scale."""

NEGLIGIBLE = 1e-6
"""The share of all gradients' norm below which a parameter's gradient counts as zero.

That of a bias before a softmax or a norm is zero but for rounding. The number is the same in
`examples/lab/src/bin/footprint/gradients.rs`.
"""

Gradients = dict[str, Tensor]
"""By the names of the parameters; `input` is that of the input, where it is computed."""


def gradients(
    model: nn.Module, batch: Batch, loss: Callable[[nn.Module, Batch], Tensor], scale: float = 1.0
) -> Gradients:
    """Returns the gradients of `loss`; a `scale` above 1 is halved until nothing overflows."""
    for _ in range(ATTEMPTS):
        model.zero_grad(set_to_none=True)
        for tensor in batch.values():
            tensor.grad = None
        (loss(model, batch) * scale).backward()
        found = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        found |= {"input": tensor.grad for tensor in batch.values() if tensor.requires_grad}
        if all(gradient.isfinite().all() for gradient in found.values()):
            return {name: gradient.double() / scale for name, gradient in found.items()}
        scale /= 2
    raise OverflowError(f"the scaled loss overflowed {ATTEMPTS} times")


def in_f64(model: nn.Module, batch: Batch) -> Batch:
    """Turns the model into F64 and returns the batch in F64."""
    model.double()
    return {
        name: tensor.detach().double().requires_grad_(tensor.requires_grad)
        if tensor.is_floating_point() else tensor
        for name, tensor in batch.items()
    }


class Relative(NamedTuple):
    """Relative errors of one draw, in the 2-norm."""

    overall: float
    parameters: dict[str, float]
    """Of the parameters whose gradients are not negligible."""


def relative(ours: Gradients, exact: Gradients) -> Relative:
    norms = {name: gradient.norm().item() for name, gradient in exact.items()}
    total = math.hypot(*norms.values())
    differences = {name: (ours[name] - exact[name]).norm().item() for name in exact}
    large = [name for name, norm in norms.items() if norm > NEGLIGIBLE * total]
    parameters = {name: differences[name] / norms[name] for name in large}
    return Relative(math.hypot(*differences.values()) / total, parameters)


def over_draws(draws: list[Relative]) -> dict:
    """The root mean squares over several draws: over all parameters, and the largest of a single one.

    One draw says little about a net with ReLU: its error is that of the few units whose sign rounding changes.
    """
    names = {name for draw in draws for name in draw.parameters}
    errors = {
        name: _root_mean_square([d.parameters[name] for d in draws if name in d.parameters])
        for name in sorted(names)
    }
    worst = max(errors, key=errors.get)
    return {
        "overall": _root_mean_square([draw.overall for draw in draws]),
        "largest": errors[worst],
        "parameter": worst,
    }


def _root_mean_square(values: list[float]) -> float:
    return math.hypot(*values) / math.sqrt(len(values))

"""The bytes that autograd saves for the backward pass."""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class Saved(NamedTuple):
    """Bytes of storages, each counted once."""

    kept: int
    """Without parameters and buffers, which exist anyway, and without `weight_casts`."""

    weight_casts: int
    """Of copies of parameters in another dtype, which are per step, not per item."""


def saved_bytes(
    forward: Callable[[], Tensor],
    parameters: Iterable[Tensor],
    buffers: Iterable[Tensor],
    context: AbstractContextManager,
) -> Saved:
    """Runs the forward pass and returns the bytes that its graph saves, and its output holds.

    `parameters` and `buffers` do not count.
    """
    parameters = list(parameters)
    ignored = {_place(tensor) for tensor in [*parameters, *buffers]}
    saved: dict[int, Tensor] = {}  # one tensor of each storage, kept alive so that no place is reused

    def pack(tensor: Tensor) -> Tensor:
        saved[_place(tensor)] = tensor.detach()
        return tensor

    casts = WeightCasts({_place(parameter) for parameter in parameters})
    with context, torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), casts:
        output = forward()
    saved[_place(output)] = output
    sizes = {
        place: tensor.untyped_storage().nbytes()
        for place, tensor in saved.items()
        if place not in ignored
    }
    weight_casts = sum(size for place, size in sizes.items() if place in casts.made)
    return Saved(sum(sizes.values()) - weight_casts, weight_casts)


class WeightCasts(TorchDispatchMode):
    """Notes the storages that parameters are cast to."""

    def __init__(self, parameters: set[int]) -> None:
        super().__init__()
        self.parameters = parameters
        self.made: dict[int, Tensor] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if func is torch.ops.aten._to_copy.default and _place(args[0]) in self.parameters:
            self.made[_place(result)] = result
        return result


def _place(tensor: Tensor) -> int:
    """Where the tensor's storage lies, the same for all its views."""
    return tensor.untyped_storage().data_ptr()

"""A row of the zoo: how to build a model, draw its batches, and train it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

Batch = dict[str, Tensor]
"""Named inputs and targets; the first one is the model's main input, whose shape is reported."""


def _whole(model: nn.Module) -> nn.Module:
    return model


def _nothing(model: nn.Module) -> None:
    pass


@dataclass(frozen=True)
class Objective:
    """One loss, the part of the model its update changes, and what follows the update."""

    name: str
    loss: Callable[[Any, Batch], Tensor]
    part: Callable[[Any], nn.Module] = _whole
    after: Callable[[Any], None] = _nothing


@dataclass(frozen=True)
class Spec:
    """A row of the zoo. A training step updates by each objective, in order."""

    build: Callable[[Any], nn.Module]
    full: Callable[[], Any]
    tiny: Callable[[], Any]
    batch: Callable[[Any, int, torch.Generator], Batch]
    output: Callable[[Any, Batch], Tensor]
    objectives: tuple[Objective, ...]
    batch_size_full: int
    batch_size_tiny: int

    def config(self, size: str) -> Any:
        return {"full": self.full, "tiny": self.tiny}[size]()

    def batch_size(self, size: str) -> int:
        return {"full": self.batch_size_full, "tiny": self.batch_size_tiny}[size]


def count_parameters(model: nn.Module) -> int:
    """Trainable scalars; running statistics of norms do not count."""
    return sum(p.numel() for p in model.parameters())

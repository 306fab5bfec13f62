"""A recurrent layer over a sequence of features, classified by its last state."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .spec import Batch

LAYERS = {"lstm": nn.LSTM, "bilstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}


@dataclass(frozen=True)
class RecurrentConfig:
    cell: str
    features: int
    width: int
    seq_len: int
    classes: int = 10

    @classmethod
    def full(cls, cell: str) -> "RecurrentConfig":
        return cls(cell, features=128, width=512, seq_len=128)

    @classmethod
    def tiny(cls, cell: str) -> "RecurrentConfig":
        return cls(cell, features=8, width=16, seq_len=12)


class Recurrent(nn.Module):
    def __init__(self, config: RecurrentConfig) -> None:
        super().__init__()
        directions = 2 if config.cell == "bilstm" else 1
        layer = LAYERS[config.cell](
            config.features, config.width, batch_first=True, bidirectional=directions == 2
        )
        self.cell = config.cell
        self.add_module(config.cell, layer)
        self.head = nn.Linear(directions * config.width, config.classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits `[batch, classes]` of features `[batch, length, features]`."""
        _, state = self.get_submodule(self.cell)(x)
        hidden = state[0] if isinstance(state, tuple) else state
        return self.head(hidden.transpose(0, 1).flatten(1))


def batch(config: RecurrentConfig, batch_size: int, generator: torch.Generator) -> Batch:
    shape = (batch_size, config.seq_len, config.features)
    return {
        "x": torch.randn(shape, generator=generator),
        "target": torch.randint(config.classes, (batch_size,), generator=generator),
    }


def output(model: Recurrent, batch: Batch) -> Tensor:
    return model(batch["x"])


def loss(model: Recurrent, batch: Batch) -> Tensor:
    return F.cross_entropy(output(model, batch), batch["target"])

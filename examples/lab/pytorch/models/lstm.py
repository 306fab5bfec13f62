"""One LSTM layer over a sequence of features, classified by its last state."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .spec import Batch


@dataclass(frozen=True)
class LstmConfig:
    features: int
    width: int
    seq_len: int
    classes: int = 10

    @classmethod
    def full(cls) -> "LstmConfig":
        return cls(features=128, width=512, seq_len=128)

    @classmethod
    def tiny(cls) -> "LstmConfig":
        return cls(features=8, width=16, seq_len=12)


class Lstm(nn.Module):
    def __init__(self, config: LstmConfig) -> None:
        super().__init__()
        self.lstm = nn.LSTM(config.features, config.width, batch_first=True)
        self.head = nn.Linear(config.width, config.classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits `[batch, classes]` of features `[batch, length, features]`."""
        states, _ = self.lstm(x)
        return self.head(states[:, -1])


def batch(config: LstmConfig, batch_size: int, generator: torch.Generator) -> Batch:
    shape = (batch_size, config.seq_len, config.features)
    return {
        "x": torch.randn(shape, generator=generator),
        "target": torch.randint(config.classes, (batch_size,), generator=generator),
    }


def output(model: Lstm, batch: Batch) -> Tensor:
    return model(batch["x"])


def loss(model: Lstm, batch: Batch) -> Tensor:
    return F.cross_entropy(output(model, batch), batch["target"])

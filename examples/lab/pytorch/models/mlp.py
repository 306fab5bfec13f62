"""Multi-layer perceptron with ReLU, in three sizes."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .spec import Batch


@dataclass(frozen=True)
class MlpConfig:
    """Widths from the input features to the classes."""

    widths: tuple[int, ...]

    @classmethod
    def full(cls) -> "MlpConfig":
        """116,058 parameters."""
        return cls((784, 128, 112, 10))

    @classmethod
    def full_medium(cls) -> "MlpConfig":
        """2,515,850 parameters."""
        return cls((784, 1024, 1024, 640, 10))

    @classmethod
    def full_large(cls) -> "MlpConfig":
        """159,422,464 parameters: nine square layers and a head of 2048 classes."""
        return cls((4096,) * 10 + (2048,))

    @classmethod
    def tiny(cls) -> "MlpConfig":
        return cls((784, 32, 24, 10))

    @classmethod
    def tiny_medium(cls) -> "MlpConfig":
        return cls((784, 64, 64, 40, 10))

    @classmethod
    def tiny_large(cls) -> "MlpConfig":
        return cls((64,) * 10 + (32,))


class Mlp(nn.Module):
    def __init__(self, config: MlpConfig) -> None:
        super().__init__()
        pairs = zip(config.widths, config.widths[1:])
        self.layers = nn.ModuleList(nn.Linear(d_in, d_out) for d_in, d_out in pairs)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


def batch(config: MlpConfig, batch_size: int, generator: torch.Generator) -> Batch:
    return {
        "x": torch.randn(batch_size, config.widths[0], generator=generator),
        "target": torch.randint(config.widths[-1], (batch_size,), generator=generator),
    }


def output(model: Mlp, batch: Batch) -> Tensor:
    return model(batch["x"])


def loss(model: Mlp, batch: Batch) -> Tensor:
    return F.cross_entropy(output(model, batch), batch["target"])

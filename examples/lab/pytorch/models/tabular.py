"""Feed-forward net over tabular data: embedded categorical columns and numeric ones."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .spec import Batch


@dataclass(frozen=True)
class TabularConfig:
    cardinalities: tuple[int, ...]
    embedding_width: int
    numeric_columns: int
    hidden: tuple[int, ...]

    @classmethod
    def full(cls) -> "TabularConfig":
        return cls((10_000, 5_000, 1_000, 500, 200, 100, 50, 10), 16, 16, (512, 256))

    @classmethod
    def tiny(cls) -> "TabularConfig":
        return cls((20, 10, 5), 8, 8, (32, 16))


class Tabular(nn.Module):
    def __init__(self, config: TabularConfig) -> None:
        super().__init__()
        width = config.embedding_width
        self.embeddings = nn.ModuleList(nn.Embedding(n, width) for n in config.cardinalities)
        d_input = width * len(config.cardinalities) + config.numeric_columns
        widths = (d_input, *config.hidden, 1)
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, categorical: Tensor, numeric: Tensor) -> Tensor:
        """Logits `[batch]` of `categorical` indices `[batch, columns]` and `numeric` values."""
        columns = [embed(categorical[:, i]) for i, embed in enumerate(self.embeddings)]
        x = torch.cat([*columns, numeric], dim=1)
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x).squeeze(1)


def batch(config: TabularConfig, batch_size: int, generator: torch.Generator) -> Batch:
    columns = [torch.randint(n, (batch_size,), generator=generator) for n in config.cardinalities]
    return {
        "categorical": torch.stack(columns, dim=1),
        "numeric": torch.randn(batch_size, config.numeric_columns, generator=generator),
        "target": torch.randint(2, (batch_size,), generator=generator).float(),
    }


def output(model: Tabular, batch: Batch) -> Tensor:
    return model(batch["categorical"], batch["numeric"])


def loss(model: Tabular, batch: Batch) -> Tensor:
    return F.binary_cross_entropy_with_logits(output(model, batch), batch["target"])

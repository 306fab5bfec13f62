"""ConvNeXt (Liu et al. 2022): depthwise convolutions, then a feed-forward net over the channels of each place."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .spec import Batch

EPSILON = 1e-6  # of all layer norms
SCALE = 1e-6  # the factor of each block's result at the beginning


@dataclass(frozen=True)
class ConvNextConfig:
    depths: tuple[int, int, int, int] = (3, 3, 9, 3)
    width: int = 96
    classes: int = 1000
    image: int = 224

    @classmethod
    def full(cls) -> "ConvNextConfig":
        """ConvNeXt-T: 28,589,128 parameters."""
        return cls()

    @classmethod
    def tiny(cls) -> "ConvNextConfig":
        return cls((1, 1, 2, 1), width=8, classes=10, image=64)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, EPSILON)
        self.inner = nn.Linear(width, 4 * width)
        self.outer = nn.Linear(4 * width, width)
        self.scale = nn.Parameter(torch.full((width,), SCALE))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.outer(F.gelu(self.inner(y))) * self.scale
        return x + y.permute(0, 3, 1, 2)


class Stage(nn.Module):
    """Fewer places and more channels, then the blocks. The first makes patches of the image and norms them afterwards."""

    def __init__(self, d_in: int, d_out: int, depth: int, is_first: bool) -> None:
        super().__init__()
        side = 4 if is_first else 2
        self.norm = nn.LayerNorm(d_out if is_first else d_in, EPSILON)
        self.patches = nn.Conv2d(d_in, d_out, side, side)
        self.blocks = nn.ModuleList(Block(d_out) for _ in range(depth))
        self.is_first = is_first

    def forward(self, x: Tensor) -> Tensor:
        if self.is_first:
            x = self._normed(self.patches(x))
        else:
            x = self.patches(self._normed(x))
        for block in self.blocks:
            x = block(x)
        return x

    def _normed(self, x: Tensor) -> Tensor:
        return self.norm(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    def __init__(self, config: ConvNextConfig) -> None:
        super().__init__()
        widths = [3, *(config.width * 2**level for level in range(4))]
        self.stages = nn.ModuleList(
            Stage(d_in, d_out, depth, d_in == 3)
            for d_in, d_out, depth in zip(widths, widths[1:], config.depths)
        )
        self.norm = nn.LayerNorm(widths[-1], EPSILON)
        self.fc = nn.Linear(widths[-1], config.classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits `[batch, classes]` of images `[batch, 3, height, width]`."""
        for stage in self.stages:
            x = stage(x)
        return self.fc(self.norm(x.mean(dim=(2, 3))))


def batch(config: ConvNextConfig, batch_size: int, generator: torch.Generator) -> Batch:
    return {
        "x": torch.randn(batch_size, 3, config.image, config.image, generator=generator),
        "target": torch.randint(config.classes, (batch_size,), generator=generator),
    }


def output(model: ConvNext, batch: Batch) -> Tensor:
    return model(batch["x"])


def loss(model: ConvNext, batch: Batch) -> Tensor:
    return F.cross_entropy(output(model, batch), batch["target"])

"""MobileNetV2 (Sandler et al. 2018): depthwise convolutions between 1x1 ones."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .spec import Batch

STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
"""Expansion, channels, blocks, stride."""


@dataclass(frozen=True)
class MobileNetConfig:
    thinner: int = 1
    depth: int = 4
    classes: int = 1000
    image: int = 224

    @classmethod
    def full(cls) -> "MobileNetConfig":
        """3,504,872 parameters."""
        return cls()

    @classmethod
    def tiny(cls) -> "MobileNetConfig":
        return cls(thinner=4, depth=1, classes=10, image=64)


class ConvNorm(nn.Module):
    """A convolution without bias that keeps the size at stride 1, and batch norm."""

    def __init__(self, d_in: int, d_out: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(d_in, d_out, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(d_out)

    def forward(self, x: Tensor) -> Tensor:
        return self.bn(self.conv(x))


class Block(nn.Module):
    """An inverted residual: to more channels, over each of them by itself, to fewer channels."""

    def __init__(self, d_in: int, d_out: int, expansion: int, stride: int) -> None:
        super().__init__()
        inner = d_in * expansion
        self.expand = ConvNorm(d_in, inner, 1) if expansion > 1 else None
        self.depthwise = ConvNorm(inner, inner, 3, stride, inner)
        self.project = ConvNorm(inner, d_out, 1)
        self.adds = stride == 1 and d_in == d_out

    def forward(self, x: Tensor) -> Tensor:
        y = x if self.expand is None else F.relu6(self.expand(x))
        y = self.project(F.relu6(self.depthwise(y)))
        return x + y if self.adds else y


class MobileNet(nn.Module):
    def __init__(self, config: MobileNetConfig) -> None:
        super().__init__()
        first, last = 32 // config.thinner, 1280 // config.thinner
        self.first = ConvNorm(3, first, 3, 2)
        blocks, d_in = [], first
        for expansion, channels, count, stride in STAGES:
            d_out = channels // config.thinner
            for index in range(min(count, config.depth)):
                blocks.append(Block(d_in, d_out, expansion, stride if index == 0 else 1))
                d_in = d_out
        self.blocks = nn.ModuleList(blocks)
        self.last = ConvNorm(d_in, last, 1)
        self.fc = nn.Linear(last, config.classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits `[batch, classes]` of images `[batch, 3, height, width]`."""
        x = F.relu6(self.first(x))
        for block in self.blocks:
            x = block(x)
        x = F.relu6(self.last(x))
        return self.fc(x.mean(dim=(2, 3)))


def batch(config: MobileNetConfig, batch_size: int, generator: torch.Generator) -> Batch:
    return {
        "x": torch.randn(batch_size, 3, config.image, config.image, generator=generator),
        "target": torch.randint(config.classes, (batch_size,), generator=generator),
    }


def output(model: MobileNet, batch: Batch) -> Tensor:
    return model(batch["x"])


def loss(model: MobileNet, batch: Batch) -> Tensor:
    return F.cross_entropy(output(model, batch), batch["target"])

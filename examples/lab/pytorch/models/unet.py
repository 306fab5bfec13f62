"""U-Net (Ronneberger et al. 2015) with batch norm and same-size convolutions."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .spec import Batch


@dataclass(frozen=True)
class UNetConfig:
    width: int
    image: int
    levels: int = 4
    channels: int = 3

    @classmethod
    def full(cls) -> "UNetConfig":
        """7,763,041 parameters."""
        return cls(width=32, image=256)

    @classmethod
    def tiny(cls) -> "UNetConfig":
        return cls(width=4, image=32)


class DoubleConv(nn.Module):
    """Twice: 3x3 convolution without bias, batch norm, ReLU."""

    def __init__(self, d_in: int, d_out: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(d_in, d_out, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(d_out)
        self.conv2 = nn.Conv2d(d_out, d_out, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(d_out)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(x)))


class UNet(nn.Module):
    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        widths = [config.width * 2**level for level in range(config.levels + 1)]
        encoder = zip([config.channels, *widths[:-2]], widths[:-1])
        self.down = nn.ModuleList(DoubleConv(d_in, d_out) for d_in, d_out in encoder)
        self.bottom = DoubleConv(widths[-2], widths[-1])
        rising = widths[-2::-1]  # from the deepest skip to the first
        self.up = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, stride=2) for w in rising)
        self.merge = nn.ModuleList(DoubleConv(2 * w, w) for w in rising)
        self.head = nn.Conv2d(config.width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Logits `[batch, 1, height, width]`; the sides must be multiples of `2**levels`."""
        skips = []
        for level in self.down:
            x = level(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.bottom(x)
        for up, merge, skip in zip(self.up, self.merge, reversed(skips)):
            x = merge(torch.cat([up(x), skip], dim=1))
        return self.head(x)


def batch(config: UNetConfig, batch_size: int, generator: torch.Generator) -> Batch:
    """Random images; the mask is where the mean over their channels is positive."""
    x = torch.randn(batch_size, config.channels, config.image, config.image, generator=generator)
    return {"x": x, "target": (x.mean(dim=1, keepdim=True) > 0).float()}


def output(model: UNet, batch: Batch) -> Tensor:
    return model(batch["x"])


def loss(model: UNet, batch: Batch) -> Tensor:
    return F.binary_cross_entropy_with_logits(output(model, batch), batch["target"])

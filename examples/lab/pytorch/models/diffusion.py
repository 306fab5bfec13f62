"""The U-Net of a diffusion model (Ho et al. 2020): group norms, attention, and the time as an input of each block."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import SelfAttention
from .spec import Batch

GROUPS, HEADS, TIMES = 8, 4, 1000


@dataclass(frozen=True)
class DiffusionConfig:
    width: int = 128
    image: int = 32
    levels: int = 3
    sdpa: bool = False

    @classmethod
    def full(cls) -> "DiffusionConfig":
        """27,008,259 parameters."""
        return cls()

    @classmethod
    def tiny(cls) -> "DiffusionConfig":
        return cls(width=8, image=8, levels=2)


def _conv(d_in: int, d_out: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(d_in, d_out, 3, stride, padding=1)


class Residual(nn.Module):
    """Two convolutions, between which the time is added, and a shortcut."""

    def __init__(self, d_in: int, d_out: int, time: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(GROUPS, d_in), _conv(d_in, d_out)
        self.time = nn.Linear(time, d_out)
        self.norm2, self.conv2 = nn.GroupNorm(GROUPS, d_out), _conv(d_out, d_out)
        self.shortcut = nn.Identity() if d_in == d_out else nn.Conv2d(d_in, d_out, 1)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        y = y + self.time(F.silu(time))[:, :, None, None]
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(y)))


class Attention(nn.Module):
    """Attention between all places, added to its input."""

    def __init__(self, channels: int, sdpa: bool) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, channels)
        self.attention = SelfAttention(channels, HEADS, sdpa)

    def forward(self, x: Tensor) -> Tensor:
        y = self.attention(self.norm(x).flatten(2).transpose(1, 2))
        return x + y.transpose(1, 2).reshape(x.shape)


class Level(nn.Module):
    """A resolution, on the way down or up."""

    def __init__(self, residual: Residual, attention: nn.Module, resize: nn.Module | None) -> None:
        super().__init__()
        self.residual, self.attention, self.resize = residual, attention, resize

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        return self.attention(self.residual(x, time))


class Diffusion(nn.Module):
    def __init__(self, config: DiffusionConfig) -> None:
        super().__init__()
        self.width = config.width
        time = 4 * config.width
        widths = [config.width * 2**level for level in range(config.levels)]

        def level(d_in: int, d_out: int, has_attention: bool, resize: nn.Module | None = None) -> Level:
            attention = Attention(d_out, config.sdpa) if has_attention else nn.Identity()
            return Level(Residual(d_in, d_out, time), attention, resize)

        last = config.levels - 1
        self.time1, self.time2 = nn.Linear(config.width, time), nn.Linear(time, time)
        self.first = _conv(3, config.width)
        self.down = nn.ModuleList(
            level(widths[max(at - 1, 0)], width, at > 0, _conv(width, width, 2) if at < last else None)
            for at, width in enumerate(widths)
        )
        self.bottom = level(widths[-1], widths[-1], True)
        self.up = nn.ModuleList(
            level(2 * widths[at], widths[at], at > 0, _conv(widths[at], widths[at - 1]) if at > 0 else None)
            for at in reversed(range(config.levels))
        )
        self.norm = nn.GroupNorm(GROUPS, config.width)
        self.last = _conv(config.width, 3)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """The noise in images `[batch, 3, height, width]` at times `[batch]`."""
        time = waves(time, self.width).to(self.time1.weight.dtype)
        time = self.time2(F.silu(self.time1(time)))
        x = self.first(x)
        skips = []
        for level in self.down:
            x = level(x, time)
            skips.append(x)
            if level.resize is not None:
                x = level.resize(x)
        x = self.bottom(x, time)
        for level, skip in zip(self.up, reversed(skips)):
            x = level(torch.cat([x, skip], dim=1), time)
            if level.resize is not None:
                x = level.resize(F.interpolate(x, scale_factor=2.0))
        return self.last(F.silu(self.norm(x)))


def waves(time: Tensor, width: int) -> Tensor:
    """Sines and cosines of times, `[batch, width]`, with wavelengths up to 20,000 pi."""
    half = width // 2
    rates = torch.exp(torch.arange(half, device=time.device) * (-math.log(10_000) / half))
    angles = time.float()[:, None] * rates[None]
    return torch.cat([angles.sin(), angles.cos()], dim=1)


def batch(config: DiffusionConfig, batch_size: int, generator: torch.Generator) -> Batch:
    """Noise alone, half of which is to be predicted."""
    shape = (batch_size, 3, config.image, config.image)
    noise = torch.randn(shape, generator=generator)
    x = (noise + torch.randn(shape, generator=generator)) * math.sqrt(0.5)
    return {"x": x, "time": torch.randint(TIMES, (batch_size,), generator=generator), "noise": noise}


def output(model: Diffusion, batch: Batch) -> Tensor:
    return model(batch["x"], batch["time"])


def loss(model: Diffusion, batch: Batch) -> Tensor:
    return F.mse_loss(output(model, batch), batch["noise"])

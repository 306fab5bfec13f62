"""YOLOX-nano (Ge et al. 2021): a detector of depthwise convolutions, SiLUs and concatenations."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .spec import Batch

STRIDES = (8, 16, 32)
RARITY = 16  # one place in so many has an object


@dataclass(frozen=True)
class YoloxConfig:
    width: int = 16
    depth: int = 3
    classes: int = 80
    image: int = 416

    @classmethod
    def full(cls) -> "YoloxConfig":
        """912,159 parameters."""
        return cls()

    @classmethod
    def tiny(cls) -> "YoloxConfig":
        return cls(width=8, depth=1, classes=3, image=64)


class Conv(nn.Module):
    """A convolution without bias that keeps the size at stride 1, batch norm, SiLU."""

    def __init__(self, d_in: int, d_out: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(d_in, d_out, kernel, stride, kernel // 2, groups=groups, bias=False)
        self.bn = nn.BatchNorm2d(d_out, eps=1e-3)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.bn(self.conv(x)))


class Separable(nn.Module):
    """A 3x3 convolution over each channel by itself, then a 1x1 one."""

    def __init__(self, d_in: int, d_out: int, stride: int = 1) -> None:
        super().__init__()
        self.depthwise = Conv(d_in, d_in, 3, stride, d_in)
        self.pointwise = Conv(d_in, d_out, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.pointwise(self.depthwise(x))


class Bottleneck(nn.Module):
    def __init__(self, width: int, adds: bool) -> None:
        super().__init__()
        self.conv1, self.conv2, self.adds = Conv(width, width, 1), Separable(width, width), adds

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv2(self.conv1(x))
        return x + y if self.adds else y


class TwoWays(nn.Module):
    """Two ways, one of them through bottlenecks, that a convolution merges."""

    def __init__(self, d_in: int, d_out: int, blocks: int, adds: bool) -> None:
        super().__init__()
        inner = d_out // 2
        self.conv1, self.conv2 = Conv(d_in, inner, 1), Conv(d_in, inner, 1)
        self.blocks = nn.ModuleList(Bottleneck(inner, adds) for _ in range(blocks))
        self.conv3 = Conv(2 * inner, d_out, 1)

    def forward(self, x: Tensor) -> Tensor:
        through = self.conv1(x)
        for block in self.blocks:
            through = block(through)
        return self.conv3(torch.cat([through, self.conv2(x)], dim=1))


class Pyramid(nn.Module):
    """Max pools of three sizes beside their input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = Conv(width, width // 2, 1), Conv(2 * width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv1(x)
        pooled = [F.max_pool2d(x, side, 1, side // 2) for side in (5, 9, 13)]
        return self.conv2(torch.cat([x, *pooled], dim=1))


class Head(nn.Module):
    """Finds objects in one of the three maps."""

    def __init__(self, d_in: int, width: int, classes: int) -> None:
        super().__init__()
        self.stem = Conv(d_in, width, 1)
        self.class_convs = nn.ModuleList(Separable(width, width) for _ in range(2))
        self.frame_convs = nn.ModuleList(Separable(width, width) for _ in range(2))
        self.cls = nn.Conv2d(width, classes, 1)
        self.frame, self.object = nn.Conv2d(width, 4, 1), nn.Conv2d(width, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, 5 + classes, place]`."""
        x = self.stem(x)
        classes = frames = x
        for of_class, of_frame in zip(self.class_convs, self.frame_convs):
            classes, frames = of_class(classes), of_frame(frames)
        return torch.cat([self.frame(frames), self.object(frames), self.cls(classes)], dim=1).flatten(2)


class Yolox(nn.Module):
    def __init__(self, config: YoloxConfig) -> None:
        super().__init__()
        widths = [config.width * 2**level for level in range(5)]
        one, many = max(1, config.depth // 3), config.depth
        self.stem = Conv(12, widths[0], 3)
        self.down = nn.ModuleList(Separable(widths[at], widths[at + 1], 2) for at in range(4))
        self.stages = nn.ModuleList(
            TwoWays(widths[at + 1], widths[at + 1], blocks, adds=at < 3)
            for at, blocks in enumerate((one, many, many, one))
        )
        self.pyramid = Pyramid(widths[4])
        self.reduce = nn.ModuleList(Conv(widths[at], widths[at - 1], 1) for at in (4, 3))
        self.rising = nn.ModuleList(TwoWays(widths[at], widths[at - 1], one, False) for at in (4, 3))
        self.smaller = nn.ModuleList(Separable(widths[at], widths[at], 2) for at in (2, 3))
        self.falling = nn.ModuleList(TwoWays(widths[at + 1], widths[at + 1], one, False) for at in (2, 3))
        self.heads = nn.ModuleList(Head(widths[at], widths[2], config.classes) for at in (2, 3, 4))

    def forward(self, x: Tensor) -> Tensor:
        """`[batch, 5 + classes, place]`: center and size, a logit for an object, and one for each class."""
        quarters = [x[:, :, row::2, column::2] for column in (0, 1) for row in (0, 1)]
        x = self.stem(torch.cat(quarters, dim=1))
        maps = []
        for down, stage in zip(self.down, self.stages):
            x = down(x)
            if stage is self.stages[-1]:
                x = self.pyramid(x)
            x = stage(x)
            maps.append(x)
        reduced = []
        for reduce, merge, finer in zip(self.reduce, self.rising, maps[-2::-1]):
            x = reduce(x)
            reduced.append(x)
            x = merge(torch.cat([F.interpolate(x, scale_factor=2.0), finer], dim=1))
        found = [self.heads[0](x)]
        for smaller, merge, coarser, head in zip(self.smaller, self.falling, reversed(reduced), self.heads[1:]):
            x = merge(torch.cat([smaller(x), coarser], dim=1))
            found.append(head(x))
        return torch.cat(found, dim=2)


def batch(config: YoloxConfig, batch_size: int, generator: torch.Generator) -> Batch:
    """Images, with what is at each place of the net's maps, in an image all of one class. Which box belongs to which place
    is decided before."""
    places = sum((config.image // stride) ** 2 for stride in STRIDES)
    return {
        "x": torch.randn(batch_size, 3, config.image, config.image, generator=generator),
        "object": (torch.randint(RARITY, (batch_size, places), generator=generator) == 0).long(),
        "class": torch.randint(config.classes, (batch_size, 1), generator=generator).repeat(1, places),
        "frame": torch.randn(batch_size, 4, places, generator=generator),
    }


def output(model: Yolox, batch: Batch) -> Tensor:
    return model(batch["x"])


def loss(model: Yolox, batch: Batch) -> Tensor:
    """The binary cross entropies of objects and classes, and the distance to the boxes, where there are objects."""
    found = output(model, batch)
    frame = ((found[:, :4] - batch["frame"]).abs() * batch["object"][:, None]).mean()
    classes = F.one_hot(batch["class"], found.shape[1] - 5).transpose(1, 2).float()
    return (
        frame
        + F.binary_cross_entropy_with_logits(found[:, 4], batch["object"].float())
        + F.binary_cross_entropy_with_logits(found[:, 5:], classes)
    )

"""ResNet-18 and ResNet-50 (He et al. 2015); a bottleneck strides in its 3x3 convolution."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .spec import Batch


@dataclass(frozen=True)
class ResNetConfig:
    depths: tuple[int, int, int, int]
    bottleneck: bool
    width: int = 64
    classes: int = 1000
    image: int = 224

    @classmethod
    def full(cls) -> "ResNetConfig":
        """ResNet-18: 11,689,512 parameters."""
        return cls((2, 2, 2, 2), bottleneck=False)

    @classmethod
    def full_50(cls) -> "ResNetConfig":
        """ResNet-50: 25,557,032 parameters."""
        return cls((3, 4, 6, 3), bottleneck=True)

    @classmethod
    def tiny(cls) -> "ResNetConfig":
        return cls((2, 2, 2, 2), bottleneck=False, width=8, classes=10, image=64)

    @classmethod
    def tiny_50(cls) -> "ResNetConfig":
        return cls((3, 4, 6, 3), bottleneck=True, width=8, classes=10, image=64)


def _conv(d_in: int, d_out: int, kernel: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(d_in, d_out, kernel, stride, padding=kernel // 2, bias=False)


def _shortcut(d_in: int, d_out: int, stride: int) -> nn.Module:
    """The identity where shapes agree, else a 1x1 projection."""
    if stride == 1 and d_in == d_out:
        return nn.Identity()
    return nn.Sequential(_conv(d_in, d_out, 1, stride), nn.BatchNorm2d(d_out))


class BasicBlock(nn.Module):
    expansion = 1

    def __init__(self, d_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv(d_in, width, 3, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _conv(width, width, 3), nn.BatchNorm2d(width)
        self.downsample = _shortcut(d_in, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.downsample(x))


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, d_in: int, width: int, stride: int) -> None:
        super().__init__()
        d_out = width * self.expansion
        self.conv1, self.bn1 = _conv(d_in, width, 1), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _conv(width, width, 3, stride), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = _conv(width, d_out, 1), nn.BatchNorm2d(d_out)
        self.downsample = _shortcut(d_in, d_out, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class ResNet(nn.Module):
    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        block = Bottleneck if config.bottleneck else BasicBlock
        self.conv1, self.bn1 = _conv(3, config.width, 7, stride=2), nn.BatchNorm2d(config.width)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        channels = config.width
        stages = []
        for level, depth in enumerate(config.depths):
            width = config.width * 2**level
            stage = []
            for index in range(depth):
                stride = 2 if level > 0 and index == 0 else 1
                stage.append(block(channels, width, stride))
                channels = width * block.expansion
            stages.append(nn.Sequential(*stage))
        self.layer1, self.layer2, self.layer3, self.layer4 = stages
        self.fc = nn.Linear(channels, config.classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.pool(F.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def batch(config: ResNetConfig, batch_size: int, generator: torch.Generator) -> Batch:
    return {
        "x": torch.randn(batch_size, 3, config.image, config.image, generator=generator),
        "target": torch.randint(config.classes, (batch_size,), generator=generator),
    }


def output(model: ResNet, batch: Batch) -> Tensor:
    return model(batch["x"])


def loss(model: ResNet, batch: Batch) -> Tensor:
    return F.cross_entropy(output(model, batch), batch["target"])

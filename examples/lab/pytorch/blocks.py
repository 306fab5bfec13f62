"""The parts that nets are made of, one by one, as a user of PyTorch writes them.

`examples/lab/src/bin/footprint/blocks` has the same blocks with the same shapes and names of parameters.
A block's loss is the mean of its output times fixed weights: autograd saves nothing for it but those
weights, and each element of the output has another gradient.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.spec import Batch, Objective, Spec


class Projections(nn.Module):
    """Three projections of one activation, added up."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 64, bias=False) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        x = x * 1.5
        q, k, v = (layer(x) for layer in self.layers)
        return q + k + v


class Rotary(nn.Module):
    """Rotary position embedding of neighbouring pairs, as in Llama."""

    def __init__(self, length: int, width: int) -> None:
        super().__init__()
        frequencies = torch.exp(torch.arange(0, width, 2) * (-math.log(10_000.0) / width))
        angles = torch.arange(length)[:, None] * frequencies
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        even, odd = x[..., ::2], x[..., 1::2]
        rotated = (even * self.cos - odd * self.sin, odd * self.cos + even * self.sin)
        return torch.stack(rotated, -1).flatten(-2)


class Attention(nn.Module):
    """Attention of one tensor as query, key and value."""

    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x)


class SelfAttention(nn.Module):
    """Multi-head self-attention, without the weights that no training step reads."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(128, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


class Layers(nn.Module):
    """Linear layers with bias, each followed by an activation."""

    def __init__(self, count: int, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(256, 256) for _ in range(count))
        self.activation = activation

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = self.activation(layer(x))
        return x


class GatedUnit(nn.Module):
    """`silu(a x) (b x)`."""

    def __init__(self) -> None:
        super().__init__()
        self.linear_inner = nn.Linear(256, 512, bias=False)
        self.linear_outer = nn.Linear(256, 512, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.linear_inner(x)) * self.linear_outer(x)


class Norm(nn.Module):
    """RMS norm alone."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(256, eps=1e-5)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x)


class Llama(nn.Module):
    """The feed-forward half of a Llama layer: RMS norm, SwiGLU, and the residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(256, eps=1e-5)
        self.gate = nn.Linear(256, 512, bias=False)
        self.up = nn.Linear(256, 512, bias=False)
        self.down = nn.Linear(512, 256, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Residual(nn.Module):
    """The basic block of a ResNet."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(32, 32, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(32)
        self.conv2 = nn.Conv2d(32, 32, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(32)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.norm2(self.conv2(y)) + x)


class Grouped(nn.Module):
    """Convolution, group norm and SiLU, as in diffusion models."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(32, 32, 3, padding=1, bias=False)
        self.norm = nn.GroupNorm(8, 32)

    def forward(self, x: Tensor) -> Tensor:
        return F.silu(self.norm(self.conv(x)))


class Recurrent(nn.Module):
    """An LSTM; its output is that of every step."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(64, 64, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.lstm(x)[0]


class Shape(NamedTuple):
    """The configuration of a block: the shapes of its input and output.

    `input_requires_grad` says whether the gradient of the input is computed too: it is where the block
    has no parameters, or where its input is an activation in the nets that it is a part of.
    """

    input: tuple[int, ...]
    output: tuple[int, ...]
    input_requires_grad: bool


def batch(shape: Shape, times: int, generator: torch.Generator) -> Batch:
    """`times` as many items as the shapes say."""

    def normal(first: int, *others: int) -> Tensor:
        return torch.randn(times * first, *others, generator=generator)

    return {
        "x": normal(*shape.input).requires_grad_(shape.input_requires_grad),
        "weights": normal(*shape.output),
    }


def output(model: nn.Module, batch: Batch) -> Tensor:
    return model(batch["x"])


def loss(model: nn.Module, batch: Batch) -> Tensor:
    return (output(model, batch) * batch["weights"]).mean()


def _block(build: Callable[[], nn.Module], x: tuple[int, ...], y=None, grad: bool = False) -> Spec:
    shape = Shape(x, y or x, grad)
    return Spec(
        lambda _: build(), lambda: shape, lambda: shape, batch, output,
        (Objective("loss", loss),), 1, 1,
    )


ROWS = (1024, 256)
SEQUENCES = (8, 128, 256)
IMAGES = (4, 32, 32, 32)

BLOCKS: dict[str, Spec] = {
    "qkv": _block(Projections, SEQUENCES, (8, 128, 64), grad=True),
    "rope": _block(lambda: Rotary(256, 64), (4, 4, 256, 64), grad=True),
    "attention": _block(Attention, (2, 4, 256, 32), grad=True),
    "mha": _block(SelfAttention, (2, 256, 128), grad=True),
    "relu-mlp": _block(lambda: Layers(2, F.relu), ROWS),
    "tanh": _block(lambda: Layers(1, torch.tanh), ROWS),
    "softplus": _block(lambda: Layers(1, F.softplus), ROWS),
    "mish": _block(lambda: Layers(1, F.mish), ROWS),
    "swiglu": _block(GatedUnit, ROWS, (1024, 512), grad=True),
    "rms-norm": _block(Norm, SEQUENCES, grad=True),
    "llama-mlp": _block(Llama, SEQUENCES, grad=True),
    "bn-residual": _block(Residual, IMAGES),
    "gn-silu": _block(Grouped, IMAGES),
    "lstm-block": _block(Recurrent, (32, 32, 64)),
}

"""Wasserstein GAN with weight clipping (Arjovsky et al. 2017) over DCGAN-like nets.

One training step is one update of the critic and one of the generator, on the same noise.
The critic has no norms: clipping would hold their scales at the clip value.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .spec import Batch

CLIP = 0.01  # bound of the critic's weights, from the paper
SLOPE = 0.2  # of the leaky ReLU, from DCGAN


@dataclass(frozen=True)
class WganConfig:
    """Images of side `4 * 2**doublings`; `width` is the channels of their finest feature map."""

    doublings: int
    width: int
    latent: int
    channels: int = 3

    @property
    def image(self) -> int:
        return 4 * 2**self.doublings

    @classmethod
    def full(cls) -> "WganConfig":
        return cls(doublings=4, width=64, latent=128)

    @classmethod
    def tiny(cls) -> "WganConfig":
        return cls(doublings=2, width=8, latent=16)


class Generator(nn.Module):
    def __init__(self, config: WganConfig) -> None:
        super().__init__()
        widths = [config.width * 2**i for i in reversed(range(config.doublings))]
        layers = [nn.ConvTranspose2d(config.latent, widths[0], 4, bias=False)]
        for d_in, d_out in zip(widths, widths[1:]):
            layers.append(nn.ConvTranspose2d(d_in, d_out, 4, stride=2, padding=1, bias=False))
        self.layers = nn.ModuleList(layers)
        self.norms = nn.ModuleList(nn.BatchNorm2d(width) for width in widths)
        self.head = nn.ConvTranspose2d(config.width, config.channels, 4, stride=2, padding=1)

    def forward(self, noise: Tensor) -> Tensor:
        """Images in -1..1 of noise `[batch, latent]`."""
        x = noise[:, :, None, None]
        for layer, norm in zip(self.layers, self.norms):
            x = F.relu(norm(layer(x)))
        return torch.tanh(self.head(x))


class Critic(nn.Module):
    def __init__(self, config: WganConfig) -> None:
        super().__init__()
        widths = [config.channels, *(config.width * 2**i for i in range(config.doublings))]
        self.layers = nn.ModuleList(
            nn.Conv2d(d_in, d_out, 4, stride=2, padding=1)
            for d_in, d_out in zip(widths, widths[1:])
        )
        self.head = nn.Conv2d(widths[-1], 1, 4)

    def forward(self, x: Tensor) -> Tensor:
        """Scores `[batch]`, unbounded."""
        for layer in self.layers:
            x = F.leaky_relu(layer(x), SLOPE)
        return self.head(x).flatten()


class Wgan(nn.Module):
    def __init__(self, config: WganConfig) -> None:
        super().__init__()
        self.generator = Generator(config)
        self.critic = Critic(config)


def batch(config: WganConfig, batch_size: int, generator: torch.Generator) -> Batch:
    shape = (batch_size, config.channels, config.image, config.image)
    return {
        "images": torch.rand(shape, generator=generator) * 2 - 1,
        "noise": torch.randn(batch_size, config.latent, generator=generator),
    }


def output(model: Wgan, batch: Batch) -> Tensor:
    """The generated images."""
    return model.generator(batch["noise"])


def critic_loss(model: Wgan, batch: Batch) -> Tensor:
    """Returns minus the estimated distance: the mean score of generated minus that of real images."""
    with torch.no_grad():
        generated = output(model, batch)
    return model.critic(generated).mean() - model.critic(batch["images"]).mean()


def generator_loss(model: Wgan, batch: Batch) -> Tensor:
    return -model.critic(output(model, batch)).mean()


@torch.no_grad()
def clip_critic(model: Wgan) -> None:
    for parameter in model.critic.parameters():
        parameter.clamp_(-CLIP, CLIP)

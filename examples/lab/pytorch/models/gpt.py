"""GPT-2-small decoder (Radford et al. 2019) with erf GELU and an untied head without bias."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import FeedForward, SelfAttention, future
from .spec import Batch


@dataclass(frozen=True)
class GptConfig:
    vocab_size: int = 50_257
    positions: int = 1024
    seq_len: int = 1024
    width: int = 768
    layers: int = 12
    heads: int = 12
    inner_width: int = 3072
    sdpa: bool = False

    @classmethod
    def full(cls) -> "GptConfig":
        """163,037,184 parameters."""
        return cls()

    @classmethod
    def tiny(cls) -> "GptConfig":
        return cls(64, positions=32, seq_len=16, width=32, layers=2, heads=4, inner_width=128)


class Block(nn.Module):
    """Attention and feed-forward, each over its normed input and added to it."""

    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = SelfAttention(config.width, config.heads, config.sdpa)
        self.norm2 = nn.LayerNorm(config.width)
        self.feed_forward = FeedForward(config.width, config.inner_width)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x), hidden)
        return x + self.feed_forward(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, config: GptConfig) -> None:
        super().__init__()
        self.token = nn.Embedding(config.vocab_size, config.width)
        self.position = nn.Embedding(config.positions, config.width)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        self.register_buffer("future", future(config.positions), persistent=False)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits `[batch, length, vocabulary]` of indices `[batch, length]`."""
        length = tokens.shape[1]
        x = self.token(tokens) + self.position(torch.arange(length, device=tokens.device))
        hidden = self.future[:length, :length]
        for block in self.blocks:
            x = block(x, hidden)
        return self.head(self.norm(x))


def batch(config: GptConfig, batch_size: int, generator: torch.Generator) -> Batch:
    """Random text; the target of a position is the token after it."""
    text = torch.randint(
        config.vocab_size, (batch_size, config.seq_len + 1), generator=generator
    )
    return {"tokens": text[:, :-1].contiguous(), "target": text[:, 1:].contiguous()}


def output(model: Gpt, batch: Batch) -> Tensor:
    return model(batch["tokens"])


def loss(model: Gpt, batch: Batch) -> Tensor:
    return F.cross_entropy(output(model, batch).flatten(0, 1), batch["target"].flatten())

"""BERT-base encoder (Devlin et al. 2018) with an untied linear head over the vocabulary."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .attention import FeedForward, SelfAttention
from .spec import Batch

EPSILON = 1e-12  # of the layer norms, as in the published model


@dataclass(frozen=True)
class BertConfig:
    vocab_size: int = 30_522
    positions: int = 512
    types: int = 2
    seq_len: int = 128
    width: int = 768
    layers: int = 12
    heads: int = 12
    inner_width: int = 3072
    sdpa: bool = False

    @classmethod
    def full(cls) -> "BertConfig":
        """132,363,066 parameters."""
        return cls()

    @classmethod
    def tiny(cls) -> "BertConfig":
        return cls(64, positions=32, seq_len=16, width=32, layers=2, heads=4, inner_width=128)


class Layer(nn.Module):
    """Attention and feed-forward, each added to its input and normed after."""

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.width, config.heads, config.sdpa)
        self.norm1 = nn.LayerNorm(config.width, EPSILON)
        self.feed_forward = FeedForward(config.width, config.inner_width)
        self.norm2 = nn.LayerNorm(config.width, EPSILON)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.feed_forward(x))


class Bert(nn.Module):
    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.token = nn.Embedding(config.vocab_size, config.width)
        self.position = nn.Embedding(config.positions, config.width)
        self.token_type = nn.Embedding(config.types, config.width)
        self.norm = nn.LayerNorm(config.width, EPSILON)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.head = nn.Linear(config.width, config.vocab_size)

    def forward(self, tokens: Tensor, types: Tensor) -> Tensor:
        """Logits `[batch, length, vocabulary]` of indices `[batch, length]`."""
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.token(tokens) + self.position(positions) + self.token_type(types)
        x = self.norm(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def batch(config: BertConfig, batch_size: int, generator: torch.Generator) -> Batch:
    shape = (batch_size, config.seq_len)
    return {
        "tokens": torch.randint(config.vocab_size, shape, generator=generator),
        "types": torch.randint(config.types, shape, generator=generator),
        "target": torch.randint(config.vocab_size, shape, generator=generator),
    }


def output(model: Bert, batch: Batch) -> Tensor:
    return model(batch["tokens"], batch["types"])


def loss(model: Bert, batch: Batch) -> Tensor:
    """Mean cross-entropy over all positions, masked or not."""
    return F.cross_entropy(output(model, batch).flatten(0, 1), batch["target"].flatten())

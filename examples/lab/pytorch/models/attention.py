"""Multi-head self-attention and the feed-forward net that follows it in a transformer."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F


def attention(q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
    """softmax(q k^T / sqrt(d)) v, where `hidden` marks the pairs that must not see each other."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if hidden is not None:
        scores = scores.masked_fill(hidden, -math.inf)
    return torch.softmax(scores, dim=-1) @ v


def future(length: int) -> Tensor:
    """`[length, length]`, true where a key (column) lies after its query (row)."""
    return torch.ones(length, length, dtype=torch.bool).triu(diagonal=1)


class SelfAttention(nn.Module):
    """Four linear layers with bias; heads lie side by side in the width."""

    def __init__(self, width: int, heads: int, sdpa: bool) -> None:
        super().__init__()
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.output = nn.Linear(width, width), nn.Linear(width, width)
        self.heads = heads
        self.sdpa = sdpa

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        """`hidden`, where given, must be `future(length)`: the fused path is causal then."""
        n, length, width = x.shape
        q, k, v = (
            project(x).view(n, length, self.heads, -1).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        if self.sdpa:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=hidden is not None)
        else:
            y = attention(q, k, v, hidden)
        return self.output(y.transpose(1, 2).reshape(n, length, width))


class FeedForward(nn.Module):
    """Linear, GELU in its erf form, linear."""

    def __init__(self, width: int, inner_width: int) -> None:
        super().__init__()
        self.inner = nn.Linear(width, inner_width)
        self.outer = nn.Linear(inner_width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.outer(F.gelu(self.inner(x)))

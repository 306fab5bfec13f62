"""Counts the kernels of a training step and the bytes that they move, without a GPU and without computing anything.

    python traffic.py --out ../../../xtask/cuda/pytorch.jsonl

A step of each model at full size runs on fake tensors, which have a shape and no values, under the rules of CUDA's autocast
(`cuda_rules.py`). Each op that PyTorch dispatches is a kernel, or the kernels of `PASSES`, and reads its operands and writes its
results once, as `cargo xtask cuda dry` counts ours: an operand that is read and written counts twice, one that is expanded
counts as what is stored, a view counts nothing. Matrix products, convolutions and fused attention count as launches, and their bytes
do not count. AdamW is the fused one. Recurrent layers are left out, since cuDNN's kernels are its own.
"""

import argparse
import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from math import ceil
from pathlib import Path

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from cuda_rules import CudaRules
from models.spec import Batch, Spec
from models.zoo import ZOO
from runs import Choice
from training import LEARNING_RATE

PRECISIONS = {"tf32": None, "amp-bf16": torch.bfloat16}
"""The dtype of autocast. TF32 operands lie in memory as F32."""

PRODUCTS = frozenset(
    "mm addmm bmm baddbmm convolution convolution_backward _scaled_dot_product_flash_attention_for_cpu "
    "_scaled_dot_product_flash_attention_for_cpu_backward".split()
)

NO_KERNEL = frozenset(
    "empty empty_like empty_strided new_empty new_empty_strided _local_scalar_dense _unsafe_view".split()
)
ONLY_WRITTEN = frozenset("zero_ fill_ zeros_like ones_like full_like".split())

MOST_TENSORS, MOST_BLOCKS, BLOCK = 36, 320, 65536
"""Of a launch of the fused AdamW: tensors, blocks, and elements of a block, as in PyTorch's `MultiTensorApply.cuh`."""


class Traffic(TorchDispatchMode):
    """Adds up launches, and bytes besides products."""

    def __init__(self) -> None:
        super().__init__()
        self.launches = 0
        self.bytes = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        result = func(*args, **kwargs)
        name = func._schema.name.removeprefix("aten::")
        if func.namespace == "aten" and name not in NO_KERNEL and not _is_view(func):
            self._count(name, func, args, kwargs, result)
        return result

    def _count(self, name: str, func, args, kwargs, result) -> None:
        operands = [list(_tensors(value)) for value in [*args, *kwargs.values()]]
        reads = _size({_key(tensor): tensor for tensors in operands for tensor in tensors})
        written = {_key(tensor): tensor for tensor in _tensors(result)}
        for argument, tensors in zip(func._schema.arguments, operands):
            if argument.alias_info is not None and argument.alias_info.is_write:
                written |= {_key(tensor): tensor for tensor in tensors}
        writes = _size(written)
        if name in PRODUCTS:
            self.launches += _products(name, args)
        elif name == "_fused_adamw_":
            self.launches += _launches_of_adam(operands[0])
            self.bytes += reads + writes - _size({_key(tensor): tensor for tensor in operands[1]})
        else:
            self.launches += 1
            self.bytes += writes if name in ONLY_WRITTEN else reads + writes
        if name == "convolution_backward" and args[-1][2]:  # the gradient of a bias
            self.launches += 1
            self.bytes += _size({0: args[0]})


def _is_view(func) -> bool:
    """Whether the op returns a part of its operand and writes nothing."""
    returns = func._schema.returns
    return bool(returns) and all(
        value.alias_info is not None and not value.alias_info.is_write for value in returns
    )


def _tensors(value) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _key(tensor: Tensor):
    return tensor.untyped_storage()._cdata, tensor.storage_offset(), tuple(tensor.shape)


def _size(tensors: dict) -> int:
    """Bytes, of an expanded tensor those that are stored."""
    return sum(
        min(tensor.numel() * tensor.element_size(), tensor.untyped_storage().nbytes())
        for tensor in tensors.values()
    )


def _products(name: str, args) -> int:
    """The launches of a product or of those of a backward pass."""
    if name == "convolution_backward":
        return sum(args[-1][:2])
    return 2 if name.endswith("_backward") else 1


def _launches_of_adam(parameters: list[Tensor]) -> int:
    blocks = sum(ceil(parameter.numel() / BLOCK) for parameter in parameters)
    return max(ceil(len(parameters) / MOST_TENSORS), ceil(blocks / MOST_BLOCKS))


class Step:
    """A model with its optimizers, on fake tensors."""

    def __init__(self, spec: Spec, config, dtype: torch.dtype | None) -> None:
        self.spec, self.dtype = spec, dtype
        self.model = spec.build(config).train()
        self.optimizers = [
            torch.optim.AdamW(goal.part(self.model).parameters(), lr=LEARNING_RATE, fused=True)
            for goal in spec.objectives
        ]

    def run(self, batch: Batch) -> None:
        for goal, optimizer in zip(self.spec.objectives, self.optimizers):
            optimizer.zero_grad(set_to_none=True)
            with self._autocast(), CudaRules():
                loss = goal.loss(self.model, batch)
            loss.backward()
            optimizer.step()
            goal.after(self.model)

    def _autocast(self) -> AbstractContextManager:
        return torch.autocast("cpu", self.dtype) if self.dtype else nullcontext()


def count(name: str, precision: str, sdpa: bool, size: str = "full") -> dict:
    """Counts the second step of a model: the first one makes the optimizer's state."""
    choice = Choice.parse(name)
    spec = ZOO[choice.model]
    config = replace(spec.config(size), **choice.overrides)
    if sdpa:
        config = replace(config, sdpa=True)
    with FakeTensorMode(allow_non_fake_inputs=True):
        step = Step(spec, config, PRECISIONS[precision])
        batch = spec.batch(config, choice.batch_size or spec.batch_size(size), None)
        step.run(batch)
        with Traffic() as traffic:
            step.run(batch)
    return {
        "model": name, "precision": precision, "sdpa": sdpa,
        "launches": traffic.launches, "bytes_besides_products": traffic.bytes,
    }


def has_attention(name: str) -> bool:
    return hasattr(ZOO[Choice.parse(name).model].full(), "sdpa")


RECURRENT = ("lstm", "bilstm", "gru", "rnn")
MODELS = [*(name for name in ZOO if name not in RECURRENT), "bert:seq_len=512,batch_size=16"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", nargs="+", default=MODELS, metavar="NAME")
    parser.add_argument("--out", type=Path, required=True, help="file to write JSON lines to")
    args = parser.parse_args()
    lines = []
    for name in args.models:
        for precision in PRECISIONS:
            for sdpa in (False, True) if has_attention(name) else (False,):
                lines.append(count(name, precision, sdpa))
                print(lines[-1], flush=True)
    args.out.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()

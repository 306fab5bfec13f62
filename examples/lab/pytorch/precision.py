"""The precisions that are compared, as a table, and how PyTorch is set to each."""

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch

INITIAL_SCALE = 65536.0  # GradScaler's default


class Unsupported(Exception):
    """This PyTorch or device has no such precision or op."""


@dataclass(frozen=True)
class Precision:
    """`autocast` is the compute dtype, `scale` the (initial) loss scale; None is off."""

    autocast: torch.dtype | None = None
    tf32: bool = False
    scale: float | None = None
    static: bool = False


PRECISIONS: dict[str, Precision] = {
    "f32": Precision(),
    "tf32": Precision(tf32=True),
    "amp-bf16": Precision(torch.bfloat16),
    "amp-f16": Precision(torch.float16, scale=INITIAL_SCALE),
    "amp-f16-static-128": Precision(torch.float16, scale=128.0, static=True),
}


def require(precision: Precision, device: torch.device) -> None:
    """Raises `Unsupported` where PyTorch would silently measure something else."""
    if precision.tf32 and device.type != "cuda":
        raise Unsupported("tf32 is a mode of CUDA devices")
    if precision.tf32 and torch.cuda.get_device_capability(device) < (8, 0):
        raise Unsupported("tf32 needs compute capability 8.0")
    if precision.scale is not None and device.type == "cpu" and not _any_device_scaler():
        raise Unsupported("f16 autocast on the CPU needs PyTorch 2.3")


def set_tf32(on: bool) -> None:
    """Sets F32 matrix products and convolutions to TF32 or to full F32; for the whole process."""
    matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
    if hasattr(cudnn, "conv"):  # since PyTorch 2.9, where the older switches must not be mixed in
        matmul.fp32_precision = cudnn.conv.fp32_precision = cudnn.rnn.fp32_precision = (
            "tf32" if on else "ieee"
        )
    else:
        matmul.allow_tf32 = cudnn.allow_tf32 = on


def autocast(precision: Precision, device: torch.device) -> AbstractContextManager:
    on = precision.autocast is not None
    dtype = precision.autocast if on else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=on)


def scaler(precision: Precision, device: torch.device) -> Any:
    """A `GradScaler`, which passes everything through where there is no loss scale."""
    on = precision.scale is not None
    scale = precision.scale if on else 1.0
    if _any_device_scaler():
        return torch.amp.GradScaler(device.type, init_scale=scale, enabled=on)
    return torch.cuda.amp.GradScaler(init_scale=scale, enabled=on)


def update(scaler: Any, precision: Precision) -> None:
    """Ends a step: a static scale is put back, a dynamic one moves."""
    scaler.update(precision.scale if precision.static else None)


def _any_device_scaler() -> bool:
    return hasattr(torch.amp, "GradScaler")

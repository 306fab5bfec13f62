"""The rules of CUDA's autocast, for tensors on the CPU.

Autocast has a list of ops for each kind of device. The CPU's leaves softmax, the norms, softplus and sums
in the dtype of their input; CUDA's runs them in F32, and so autograd saves F32 operands. People train on
GPUs, so this mode casts as CUDA's list does (`AT_FORALL_FP32` and `AT_FORALL_FP32_SET_OPT_DTYPE` in
PyTorch's `autocast_mode.h`). Matrix products and convolutions are on both lists.

Two ops save less on CUDA than on the CPU, and the mode replaces them in every precision:

* RMS norm, where input and weight have the same dtype, is one kernel on CUDA, which saves its input and
  one number per row; the CPU composes it of several ops that save more.
* An LSTM saves the gates and the states of each step. oneDNN's work space on the CPU is twice as large,
  so PyTorch's own composition is measured instead. What cuDNN reserves cannot be measured on a CPU.
"""

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

F32_OPS = frozenset(
    "acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus "
    "layer_norm native_layer_norm group_norm cosine_similarity poisson_nll_loss cosine_embedding_loss "
    "nll_loss hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss "
    "margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss "
    "multi_margin_loss binary_cross_entropy_with_logits cross_entropy cross_entropy_loss dist pdist "
    "cdist renorm logsumexp prod softmax log_softmax cumprod cumsum sum norm".split()
)
LOW = (torch.bfloat16, torch.float16)


class FusedRmsNorm(torch.autograd.Function):
    """RMS norm as one node, over the last dimension."""

    @staticmethod
    def forward(context, x: Tensor, weight: Tensor, epsilon: float) -> Tensor:
        inverse = (x.square().mean(-1, keepdim=True) + epsilon).rsqrt()
        context.save_for_backward(x, weight, inverse)
        return x * inverse * weight

    @staticmethod
    def backward(context, gradient: Tensor):
        x, weight, inverse = context.saved_tensors
        normed = x * inverse
        scaled = gradient * weight
        dx = inverse * (scaled - normed * (scaled * normed).mean(-1, keepdim=True))
        return dx, (gradient * normed).flatten(0, -2).sum(0), None


class CudaRules(TorchFunctionMode):
    """Runs the ops of CUDA's list in F32 where autocast is on; autocast does the rest."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name == "rms_norm" and _is_fused(*args, **kwargs):
            return _fused_rms_norm(*args, **kwargs)
        if name == "lstm":
            with torch.backends.mkldnn.flags(enabled=False):
                return func(*args, **kwargs)
        if name in F32_OPS and torch.is_autocast_enabled("cpu"):
            args = [_widened(value) for value in args]
            kwargs = {key: _widened(value) for key, value in kwargs.items()}
        return func(*args, **kwargs)


def _is_fused(input: Tensor, normalized_shape, weight: Tensor | None = None, eps: float | None = None) -> bool:
    return weight is not None and weight.dtype == input.dtype and len(normalized_shape) == 1


def _fused_rms_norm(input: Tensor, normalized_shape, weight: Tensor, eps: float | None = None) -> Tensor:
    epsilon = torch.finfo(input.dtype).eps if eps is None else eps
    return FusedRmsNorm.apply(input, weight, epsilon)


def _widened(value):
    low = isinstance(value, Tensor) and value.dtype in LOW
    return value.float() if low else value

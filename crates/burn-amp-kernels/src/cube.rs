//! On CubeCL: the kernels.

pub(crate) mod row;
pub(crate) mod team;

use burn_amp_core::DynamicLossScale;
use burn_backend::{
    DType, FloatDType, TensorMetadata,
    tensor::{FloatTensor, IntTensor},
};
use burn_cubecl::{
    BoolElement, CubeBackend, CubeRuntime, FloatElement, IntElement, tensor::CubeTensor,
};

use crate::{
    Kernels, cross_entropy, finite,
    layer_norm::{self, LayerNorm, LayerNormGradients},
    log_softmax::{self, LogSoftmax},
    loss_scale,
    row::cast,
    softmax, unscale,
};

impl<R, F, I, BT> Kernels for CubeBackend<R, F, I, BT>
where
    R: CubeRuntime,
    F: FloatElement,
    I: IntElement,
    BT: BoolElement,
{
    fn not_finite(tensors: Vec<FloatTensor<Self>>) -> FloatTensor<Self> {
        match has_f64(&tensors) {
            true => finite::reference::<Self>(tensors),
            false => finite::not_finite(tensors),
        }
    }

    fn unscale(tensors: Vec<FloatTensor<Self>>, factor: f32) -> Vec<FloatTensor<Self>> {
        match has_f64(&tensors) {
            true => unscale::reference::<Self>(tensors, factor),
            false => unscale::unscale(tensors, factor),
        }
    }

    fn next_loss_scale(
        state: FloatTensor<Self>,
        flags: FloatTensor<Self>,
        scaling: DynamicLossScale,
    ) -> FloatTensor<Self> {
        loss_scale::next_loss_scale(state, flags, scaling)
    }

    fn unscale_unless_overflowed(
        gradient: FloatTensor<Self>,
        before: FloatTensor<Self>,
        after: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        match gradient.dtype {
            DType::F64 => loss_scale::reference_unscale::<Self>(gradient, before, after),
            _ => loss_scale::unscale_unless_overflowed(gradient, before, after),
        }
    }

    fn softmax_in_f32(x: FloatTensor<Self>, dim: usize) -> FloatTensor<Self> {
        if x.dtype == DType::F64 {
            return softmax::reference::<Self>(x, dim);
        }
        last(softmax::softmax(last(x, dim)), dim)
    }

    fn softmax_in_f32_backward(
        output: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        dim: usize,
    ) -> FloatTensor<Self> {
        if output.dtype == DType::F64 || grad.dtype == DType::F64 {
            return softmax::reference_backward::<Self>(output, grad, dim);
        }
        let dx = softmax::softmax_backward(last(output, dim), last(grad, dim));
        last(dx, dim)
    }

    fn log_softmax_in_f32(x: FloatTensor<Self>, dim: usize, dtype: FloatDType) -> LogSoftmax<Self> {
        if x.dtype == DType::F64 || dtype == FloatDType::F64 {
            return log_softmax::reference::<Self>(x, dim, dtype);
        }
        let (output, log_sum_exp) = log_softmax::log_softmax(last(x, dim), dtype.into());
        LogSoftmax {
            output: last(output, dim),
            log_sum_exp: last(log_sum_exp, dim),
        }
    }

    fn log_softmax_in_f32_backward(
        x: FloatTensor<Self>,
        log_sum_exp: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        dim: usize,
    ) -> FloatTensor<Self> {
        if x.dtype == DType::F64 || grad.dtype == DType::F64 {
            return log_softmax::reference_backward::<Self>(x, log_sum_exp, grad, dim);
        }
        let operands = [x, log_sum_exp, grad].map(|tensor| last(tensor, dim));
        let [x, log_sum_exp, grad] = operands;
        last(log_softmax::log_softmax_backward(x, log_sum_exp, grad), dim)
    }

    fn log_softmax_at_backward(
        x: FloatTensor<Self>,
        log_sum_exp: FloatTensor<Self>,
        targets: IntTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        if x.dtype == DType::F64 {
            return cross_entropy::reference_backward::<Self>(x, log_sum_exp, targets, grad);
        }
        let grad = cast::<Self>(grad, DType::F32);
        cross_entropy::log_softmax_at_backward(x, log_sum_exp, targets, grad)
    }

    fn layer_norm_in_f32(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Option<FloatTensor<Self>>,
        epsilon: f64,
    ) -> LayerNorm<Self> {
        if x.dtype == DType::F64 {
            return layer_norm::reference::<Self>(x, gamma, beta, epsilon);
        }
        let in_f32 = |tensor| cast::<Self>(tensor, DType::F32);
        let [output, mean, inverse_std] =
            layer_norm::layer_norm(x, in_f32(gamma), beta.map(in_f32), epsilon);
        LayerNorm {
            output,
            mean,
            inverse_std,
        }
    }

    fn layer_norm_in_f32_backward(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        mean: FloatTensor<Self>,
        inverse_std: FloatTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> LayerNormGradients<Self> {
        if x.dtype == DType::F64 || grad.dtype == DType::F64 {
            return layer_norm::reference_backward::<Self>(x, gamma, mean, inverse_std, grad);
        }
        let gamma = cast::<Self>(gamma, DType::F32);
        match layer_norm::layer_norm_backward(&x, &gamma, &mean, &inverse_std, &grad) {
            Some([x, gamma, beta]) => LayerNormGradients { x, gamma, beta },
            None => layer_norm::reference_backward::<Self>(x, gamma, mean, inverse_std, grad),
        }
    }
}

/// The kernels compute in F32.
fn has_f64<R: CubeRuntime>(tensors: &[CubeTensor<R>]) -> bool {
    tensors.iter().any(|tensor| tensor.dtype == DType::F64)
}

/// Swaps the dimension with the last one, to which the kernels are bound, or back.
fn last<R: CubeRuntime>(mut tensor: CubeTensor<R>, dim: usize) -> CubeTensor<R> {
    let rank = tensor.rank();
    tensor.meta.swap(dim, rank - 1);
    tensor
}

//! The operands of the kernels, made once per shape and dtype.

use burn::tensor::{
    DType, Distribution, FloatDType, Int, Shape, Tensor, TensorData, TensorPrimitive,
    backend::Backend,
    ops::{FloatTensor, IntTensor},
};
use burn_amp_kernels::{AmpBackend, layer_norm::LayerNorm, loss_scale};

/// The number of tensors in the lists of gradients.
const LIST: usize = 16;

pub struct Operands<F, I> {
    /// `[rows, columns]`, in low precision, as are all other operands unless they say otherwise.
    pub x: F,
    pub grad: F,
    pub softmax: F,
    /// F32.
    pub wide: F,
    /// F32, `[rows, 1]`.
    pub log_sum_exp: F,
    /// One per row, `[rows, 1]`.
    pub targets: I,
    /// F32, `[rows, 1]`.
    pub grad_of_rows: F,
    /// F32, `[columns]`.
    pub gamma: F,
    /// F32, `[rows, 1]`.
    pub mean: F,
    /// F32, `[rows, 1]`.
    pub inverse_std: F,
    /// As many elements as `x` together, low.
    pub low_list: Vec<F>,
    /// As many elements as `x` together, F32.
    pub wide_list: Vec<F>,
    /// The state of a loss scale, before and after a pass that did not overflow.
    pub state: F,
}

/// The operands in tensors of a backend.
pub type OperandsOf<B> = Operands<FloatTensor<B>, IntTensor<B>>;

/// Makes the operands.
pub fn operands<B: AmpBackend>(
    rows: usize,
    columns: usize,
    dtype: DType,
    device: &B::Device,
) -> OperandsOf<B> {
    let noise = |shape: [usize; 2]| {
        let tensor = Tensor::<B, 2>::random(shape, Distribution::Default, device);
        float(tensor)
    };
    let low = |tensor| B::float_cast(tensor, FloatDType::from(dtype));
    let x = low(noise([rows, columns]));
    let gamma = B::float_ones(Shape::new([columns]), device, FloatDType::F32);
    let LayerNorm {
        mean, inverse_std, ..
    } = burn_amp_kernels::layer_norm::forward::<B>(x.clone(), gamma.clone(), None, 1e-5, None);
    let wide = noise([rows, columns]);
    let parts = |tensor: &FloatTensor<B>| -> Vec<_> {
        let tensor = Tensor::<B, 2>::from_primitive(TensorPrimitive::Float(tensor.clone()));
        // Each gradient has its own buffer.
        tensor
            .chunk(LIST, 0)
            .into_iter()
            .map(|part| float(part.clone() + part))
            .collect()
    };
    let targets: Vec<i64> = (0..rows).map(|row| (row % columns) as i64).collect();
    let targets = Tensor::<B, 2, Int>::from_data(TensorData::new(targets, [rows, 1]), device);
    let state = [65536.0, 0.0, 1.0, 0.0, 0.0];
    assert_eq!(state.len(), loss_scale::STATE);
    Operands {
        log_sum_exp: burn_amp_kernels::log_softmax::forward::<B>(x.clone(), 1, FloatDType::F32)
            .log_sum_exp,
        grad: low(noise([rows, columns])),
        softmax: burn_amp_kernels::softmax::forward::<B>(
            x.clone(),
            1,
            burn_amp_kernels::softmax::ScaleMask::none(),
        ),
        targets: targets.into_primitive(),
        grad_of_rows: noise([rows, 1]),
        low_list: parts(&x),
        wide_list: parts(&wide),
        state: float(Tensor::<B, 1>::from_floats(state, device)),
        x,
        wide,
        gamma,
        mean,
        inverse_std,
    }
}

fn float<B: Backend, const D: usize>(tensor: Tensor<B, D>) -> FloatTensor<B> {
    tensor.into_primitive().tensor()
}

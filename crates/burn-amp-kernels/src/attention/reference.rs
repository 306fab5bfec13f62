use burn_backend::{get_device_settings, tensor::Device};

use super::Attention;
use crate::{
    prelude::*,
    scalar::{self, ScalarOp},
    softmax::{self, Mask, ScaleMask},
};

/// The dimension of the keys in the scores.
const KEYS: usize = 3;

/// Computes the gradients of the queries, the keys, the values and the bias from that of the output.
pub(super) fn gradients<B: AmpBackend>(
    operands: Attention<B>,
    grad: FloatTensor<B>,
) -> [Option<FloatTensor<B>>; 4] {
    let Attention {
        query,
        key,
        value,
        bias,
        ..
    } = operands.clone();
    let scale = scale(&operands);
    let Weights {
        probabilities,
        before,
        cap_slope,
    } = weights::<B>(operands);
    let dtype = query.dtype();
    let grad = cast::<B>(grad, dtype);
    let d_value = B::float_matmul(B::float_transpose(probabilities.clone()), grad.clone());
    let d_probabilities = B::float_matmul(grad, B::float_transpose(value));
    let is_scaled = before.is_some();
    let before = before.unwrap_or(ScaleMask::none());
    let mut d_products = softmax::backward::<B>(probabilities, d_probabilities, KEYS, before);
    let d_bias = bias.map(|bias| {
        let summed = summed_to::<B>(widen::<B>(d_products.clone()), &bias.shape());
        cast::<B>(summed, bias.dtype())
    });
    if let Some(slope) = cap_slope {
        d_products = cast::<B>(B::float_mul(widen::<B>(d_products), slope), dtype);
    }
    if !is_scaled {
        d_products = scalar::forward::<B>(d_products, ScalarOp::Mul, scale);
    }
    let d_query = B::float_matmul(d_products.clone(), key);
    let d_key = B::float_matmul(B::float_transpose(d_products), query);
    [Some(d_query), Some(d_key), Some(d_value), d_bias]
}

/// What the scores turn into.
pub(super) struct Weights<B: AmpBackend> {
    /// In the dtype of the queries.
    pub(super) probabilities: FloatTensor<B>,
    /// The factor and the mask, if the softmax applied them to the products. Then there is neither a bias nor a soft cap.
    before: Option<ScaleMask<BoolTensor<B>>>,
    /// The derivative of the soft cap, if there is one.
    cap_slope: Option<FloatTensor<B>>,
}

fn scale<B: AmpBackend>(operands: &Attention<B>) -> f64 {
    let width = operands.query.shape()[3];
    let scale = operands.options.scale;
    scale.unwrap_or_else(|| 1.0 / (width as f64).sqrt())
}

/// Computes the probabilities.
pub(super) fn weights<B: AmpBackend>(operands: Attention<B>) -> Weights<B> {
    let scale = scale(&operands);
    let Attention {
        query,
        key,
        mask,
        bias,
        options,
        ..
    } = operands;
    let dtype = query.dtype();
    let products = B::float_matmul(query, B::float_transpose(key));
    let [.., queries, keys] = products.shape().dims::<4>();
    let may_mask_a_row = mask.is_some() || bias.is_some() || options.is_causal && keys < queries;
    let device = device_of::<B>(&products);
    let later = || later::<B>([queries, keys], &device);
    if options.softcap.is_none() && !may_mask_a_row {
        let before = ScaleMask {
            scale: scale as f32,
            mask: options.is_causal.then(|| Mask {
                elements: later(),
                value: f32::NEG_INFINITY,
            }),
        };
        return Weights {
            probabilities: softmax::forward::<B>(products, KEYS, before.clone()),
            before: Some(before),
            cap_slope: None,
        };
    }
    let mut scores = scalar::forward::<B>(products, ScalarOp::Mul, scale);
    let mut cap_slope = None;
    if let Some(cap) = options.softcap {
        let (capped, slope) = capped::<B>(scores, cap);
        (scores, cap_slope) = (cast::<B>(capped, dtype), Some(slope));
    }
    if let Some(mask) = mask {
        scores = B::float_mask_fill(scores, mask, f32::NEG_INFINITY.into());
    }
    if options.is_causal {
        let later = B::bool_expand(later(), scores.shape());
        scores = B::float_mask_fill(scores, later, f32::NEG_INFINITY.into());
    }
    if let Some(bias) = bias {
        scores = B::float_add(widen::<B>(scores), widen::<B>(bias));
    }
    let probabilities = if may_mask_a_row {
        without_masked_rows::<B>(scores)
    } else {
        softmax::forward::<B>(scores, KEYS, ScaleMask::none())
    };
    Weights {
        probabilities: cast::<B>(probabilities, dtype),
        before: None,
        cap_slope,
    }
}

/// The scores below the soft cap, and the derivative of the cap.
fn capped<B: AmpBackend>(scores: FloatTensor<B>, cap: f64) -> (FloatTensor<B>, FloatTensor<B>) {
    assert!(cap > 0.0, "the soft cap must be positive, and is {cap}");
    let capped = B::float_tanh(B::float_div_scalar(widen::<B>(scores), cap.into()));
    let square = B::float_mul(capped.clone(), capped.clone());
    let slope = B::float_add_scalar(B::float_neg(square), 1f32.into());
    (B::float_mul_scalar(capped, cap.into()), slope)
}

/// The softmax of scores; 0 in the rows whose scores are all -inf.
fn without_masked_rows<B: AmpBackend>(scores: FloatTensor<B>) -> FloatTensor<B> {
    let shape = scores.shape();
    // burn-cubecl 0.21.0 starts the maximum of a row from the smallest finite number.
    let smallest = scores.dtype().finfo().expect("scores are floats").min;
    let highest = B::float_max_dim(scores.clone(), KEYS);
    let bool_dtype = bool_dtype::<B>(&highest);
    let is_masked = B::float_lower_equal_elem(highest, smallest.into(), bool_dtype);
    let probabilities = softmax::forward::<B>(scores, KEYS, ScaleMask::none());
    B::float_mask_fill(probabilities, B::bool_expand(is_masked, shape), 0f32.into())
}

/// The pairs whose key comes after the query, `[1, 1, queries, keys]`. The last query sees all keys.
fn later<B: AmpBackend>([queries, keys]: [usize; 2], device: &Device<B>) -> BoolTensor<B> {
    let settings = get_device_settings::<B>(device);
    let positions = |count: usize, shape| {
        let range = B::int_arange(0..count as i64, device, settings.int_dtype);
        B::int_reshape(range, Shape::new(shape))
    };
    let last_visible = B::int_add_scalar(
        positions(queries, [queries, 1]),
        (keys as i64 - queries as i64).into(),
    );
    let later = B::int_lower(
        last_visible,
        positions(keys, [1, keys]),
        settings.bool_dtype,
    );
    B::bool_reshape(later, Shape::new([1, 1, queries, keys]))
}

/// Sums a gradient over the dimensions along which its operand was broadcast.
fn summed_to<B: AmpBackend>(grad: FloatTensor<B>, shape: &Shape) -> FloatTensor<B> {
    (0..shape.num_dims()).fold(grad, |grad, dim| {
        if shape[dim] == grad.shape()[dim] {
            grad
        } else {
            sum_dim::<B>(grad, dim)
        }
    })
}

//! The rules: what `Amp` does with an op besides casting its operands and wrapping its result.
//!
//! The method of a row asks five times; an op without an arm for a step takes the usual one, at the end.
//!
//! * `look`: how the operands count for the policy
//! * `first`: the result, if it takes no cast of the operands: it waits for its reader, or is read from what waits
//! * `own`: the same from the operands themselves, not from clones: under Fusion a tensor that outlives its last op is an op more
//! * `compute`: the result of the cast operands, and what it remembers
//! * `after`: what the result is to the program, also where the policy lowers nothing
//!
//! A row of an embedding may be looked up thousands of times, and in BF16 a sum of ones stops at 256. So where a backward
//! pass adds gradients onto the elements of an operand, those of an operand in low precision are `summed` in F32 and
//! rounded once. Burn's backward pass does that if it is given a gradient in F32.

use burn_amp_kernels::AmpBackend;
use burn_amp_kernels::names::device_of;
use burn_backend::{
    IntDType, get_device_settings,
    tensor::{FloatTensor, IntTensor},
};

use crate::{cast::call::Decided, graph::Graph, tensor::AmpTensor};

/// The rules, in the order of the table.
///
/// A macro, because the methods of rows have different signatures.
macro_rules! rule {
    (compute $call:ident float_random($shape:ident, $distribution:ident, $device:ident, $dtype:ident)) => {{
        let is_mask = matches!($distribution, burn_backend::Distribution::Bernoulli(_));
        let values = G::Inner::float_random($shape, $distribution, $device, $dtype);
        $crate::ops::filled::zeros_and_ones($call.result(values), is_mask)
    }};
    (compute $call:ident float_zeros($($x:ident),*)) => {
        $crate::ops::filled::filled($call.result(G::Inner::float_zeros($($x),*)), Some(0f32.into()))
    };
    (compute $call:ident float_ones($($x:ident),*)) => {
        $crate::ops::filled::filled($call.result(G::Inner::float_ones($($x),*)), Some(1f32.into()))
    };
    (compute $call:ident float_full($shape:ident, $value:ident, $($x:ident),*)) => {{
        let values = G::Inner::float_full($shape, $value, $($x),*);
        $crate::ops::filled::filled($call.result(values), Some($value))
    }};
    (compute $call:ident float_empty($($x:ident),*)) => {
        $crate::ops::filled::filled($call.result(G::Inner::float_empty($($x),*)), None)
    };

    (look $call:ident float_add($l:tt $lhs:ident, $r:tt $rhs:ident)) => {
        $crate::ops::binary::look(&mut $call, &$lhs, &$rhs)
    };
    (first $call:ident float_add($lhs:ident, $rhs:ident)) => {
        $crate::ops::binary::sum(&$call, &$lhs, &$rhs)
    };
    (own $call:ident float_add($lhs:ident, $rhs:ident)) => {
        $crate::ops::binary::with_bias(&$call, [$lhs, $rhs])
            .or_else(|[$lhs, $rhs]| $crate::ops::rules::rule!(both_reshaped $call float_add($lhs, $rhs)))
    };
    (own $call:ident float_matmul($lhs:ident, $rhs:ident)) => {
        $crate::ops::module::by_weight(&$call, [$lhs, $rhs]).map_err(|[lhs, rhs]| (lhs, rhs))
    };
    (compute $call:ident float_matmul($lhs:ident, $rhs:ident)) => {
        $call.result(burn_amp_kernels::product::of_matrices::<G::Inner>($lhs, $rhs))
    };
    (look $call:ident float_sub($l:tt $lhs:ident, $r:tt $rhs:ident)) => {
        $crate::ops::binary::look(&mut $call, &$lhs, &$rhs)
    };
    (first $call:ident float_sub($lhs:ident, $rhs:ident)) => {
        $crate::ops::lazy::continued(&$call, &$lhs, &$rhs, $crate::tensor::Lazy::minus)
    };
    (own $call:ident float_sub($lhs:ident, $rhs:ident)) => {
        $crate::ops::rules::rule!(both_reshaped $call float_sub($lhs, $rhs))
    };
    (look $call:ident float_div($l:tt $lhs:ident, $r:tt $rhs:ident)) => {
        $crate::ops::binary::look(&mut $call, &$lhs, &$rhs)
    };
    (first $call:ident float_div($lhs:ident, $rhs:ident)) => {
        $crate::ops::lazy::continued(&$call, &$lhs, &$rhs, $crate::tensor::Lazy::divided_by)
    };

    (compute $call:ident float_add_scalar($($x:ident),*)) => { $crate::ops::rules::rule!(scalar Add $call float_add_scalar($($x),*)) };
    (compute $call:ident float_sub_scalar($($x:ident),*)) => { $crate::ops::rules::rule!(scalar Sub $call float_sub_scalar($($x),*)) };
    (compute $call:ident float_mul_scalar($($x:ident),*)) => { $crate::ops::rules::rule!(scalar Mul $call float_mul_scalar($($x),*)) };
    (compute $call:ident float_div_scalar($($x:ident),*)) => { $crate::ops::rules::rule!(scalar Div $call float_div_scalar($($x),*)) };
    (first $call:ident leaky_relu($x:ident, $slope:ident)) => {
        burn_amp_kernels::affine::Slope::new($slope.elem()).and_then(|slope| {
            let end = burn_amp_kernels::affine::End::LeakyRelu(slope);
            $crate::ops::images::rectified(&$call, &$x, end)
        })
    };
    (compute $call:ident leaky_relu($($x:ident),*)) => { $crate::ops::rules::rule!(scalar LeakyRelu $call leaky_relu($($x),*)) };
    (first $call:ident float_mul_scalar($x:ident, $scalar:ident)) => {
        $crate::ops::scores::scaled(&$call, &$x, burn_amp_kernels::scalar::ScalarOp::Mul, $scalar)
    };
    (first $call:ident float_div_scalar($x:ident, $scalar:ident)) => {
        $crate::ops::scores::scaled(&$call, &$x, burn_amp_kernels::scalar::ScalarOp::Div, $scalar)
    };
    (own $call:ident float_mul_scalar($($x:ident),*)) => { $crate::ops::rules::rule!(reshaped $call float_mul_scalar($($x),*)) };
    (own $call:ident float_div_scalar($($x:ident),*)) => { $crate::ops::rules::rule!(reshaped $call float_div_scalar($($x),*)) };
    (own $call:ident float_add_scalar($($x:ident),*)) => { $crate::ops::rules::rule!(reshaped $call float_add_scalar($($x),*)) };
    (own $call:ident float_sub_scalar($($x:ident),*)) => { $crate::ops::rules::rule!(reshaped $call float_sub_scalar($($x),*)) };
    (own $call:ident float_sqrt($x:ident)) => { $crate::ops::rules::rule!(reshaped $call float_sqrt($x)) };
    (reshaped $call:ident $op:ident($x:ident$(, $scalar:ident)?)) => {
        $crate::ops::reshaped::of_one(&$call, $x, |x| {
            $crate::cast::forward::computed!([F], $call, $op(x$(, $scalar)?))
        })
        .map_err(|x| (x, $($scalar)?))
    };
    (both_reshaped $call:ident $op:ident($lhs:ident, $rhs:ident)) => {
        $crate::ops::reshaped::of_two(&$call, [$lhs, $rhs], |lhs, rhs| {
            $crate::cast::forward::computed!([F], $call, $op(lhs, rhs))
        })
        .map_err(|[lhs, rhs]| (lhs, rhs))
    };
    (scalar $as:ident $call:ident $op:ident($x:ident, $scalar:ident)) => {
        if $call.rounds_scalar() {
            $crate::ops::scalar::in_f32(&$call, $x, burn_amp_kernels::scalar::ScalarOp::$as, $scalar)
        } else {
            $crate::ops::rules::rule!(usual $call $op($x, $scalar))
        }
    };

    (first $call:ident float_clamp_min($x:ident, $min:ident)) => {
        $crate::ops::lazy::clamped(&$call, &$x, [Some($min), None])
    };
    (first $call:ident float_clamp_max($x:ident, $max:ident)) => {
        $crate::ops::lazy::clamped(&$call, &$x, [None, Some($max)])
    };
    (first $call:ident float_clamp($x:ident, $min:ident, $max:ident)) => {
        $crate::ops::lazy::clamped(&$call, &$x, [Some($min), Some($max)])
    };
    (compute $call:ident float_clamp_min($x:ident, $min:ident)) => {
        if $crate::ops::scalar::is_composed::<B, G>(&$call) {
            $call.result($crate::ops::scalar::at_least::<B, G>(&$call, $x, $min))
        } else {
            $crate::ops::rules::rule!(usual $call float_clamp_min($x, $min))
        }
    };
    (compute $call:ident float_clamp_max($x:ident, $max:ident)) => {
        if $crate::ops::scalar::is_composed::<B, G>(&$call) {
            $call.result($crate::ops::scalar::at_most::<B, G>(&$call, $x, $max))
        } else {
            $crate::ops::rules::rule!(usual $call float_clamp_max($x, $max))
        }
    };
    (compute $call:ident float_clamp($x:ident, $min:ident, $max:ident)) => {
        if $crate::ops::scalar::is_composed::<B, G>(&$call) {
            let x = $crate::ops::scalar::at_most::<B, G>(&$call, $x, $max);
            $call.result($crate::ops::scalar::at_least::<B, G>(&$call, x, $min))
        } else {
            $crate::ops::rules::rule!(usual $call float_clamp($x, $min, $max))
        }
    };

    (compute $call:ident conv3d($x:ident, $weight:ident, $bias:ident, $options:ident)) => {
        match $call.recipe() {
            Some(recipe) => {
                let product = burn_amp_kernels::simulated::ProductKind::Conv3d($options);
                let operands = [$x, $weight];
                $call.result(burn_amp_kernels::simulated::forward::<G::Inner>(product, recipe, operands, $bias, false))
            }
            None => $crate::ops::rules::rule!(usual $call conv3d($x, $weight, $bias, $options)),
        }
    };

    (first $call:ident float_transpose($x:ident)) => {
        $crate::ops::lazy::permuted(&$call, &$x, |rank| $crate::ops::lazy::swapped(rank, rank - 2, rank - 1))
    };
    (first $call:ident float_swap_dims($x:ident, $dim1:ident, $dim2:ident)) => {
        $crate::ops::lazy::permuted(&$call, &$x, |rank| $crate::ops::lazy::swapped(rank, $dim1, $dim2))
    };
    (first $call:ident float_permute($x:ident, $axes:ident)) => {
        $crate::ops::lazy::permuted(&$call, &$x, |_| $axes.to_vec())
    };
    (first $call:ident float_reshape($x:ident, $shape:ident)) => {
        $crate::ops::lazy::reshaped(&$call, &$x, &$shape)
    };

    (first $call:ident float_gather($dim:ident, $x:ident, $indices:ident)) => {
        $crate::ops::tensor::picked(&$call, &$x, $dim, &$indices)
    };
    (compute $call:ident float_gather($dim:ident, $x:ident, $indices:ident)) => {
        $crate::ops::rules::rule!(summed $x $call float_gather($dim, $x, $indices))
    };
    (compute $call:ident float_gather_nd($x:ident, $y:ident)) => { $crate::ops::rules::rule!(summed $x $call float_gather_nd($x, $y)) };
    (compute $call:ident float_select($x:ident, $($y:ident),*)) => { $crate::ops::rules::rule!(summed $x $call float_select($x, $($y),*)) };
    (compute $call:ident float_cummin($x:ident, $y:ident)) => { $crate::ops::rules::rule!(summed $x $call float_cummin($x, $y)) };
    (compute $call:ident float_cummax($x:ident, $y:ident)) => { $crate::ops::rules::rule!(summed $x $call float_cummax($x, $y)) };
    (compute $call:ident float_unfold($x:ident, $($y:ident),*)) => { $crate::ops::rules::rule!(summed $x $call float_unfold($x, $($y),*)) };
    // The gradient of the table is added without a scatter.
    (compute $call:ident embedding($x:ident, $y:ident)) => {
        if $call.lowers {
            $call.result(burn_amp_kernels::embedding::forward::<G::Inner>($x, $y))
        } else {
            $crate::ops::rules::rule!(usual $call embedding($x, $y))
        }
    };
    (summed $x:ident $call:ident $op:ident($($y:ident),*)) => {
        $call.summed::<G>($x, |$x| $crate::cast::forward::computed!([F], $call, $op($($y),*)))
    };

    (look $call:ident float_slice_assign($x:tt $tensor:ident, $s:tt $slices:ident, $v:tt $value:ident)) => {
        $crate::ops::filled::look(&mut $call, [&$tensor, &$value])
    };
    (compute $call:ident float_slice($($x:ident),*)) => {
        $crate::ops::rules::rule!(sliced $call slice float_slice($($x),*))
    };
    (compute $call:ident float_slice_assign($($x:ident),*)) => {
        $crate::ops::rules::rule!(sliced $call assign float_slice_assign($($x),*))
    };
    (sliced $call:ident $as:ident $op:ident($($x:ident),*)) => {
        if !$call.lowers {
            $crate::ops::rules::rule!(usual $call $op($($x),*))
        } else if $call.recomputes {
            $call.result(burn_amp_kernels::slice::$as::<G::Recomputed>($($x),*))
        } else {
            $call.result(burn_amp_kernels::slice::$as::<G::Inner>($($x),*))
        }
    };
    (look $call:ident float_mask_where($x:tt $tensor:ident, $m:tt $mask:ident, $v:tt $value:ident)) => {
        $crate::ops::filled::look(&mut $call, [&$tensor, &$value])
    };
    (first $call:ident float_mask_fill($x:ident, $mask:ident, $value:ident)) => {
        $crate::ops::scores::masked(&$call, &$x, &$mask, $value)
    };

    (first $call:ident float_sum($x:ident)) => { $crate::ops::lazy::reduced(&$call, &$x, None, false) };
    (first $call:ident float_sum_dim($x:ident, $dim:ident)) => {
        $crate::ops::lazy::reduced(&$call, &$x, Some($dim), false)
    };
    (first $call:ident float_mean($x:ident)) => { $crate::ops::lazy::reduced(&$call, &$x, None, true) };
    (first $call:ident float_mean_dim($x:ident, $dim:ident)) => {
        $crate::ops::lazy::reduced(&$call, &$x, Some($dim), true)
    };
    (first $call:ident float_powi_scalar($x:ident, $power:ident)) => {
        $crate::ops::lazy::squared(&$call, &$x, $power)
    };

    (first $call:ident relu($x:ident)) => {
        $crate::ops::images::rectified(&$call, &$x, burn_amp_kernels::affine::End::Relu)
    };
    (compute $call:ident relu($x:ident)) => {
        if $call.lowers && !$call.recomputes {
            $call.result(burn_amp_kernels::sign_mask::relu::<G::Inner>($x))
        } else {
            $crate::ops::rules::rule!(usual $call relu($x))
        }
    };
    (first $call:ident sigmoid($x:ident)) => {
        $crate::ops::lazy::ended(&$call, &$x, burn_amp_kernels::affine::End::Sigmoid)
    };
    (compute $call:ident float_tanh($x:ident)) => { $crate::ops::rules::rule!(saturating Tanh $call float_tanh($x)) };
    (compute $call:ident sigmoid($x:ident)) => { $crate::ops::rules::rule!(saturating Sigmoid $call sigmoid($x)) };
    (saturating $as:ident $call:ident $op:ident($x:ident)) => {{
        let activation = burn_amp_kernels::activation::Activation::$as;
        let op = |$x| $crate::cast::forward::computed!([F], $call, $op($x));
        $crate::ops::activation::saturating::<B, G>(&$call, $x, activation, op)
    }};

    (after float_sign($result:expr)) => { $crate::ops::tensor::signs($result) };

    (compute $call:ident float_max_dim($x:ident, $dim:ident)) => {
        $crate::ops::rules::indexed::<B, G>(&$call, $x, |x| G::Inner::float_max_dim(x, $dim), |x| {
            let dtype = $crate::ops::rules::int_dtype::<B, G>(&x);
            G::Inner::float_max_dim_with_indices(x, $dim, dtype)
        })
    };
    (compute $call:ident float_min_dim($x:ident, $dim:ident)) => {
        $crate::ops::rules::indexed::<B, G>(&$call, $x, |x| G::Inner::float_min_dim(x, $dim), |x| {
            let dtype = $crate::ops::rules::int_dtype::<B, G>(&x);
            G::Inner::float_min_dim_with_indices(x, $dim, dtype)
        })
    };
    (compute $call:ident float_sort($x:ident, $dim:ident, $descending:ident)) => {
        $crate::ops::rules::indexed::<B, G>(&$call, $x, |x| G::Inner::float_sort(x, $dim, $descending), |x| {
            let dtype = $crate::ops::rules::int_dtype::<B, G>(&x);
            G::Inner::float_sort_with_indices(x, $dim, $descending, dtype)
        })
    };
    (compute $call:ident max_pool1d($x:ident, $kernel:ident, $stride:ident, $padding:ident, $dilation:ident, $ceil:ident)) => {{
        let window = burn_amp_kernels::max_pool::Window {
            kernel_size: [$kernel],
            stride: [$stride],
            padding: [$padding],
            dilation: [$dilation],
            ceil_mode: $ceil,
        };
        $call.result(burn_amp_kernels::max_pool::max_pool1d::<G::Inner>($x, window))
    }};
    (compute $call:ident max_pool2d($x:ident, $kernel:ident, $stride:ident, $padding:ident, $dilation:ident, $ceil:ident)) => {{
        let window = burn_amp_kernels::max_pool::Window {
            kernel_size: $kernel,
            stride: $stride,
            padding: $padding,
            dilation: $dilation,
            ceil_mode: $ceil,
        };
        $call.result(burn_amp_kernels::max_pool::max_pool2d::<G::Inner>($x, window))
    }};

    (look $call:ident $op:ident($($kind:tt $x:ident),*)) => {
        $($crate::cast::forward::look!([F] $kind, $call, $x);)*
    };
    (first $call:ident $op:ident($($x:ident),*)) => { None };
    (own $call:ident $op:ident($($x:ident),*)) => { Err(($($x,)*)) };
    (after $op:ident($result:expr)) => { $result };
    (compute $call:ident $op:ident($($x:ident),*)) => { $crate::ops::rules::rule!(usual $call $op($($x),*)) };
    (usual $call:ident $op:ident($($x:ident),*)) => {
        $call.result($crate::cast::forward::computed!([F], $call, $op($($x),*)))
    };
}

pub(crate) use rule;

/// Computes the `values`, or the same `with_indices` if a graph keeps these and somebody watches.
///
/// A report tells what a graph keeps, and the indices of a sort take more bytes than its result. Burn's `Autodiff`
/// makes them inside the op. A watched call asks for them, which makes the same node of the graph.
pub(crate) fn indexed<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: FloatTensor<G::Inner>,
    values: impl FnOnce(FloatTensor<G::Inner>) -> FloatTensor<G::Inner>,
    with_indices: impl FnOnce(FloatTensor<G::Inner>) -> (FloatTensor<G::Inner>, IntTensor<B>),
) -> AmpTensor<B, G> {
    if call.is_watched() && G::is_tracked(&x) {
        let (values, indices) = with_indices(x);
        call.int_result::<G>(indices);
        call.result(values)
    } else {
        call.result(values(x))
    }
}

/// The dtype of the indices of a tensor's elements.
pub(crate) fn int_dtype<B: AmpBackend, G: Graph<B>>(x: &FloatTensor<G::Inner>) -> IntDType {
    get_device_settings::<B>(&device_of::<G::Inner>(x)).int_dtype
}

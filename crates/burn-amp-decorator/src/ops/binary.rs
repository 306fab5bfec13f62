//! Sums, differences, products and quotients of two tensors.

use burn_amp_core::{Op, Precision};
use burn_amp_kernels::{self as kernels, AmpBackend};
use burn_backend::{TensorMetadata, ops::FloatTensorOps, tensor::FloatTensor};

use super::{
    images,
    lazy::{continued, with_summand},
};
use crate::{
    backend::Amp,
    cast::{
        call::{Call, Decided},
        forward::computed,
    },
    graph::Graph,
    policy::ConfigSource,
    precision,
    tensor::{AmpTensor, Lazy, Recipe},
};

/// Shows two operands to a call.
///
/// An F32 tensor of one element, such as a learned temperature, does not widen a tensor in low precision: the op reads
/// both in F32, and its result is stored as the larger operand is. In PyTorch, a tensor without dimensions does not
/// take part in promotion.
pub(super) fn look<B: AmpBackend, G: Graph<B>>(
    call: &mut Call<B>,
    lhs: &AmpTensor<B, G>,
    rhs: &AmpTensor<B, G>,
) {
    if is_one_element_beside(lhs, rhs) {
        call.float(rhs);
        call.one_element(lhs);
    } else {
        call.float(lhs);
        if is_one_element_beside(rhs, lhs) {
            call.one_element(rhs);
        } else {
            call.float(rhs);
        }
    }
}

/// Whether `one` is an F32 tensor of one element, and `low` a larger tensor in low precision.
#[inline]
fn is_one_element_beside<B: AmpBackend, G: Graph<B>>(
    one: &AmpTensor<B, G>,
    low: &AmpTensor<B, G>,
) -> bool {
    low.stored().is_low()
        && one.stored() == Precision::F32
        && one.shape().num_elements() == 1
        && low.shape().num_elements() > 1
}

/// A sum that continues a chain.
pub(super) fn sum<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    lhs: &AmpTensor<B, G>,
    rhs: &AmpTensor<B, G>,
) -> Option<AmpTensor<B, G>> {
    if !call.lowers || is_with_bias(call, lhs, rhs) {
        return None;
    }
    continued(call, lhs, rhs, Lazy::plus)
        .or_else(|| continued(call, rhs, lhs, Lazy::plus))
        .or_else(|| with_summand(call, lhs, rhs))
        .or_else(|| with_summand(call, rhs, lhs))
        .or_else(|| images::sum(call, lhs, rhs))
        .or_else(|| images::sum(call, rhs, lhs))
}

/// Whether a sum is that of [`linear`](super::module::by_weight) and its bias, a row in F32.
fn is_with_bias<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    product: &AmpTensor<B, G>,
    bias: &AmpTensor<B, G>,
) -> bool {
    let (sizes, row) = (product.shape(), bias.shape());
    let is_row = row.num_dims() == sizes.num_dims()
        && row.as_slice().last() == sizes.as_slice().last()
        && Some(&row.num_elements()) == row.as_slice().last();
    let is_linear = product.recorded.is_linear && product.is_plain() && product.stored().is_low();
    is_linear && is_row && call.stays_in_f32() && bias.stored() == Precision::F32
}

/// The sum of `linear` and its bias, stored as the product is, so that its readers and the graph have it in low precision. The
/// operands, if it is another sum.
pub(super) fn with_bias<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    operands: [AmpTensor<B, G>; 2],
) -> Result<AmpTensor<B, G>, [AmpTensor<B, G>; 2]> {
    let [product, bias] = &operands;
    if !is_with_bias(call, product, bias) {
        return Err(operands);
    }
    let [product, bias] = operands;
    let (product, bias) = (call.as_stored(product), call.cast(bias.in_stored_shape()));
    let sum = kernels::weight_product::plus_bias::<G::Inner>(product, bias);
    Ok(call.stored(sum))
}

/// A product with zeros and ones is exact in every dtype. So a dropout mask does not widen an operand in low precision,
/// and the graph keeps one bit per element of it.
///
/// A product in F16 remembers its operands; see [`Recipe::Product`].
pub(super) fn float_mul<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    lhs: FloatTensor<Amp<B, P, G>>,
    rhs: FloatTensor<Amp<B, P, G>>,
) -> FloatTensor<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::float_mul);
    let (x, mask) = match (lhs.recipe(), rhs.recipe()) {
        (_, Some(Recipe::ZerosAndOnes)) => (lhs, rhs),
        (Some(Recipe::ZerosAndOnes), _) => (rhs, lhs),
        _ => {
            look(&mut call, &lhs, &rhs);
            return product(call.decide(), lhs, rhs);
        }
    };
    call.float(&x);
    call.zeros_and_ones(&mask);
    let call = call.decide();
    let (x, mask) = (call.cast(x), call.cast(mask));
    call.result(if call.lowers {
        kernels::sign_mask::mul_zeros_and_ones::<G::Inner>(x, mask)
    } else {
        G::Inner::float_mul(x, mask)
    })
}

/// The square of a chain, as the product of its clones.
fn square<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    lhs: &AmpTensor<B, G>,
    rhs: &AmpTensor<B, G>,
) -> Option<AmpTensor<B, G>> {
    let (lhs, rhs) = (lhs.chain()?, rhs.chain()?);
    if !std::ptr::eq(lhs, rhs) || !call.stays_in_f32() {
        return None;
    }
    Some(call.lazy(lhs.squared()?))
}

/// The SiLU of a chain, as its product with its sigmoid.
fn silu<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    lhs: &AmpTensor<B, G>,
    rhs: &AmpTensor<B, G>,
) -> Option<AmpTensor<B, G>> {
    let (lhs, rhs) = (lhs.chain()?, rhs.chain()?);
    if !call.stays_in_f32() {
        return None;
    }
    let silu = lhs.gated_by(rhs).or_else(|| rhs.gated_by(lhs))?;
    Some(call.lazy(silu))
}

fn product<B: AmpBackend, G: Graph<B>>(
    call: Decided<B>,
    lhs: AmpTensor<B, G>,
    rhs: AmpTensor<B, G>,
) -> AmpTensor<B, G> {
    if let Some(square) = square(&call, &lhs, &rhs) {
        return square;
    }
    if let Some(silu) = silu(&call, &lhs, &rhs) {
        return silu;
    }
    let product = continued(&call, &lhs, &rhs, Lazy::times);
    if let Some(product) = product.or_else(|| continued(&call, &rhs, &lhs, Lazy::times)) {
        return product;
    }
    // A factor of at most 1 makes no product overflow.
    let is_bounded = |x: &AmpTensor<B, G>| matches!(x.recipe(), Some(Recipe::Saturated(..)));
    let is_bounded = is_bounded(&lhs) || is_bounded(&rhs);
    let (lhs, rhs) = (call.cast(lhs), call.cast(rhs));
    if !is_bounded && call.lowers && precision::of(&lhs) == Precision::F16 {
        let product = computed!([F], call, float_mul(lhs.clone(), rhs.clone()));
        let product: AmpTensor<B, G> = call.result(product);
        return if product.is_plain() {
            product.with_recipe(Recipe::Product(lhs, rhs))
        } else {
            product
        };
    }
    call.result(computed!([F], call, float_mul(lhs, rhs)))
}

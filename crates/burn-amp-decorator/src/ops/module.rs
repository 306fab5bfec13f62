//! `ModuleOps`.

use burn_amp_core::{Op, Precision, module_ops};
use burn_amp_kernels::{
    self as kernels, AmpBackend,
    attention::Attention,
    convolution::InF32,
    layer_norm::LayerNorm,
    simulated::ProductKind,
    weight_product::{InGraph, is_worth_deferring},
};
#[cfg(burn_0_22)]
use burn_backend::IntDType;
use burn_backend::{
    TensorMetadata,
    ops::{
        AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConv2dBackward,
        DeformConvOptions, FloatTensorOps, InterpolateOptions, MaxPool1dBackward,
        MaxPool1dWithIndices, MaxPool2dBackward, MaxPool2dWithIndices, ModuleOps, UnfoldOptions,
    },
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

use crate::{
    backend::Amp,
    cast::{
        call::{Call, Decided},
        forward::forward,
    },
    graph::Graph,
    policy::ConfigSource,
    precision,
    tensor::{AmpTensor, Role},
};

impl<B: AmpBackend, P: ConfigSource, G: Graph<B>> ModuleOps<Self> for Amp<B, P, G> {
    module_ops! { forward! }
}

/// In low precision, all rows of `x` are one matrix. For more dimensions Burn's backward pass computes the gradient of the
/// weights as one product per batch item, rounds each of them and adds them up in low precision. The gradients of F32
/// parameters are written in F32.
fn linear<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    x: FloatTensor<Amp<B, P, G>>,
    weight: FloatTensor<Amp<B, P, G>>,
    bias: Option<FloatTensor<Amp<B, P, G>>>,
) -> FloatTensor<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::linear);
    call.float(&x);
    call.float(&weight);
    bias.iter().for_each(|bias| call.float(bias));
    rows(&call.decide(), x, weight, bias, false)
}

/// `linear` as Burn's GRU and burn-dispatch 0.22 compose it: a product with a weight, which has one dimension of 1 for each that `x`
/// has besides. Its bias is added by [`with_bias`](super::binary::with_bias). The operands, if it is another product.
pub(super) fn by_weight<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    operands: [AmpTensor<B, G>; 2],
) -> Result<AmpTensor<B, G>, [AmpTensor<B, G>; 2]> {
    let [x, weight] = &operands;
    let (rank, sizes) = (x.rank(), weight.shape());
    let is_weight = rank > 1
        && sizes.num_dims() == rank
        && sizes.as_slice()[..rank - 2].iter().all(|size| *size == 1)
        && weight.stored() == Precision::F32
        && weight.recipe().is_none()
        && !matches!(weight.role, Role::Gradient(_));
    if !is_weight || !call.lowers || !call.casts.operands.is_some_and(Precision::is_low) {
        return Err(operands);
    }
    let [x, weight] = operands;
    let mut product = rows(call, x, weight, None, true);
    product.facts_mut().recorded.is_linear = true;
    Ok(product)
}

/// The product of the rows of `x` and a weight, plus a bias. The batch of a composed one stays, so that a backend that fuses ends its
/// kernel with the bias that will be added.
fn rows<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: AmpTensor<B, G>,
    weight: AmpTensor<B, G>,
    bias: Option<AmpTensor<B, G>>,
    is_composed: bool,
) -> AmpTensor<B, G> {
    let has_f32_gradient = call.lowers && has_f32_gradient(&x, &weight);
    let mut shape = x.shape();
    let width = shape.as_slice().last().copied().unwrap_or(0);
    let has_rows = call.lowers && shape.num_dims() > 1 && width > 0;
    let recipe = call.recipe();
    let is_one_node = has_rows && has_f32_gradient && recipe.is_none();
    let keeps_shape = shape.num_dims() == 2 || is_composed && is_one_node;
    let ([x, weight], in_graph) = if is_one_node {
        in_one_node(call, x, weight, keeps_shape)
    } else {
        ([call.cast(x), call.cast(weight)], InGraph::default())
    };
    if !has_rows || !precision::of(&x).is_low() {
        let bias = bias.map(|bias| call.cast(bias));
        return call.result(G::Inner::linear(x, weight, bias));
    }
    let x = if keeps_shape {
        x
    } else {
        let rows = shape.num_elements() / width;
        G::reshaped(x, [rows, width].into())
    };
    let weight = match weight.shape().as_slice() {
        [.., d_input, d_output] if weight.rank() > 2 => {
            let matrix = [*d_input, *d_output];
            G::Inner::float_reshape(weight, matrix.into())
        }
        _ => weight,
    };
    let output = match (recipe, bias) {
        (Some(recipe), bias) => kernels::simulated::forward::<G::Inner>(
            ProductKind::Linear,
            recipe,
            [x, weight],
            bias.map(|bias| call.as_stored(bias)),
            has_f32_gradient,
        ),
        (None, bias) if !has_f32_gradient => {
            G::Inner::linear(x, weight, bias.map(|bias| call.cast(bias)))
        }
        (None, Some(bias)) if bias.stored() != Precision::F32 => {
            let row = [1, bias.shape().num_elements()];
            let bias = G::Inner::float_reshape(call.cast(bias), row.into());
            G::Inner::float_add(
                kernels::weight_product::forward::<G::Inner>(x, weight, None, in_graph),
                bias,
            )
        }
        (None, bias) => {
            let bias = bias.map(|bias| call.as_stored(bias));
            kernels::weight_product::forward::<G::Inner>(x, weight, bias, in_graph)
        }
    };
    if keeps_shape {
        return call.result(output);
    }
    let last = shape.num_dims() - 1;
    shape[last] = output.shape()[1];
    call.result(G::Inner::float_reshape(output, shape))
}

/// Casts the operands of a product whose node takes the place of the casts, where it can: `x` must be read in the shape that it has,
/// and be no leaf, which has to hear of its uses; the weights must be a matrix.
fn in_one_node<B: AmpBackend, G: Graph<B>>(
    call: &Decided<B>,
    x: AmpTensor<B, G>,
    weight: AmpTensor<B, G>,
    keeps_shape: bool,
) -> ([FloatTensor<G::Inner>; 2], InGraph) {
    let (x, cast_from) = if keeps_shape && !matches!(x.role, Role::Leaf(_)) {
        call.cast_for_product(x)
    } else {
        (call.cast(x), None)
    };
    let leaf = match &weight.role {
        Role::Leaf(leaf) => Some(leaf.clone()),
        Role::Activation | Role::Parameter(_) | Role::Gradient(_) => None,
    };
    let (weight, weight_cast_from) = if weight.rank() == 2 {
        call.cast_for_product(weight)
    } else {
        (call.cast(weight), None)
    };
    let in_graph = InGraph {
        x: cast_from.map(precision::to_float),
        weight: leaf
            .filter(|_| weight_cast_from.is_some())
            .map(|leaf| leaf.used_by_product(call.level())),
    };
    ([x, weight], in_graph)
}

/// Whether the gradient of a weight goes to an F32 tensor by way of a cast that no other op reads: a parameter or a copy
/// of one on another device. The gradients of a parameter's further uses in a pass are added to the first one's: several
/// at once if they have few rows, as in a recurrent net; otherwise a backend that fuses makes one kernel of the sum and
/// the cast of its low operand.
fn has_f32_gradient<B: AmpBackend, G: Graph<B>>(
    x: &AmpTensor<B, G>,
    weight: &AmpTensor<B, G>,
) -> bool {
    let is_deferred = || match *weight.shape().as_slice() {
        [d_input, d_output] => {
            let rows = x.shape().num_elements() / d_input.max(1);
            is_worth_deferring(rows, [d_input, d_output])
        }
        _ => false,
    };
    let is_cast_for_this_op = match &weight.role {
        Role::Leaf(leaf) => !B::fuses_elementwise() || !leaf.is_in_use() || is_deferred(),
        Role::Activation | Role::Parameter(_) => weight.recipe().is_none(),
        Role::Gradient(_) => false,
    };
    is_cast_for_this_op && weight.stored() == Precision::F32
}

fn conv1d<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    x: FloatTensor<Amp<B, P, G>>,
    weight: FloatTensor<Amp<B, P, G>>,
    bias: Option<FloatTensor<Amp<B, P, G>>>,
    options: ConvOptions<1>,
) -> FloatTensor<Amp<B, P, G>> {
    convolution(
        Call::new::<G>(Op::conv1d),
        [x, weight],
        bias,
        Some(ProductKind::Conv1d(options.clone())),
        |[x, weight], bias, in_f32| match in_f32 {
            Some(in_f32) => {
                kernels::convolution::forward_1d::<G::Inner>(x, weight, bias, options, in_f32)
            }
            None => G::Inner::conv1d(x, weight, bias, options),
        },
    )
}

fn conv2d<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    x: FloatTensor<Amp<B, P, G>>,
    weight: FloatTensor<Amp<B, P, G>>,
    bias: Option<FloatTensor<Amp<B, P, G>>>,
    options: ConvOptions<2>,
) -> FloatTensor<Amp<B, P, G>> {
    convolution(
        Call::new::<G>(Op::conv2d),
        [x, weight],
        bias,
        Some(ProductKind::Conv2d(options.clone())),
        |[x, weight], bias, in_f32| match in_f32 {
            Some(in_f32) => {
                kernels::convolution::forward::<G::Inner>(x, weight, bias, options, in_f32)
            }
            None => G::Inner::conv2d(x, weight, bias, options),
        },
    )
}

fn conv_transpose1d<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    x: FloatTensor<Amp<B, P, G>>,
    weight: FloatTensor<Amp<B, P, G>>,
    bias: Option<FloatTensor<Amp<B, P, G>>>,
    options: ConvTransposeOptions<1>,
) -> FloatTensor<Amp<B, P, G>> {
    convolution(
        Call::new::<G>(Op::conv_transpose1d),
        [x, weight],
        bias,
        None,
        |[x, weight], bias, in_f32| match in_f32 {
            Some(in_f32) => {
                kernels::convolution::transposed_1d::<G::Inner>(x, weight, bias, options, in_f32)
            }
            None => G::Inner::conv_transpose1d(x, weight, bias, options),
        },
    )
}

fn conv_transpose2d<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    x: FloatTensor<Amp<B, P, G>>,
    weight: FloatTensor<Amp<B, P, G>>,
    bias: Option<FloatTensor<Amp<B, P, G>>>,
    options: ConvTransposeOptions<2>,
) -> FloatTensor<Amp<B, P, G>> {
    convolution(
        Call::new::<G>(Op::conv_transpose2d),
        [x, weight],
        bias,
        None,
        |[x, weight], bias, in_f32| match in_f32 {
            Some(in_f32) => {
                kernels::convolution::transposed::<G::Inner>(x, weight, bias, options, in_f32)
            }
            None => G::Inner::conv_transpose2d(x, weight, bias, options),
        },
    )
}

/// A convolution. Where the policy lowers anything, its weight gradient is split among the cubes of a device, and the gradients of
/// F32 parameters are written in F32: `op` gets which these are, or `None` if it is to be Burn's. Of the kind `simulated`, it may
/// round its operands as a recipe says.
fn convolution<B: AmpBackend, G: Graph<B>>(
    mut call: Call<B>,
    [x, weight]: [AmpTensor<B, G>; 2],
    bias: Option<AmpTensor<B, G>>,
    simulated: Option<ProductKind>,
    op: impl FnOnce(
        [FloatTensor<G::Inner>; 2],
        Option<FloatTensor<G::Inner>>,
        Option<InF32>,
    ) -> FloatTensor<G::Inner>,
) -> AmpTensor<B, G> {
    let operands = [&x, &weight].into_iter().chain(&bias);
    operands.for_each(|operand| call.float(operand));
    let call = call.decide();
    let of_parameter = |tensor: &AmpTensor<B, G>| {
        matches!(tensor.role, Role::Leaf(_)) && tensor.stored() == Precision::F32
    };
    let in_f32 = call.lowers.then(|| InF32 {
        weight: of_parameter(&weight),
        bias: bias.as_ref().is_some_and(of_parameter),
    });
    let operands = [x, weight].map(|operand| call.cast(operand));
    let bias = bias.map(|bias| call.cast(bias));
    call.result(match simulated.zip(call.recipe()) {
        Some((product, recipe)) => {
            kernels::simulated::forward::<G::Inner>(product, recipe, operands, bias, false)
        }
        None => op(operands, bias, in_f32),
    })
}

/// In low precision, attention is one op with its softmax in F32, unless the backend has a kernel for it. Burn's `Autodiff`
/// would compose it below `Amp`, where the policy does not see the parts. So would burn-cubecl without a graph, if there
/// is a bias, a soft cap or a scale.
fn attention<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    query: FloatTensor<Amp<B, P, G>>,
    key: FloatTensor<Amp<B, P, G>>,
    value: FloatTensor<Amp<B, P, G>>,
    mask: Option<BoolTensor<B>>,
    attn_bias: Option<FloatTensor<Amp<B, P, G>>>,
    options: AttentionModuleOptions,
) -> FloatTensor<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::attention);
    call.float(&query);
    call.float(&key);
    call.float(&value);
    attn_bias.iter().for_each(|bias| call.float(bias));
    let call = call.decide();
    let stored = query.stored();
    let has_kernel = !G::RECORDS && B::has_attention_kernel(&options, attn_bias.is_some());
    if call.lowers && !has_kernel && call.casts.computes_in(stored).is_low() {
        return call.result(kernels::attention::forward::<G::Inner>(Attention {
            query: call.cast(query),
            key: call.cast(key),
            value: call.cast(value),
            mask,
            bias: attn_bias.map(|bias| call.as_stored(bias)),
            options,
        }));
    }
    call.result(G::Inner::attention(
        call.cast(query),
        call.cast(key),
        call.cast(value),
        mask,
        attn_bias.map(|bias| call.cast(bias)),
        options,
    ))
}

fn layer_norm<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    x: FloatTensor<Amp<B, P, G>>,
    gamma: FloatTensor<Amp<B, P, G>>,
    beta: Option<FloatTensor<Amp<B, P, G>>>,
    epsilon: f64,
) -> FloatTensor<Amp<B, P, G>> {
    let mut call = Call::new::<G>(Op::layer_norm);
    call.float(&x);
    call.float(&gamma);
    beta.iter().for_each(|beta| call.float(beta));
    let call = call.decide();
    let (gamma, beta) = (call.cast(gamma), beta.map(|beta| call.cast(beta)));
    if call.is_internal() {
        let low = call.low_copy(&x);
        let x = call.as_stored(x);
        let LayerNorm { output, copy, .. } = kernels::layer_norm::forward::<G::Inner>(
            x,
            gamma,
            beta,
            epsilon,
            low.map(precision::to_float),
        );
        let output: FloatTensor<Amp<B, P, G>> = call.stored(output);
        if let (Some(low), Some(copy)) = (low, copy) {
            output.recorded.add_low(low, G::values(&copy));
        }
        output
    } else {
        call.result(G::Inner::layer_norm(call.cast(x), gamma, beta, epsilon))
    }
}

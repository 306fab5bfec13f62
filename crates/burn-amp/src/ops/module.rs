//! `ModuleOps`.

use burn_amp_core::{Op, module_ops};
use burn_amp_kernels::Kernels;
use burn_backend::{
    ops::{
        AttentionModuleOptions, ConvOptions, ConvTransposeOptions, DeformConv2dBackward,
        DeformConvOptions, InterpolateOptions, MaxPool1dBackward, MaxPool1dWithIndices,
        MaxPool2dBackward, MaxPool2dWithIndices, ModuleOps, UnfoldOptions,
        attention::attention_fallback,
    },
    tensor::{BoolTensor, FloatTensor, IntTensor},
};

use crate::{Amp, PolicySource, call::Call, dtype, graph::Graph};

module_ops! { forward!
    fn deform_conv2d_backward(
        x: FloatTensor<Self>,
        offset: FloatTensor<Self>,
        weight: FloatTensor<Self>,
        mask: Option<FloatTensor<Self>>,
        bias: Option<FloatTensor<Self>>,
        output_grad: FloatTensor<Self>,
        options: DeformConvOptions<2>,
    ) -> DeformConv2dBackward<Self> {
        let mut call = Call::<B>::new::<G>(Op::deform_conv2d_backward);
        [Some(&x), Some(&offset), Some(&weight), mask.as_ref(), bias.as_ref(), Some(&output_grad)]
            .into_iter()
            .flatten()
            .for_each(|operand| call.float(operand));
        let call = call.decide();
        let DeformConv2dBackward { x_grad, offset_grad, weight_grad, mask_grad, bias_grad } =
            G::Inner::deform_conv2d_backward(
                call.cast(x),
                call.cast(offset),
                call.cast(weight),
                mask.map(|mask| call.cast(mask)),
                bias.map(|bias| call.cast(bias)),
                call.cast(output_grad),
                options,
            );
        DeformConv2dBackward::new(
            call.float(x_grad),
            call.float(offset_grad),
            call.float(weight_grad),
            mask_grad.map(|grad| call.float(grad)),
            bias_grad.map(|grad| call.float(grad)),
        )
    }

    fn max_pool1d_with_indices(
        x: FloatTensor<Self>,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        ceil_mode: bool,
    ) -> MaxPool1dWithIndices<Self> {
        let mut call = Call::<B>::new::<G>(Op::max_pool1d_with_indices);
        call.float(&x);
        let call = call.decide();
        let MaxPool1dWithIndices { output, indices } = G::Inner::max_pool1d_with_indices(
            call.cast(x), kernel_size, stride, padding, dilation, ceil_mode,
        );
        MaxPool1dWithIndices::new(call.float(output), indices)
    }

    fn max_pool1d_with_indices_backward(
        x: FloatTensor<Self>,
        kernel_size: usize,
        stride: usize,
        padding: usize,
        dilation: usize,
        ceil_mode: bool,
        output_grad: FloatTensor<Self>,
        indices: IntTensor<Self>,
    ) -> MaxPool1dBackward<Self> {
        let mut call = Call::<B>::new::<G>(Op::max_pool1d_with_indices_backward);
        call.float(&x);
        call.float(&output_grad);
        let call = call.decide();
        let MaxPool1dBackward { x_grad } = G::Inner::max_pool1d_with_indices_backward(
            call.cast(x), kernel_size, stride, padding, dilation, ceil_mode, call.cast(output_grad), indices,
        );
        MaxPool1dBackward::new(call.float(x_grad))
    }

    fn max_pool2d_with_indices(
        x: FloatTensor<Self>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
    ) -> MaxPool2dWithIndices<Self> {
        let mut call = Call::<B>::new::<G>(Op::max_pool2d_with_indices);
        call.float(&x);
        let call = call.decide();
        let MaxPool2dWithIndices { output, indices } = G::Inner::max_pool2d_with_indices(
            call.cast(x), kernel_size, stride, padding, dilation, ceil_mode,
        );
        MaxPool2dWithIndices::new(call.float(output), indices)
    }

    fn max_pool2d_with_indices_backward(
        x: FloatTensor<Self>,
        kernel_size: [usize; 2],
        stride: [usize; 2],
        padding: [usize; 2],
        dilation: [usize; 2],
        ceil_mode: bool,
        output_grad: FloatTensor<Self>,
        indices: IntTensor<Self>,
    ) -> MaxPool2dBackward<Self> {
        let mut call = Call::<B>::new::<G>(Op::max_pool2d_with_indices_backward);
        call.float(&x);
        call.float(&output_grad);
        let call = call.decide();
        let MaxPool2dBackward { x_grad } = G::Inner::max_pool2d_with_indices_backward(
            call.cast(x), kernel_size, stride, padding, dilation, ceil_mode, call.cast(output_grad), indices,
        );
        MaxPool2dBackward::new(call.float(x_grad))
    }

    fn attention(
        query: FloatTensor<Self>,
        key: FloatTensor<Self>,
        value: FloatTensor<Self>,
        mask: Option<BoolTensor<Self>>,
        attn_bias: Option<FloatTensor<Self>>,
        options: AttentionModuleOptions,
    ) -> FloatTensor<Self> {
        let mut call = Call::<B>::new::<G>(Op::attention);
        call.float(&query);
        call.float(&key);
        call.float(&value);
        attn_bias.iter().for_each(|bias| call.float(bias));
        let call = call.decide();
        if G::RECORDS && call.computes_in(dtype::of(&query.inner)).is_low() {
            return attention_fallback::<Self>(query, key, value, mask, attn_bias, options);
        }
        call.float(G::Inner::attention(
            call.cast(query),
            call.cast(key),
            call.cast(value),
            mask,
            attn_bias.map(|bias| call.cast(bias)),
            options,
        ))
    }

    fn layer_norm(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Option<FloatTensor<Self>>,
        epsilon: f64,
    ) -> FloatTensor<Self> {
        let mut call = Call::<B>::new::<G>(Op::layer_norm);
        call.float(&x);
        call.float(&gamma);
        beta.iter().for_each(|beta| call.float(beta));
        let call = call.decide();
        let (gamma, beta) = (call.cast(gamma), beta.map(|beta| call.cast(beta)));
        match call.is_internal() {
            true => call.stored(G::Inner::mixed_layer_norm(x.inner, gamma, beta, epsilon).output),
            false => call.float(G::Inner::layer_norm(call.cast(x), gamma, beta, epsilon)),
        }
    }
}

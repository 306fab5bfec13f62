//! Under Fusion: each op is an operation of the stream that computes on the backend below.

use std::{fmt, marker::PhantomData};

use burn_amp_core::DynamicLossScale;
use burn_backend::{
    DType, FloatDType, Shape, TensorMetadata,
    tensor::{FloatTensor, IntTensor},
};
use burn_fusion::{
    Fusion, FusionBackend, FusionRuntime, FusionTensor,
    stream::{Operation, OperationStreams},
};
use burn_ir::{CustomOpIr, HandleContainer, OperationIr, TensorIr};

use crate::{
    Kernels,
    layer_norm::{LayerNorm, LayerNormGradients},
    log_softmax::LogSoftmax,
    row,
};

impl<B: FusionBackend + Kernels> Kernels for Fusion<B> {
    fn not_finite(tensors: Vec<FloatTensor<Self>>) -> FloatTensor<Self> {
        let flags = Shape::new([tensors.len()]);
        let [flags] = custom::<B, 1>(
            "burn_amp::not_finite",
            tensors,
            [(flags, DType::F32)],
            |tensors| [B::not_finite(tensors)],
        );
        flags
    }

    fn unscale(tensors: Vec<FloatTensor<Self>>, factor: f32) -> Vec<FloatTensor<Self>> {
        let outputs = tensors
            .iter()
            .map(|tensor| (tensor.shape(), row::wide(tensor.dtype())))
            .chain([(Shape::new([tensors.len()]), DType::F32)])
            .collect();
        register::<B>(
            "burn_amp::unscale",
            tensors,
            Vec::new(),
            outputs,
            move |tensors, _| B::unscale(tensors, factor),
        )
    }

    fn next_loss_scale(
        state: FloatTensor<Self>,
        flags: FloatTensor<Self>,
        scaling: DynamicLossScale,
    ) -> FloatTensor<Self> {
        let next = (state.shape(), state.dtype());
        let operands = vec![state, flags];
        let [next] = custom::<B, 1>(
            "burn_amp::next_loss_scale",
            operands,
            [next],
            move |operands| {
                let [state, flags] = exactly(operands);
                [B::next_loss_scale(state, flags, scaling)]
            },
        );
        next
    }

    fn softmax_in_f32(x: FloatTensor<Self>, dim: usize) -> FloatTensor<Self> {
        let output = (x.shape(), x.dtype());
        let [output] = custom::<B, 1>("burn_amp::softmax", vec![x], [output], move |operands| {
            let [x] = exactly(operands);
            [B::softmax_in_f32(x, dim)]
        });
        output
    }

    fn softmax_in_f32_backward(
        output: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        dim: usize,
    ) -> FloatTensor<Self> {
        let dx = (output.shape(), output.dtype());
        let operands = vec![output, grad];
        let [dx] = custom::<B, 1>(
            "burn_amp::softmax_backward",
            operands,
            [dx],
            move |operands| {
                let [output, grad] = exactly(operands);
                [B::softmax_in_f32_backward(output, grad, dim)]
            },
        );
        dx
    }

    fn log_softmax_in_f32(x: FloatTensor<Self>, dim: usize, dtype: FloatDType) -> LogSoftmax<Self> {
        let outputs = [
            (x.shape(), dtype.into()),
            (of_rows(&x.shape(), dim), row::wide(x.dtype())),
        ];
        let [output, log_sum_exp] =
            custom::<B, 2>("burn_amp::log_softmax", vec![x], outputs, move |operands| {
                let [x] = exactly(operands);
                let result = B::log_softmax_in_f32(x, dim, dtype);
                [result.output, result.log_sum_exp]
            });
        LogSoftmax {
            output,
            log_sum_exp,
        }
    }

    fn log_softmax_in_f32_backward(
        x: FloatTensor<Self>,
        log_sum_exp: FloatTensor<Self>,
        grad: FloatTensor<Self>,
        dim: usize,
    ) -> FloatTensor<Self> {
        let dx = (x.shape(), x.dtype());
        let operands = vec![x, log_sum_exp, grad];
        let [dx] = custom::<B, 1>(
            "burn_amp::log_softmax_backward",
            operands,
            [dx],
            move |operands| {
                let [x, log_sum_exp, grad] = exactly(operands);
                [B::log_softmax_in_f32_backward(x, log_sum_exp, grad, dim)]
            },
        );
        dx
    }

    fn log_softmax_at_backward(
        x: FloatTensor<Self>,
        log_sum_exp: FloatTensor<Self>,
        targets: IntTensor<Self>,
        grad: FloatTensor<Self>,
    ) -> FloatTensor<Self> {
        let dx = vec![(x.shape(), x.dtype())];
        let floats = vec![x, log_sum_exp, grad];
        let name = "burn_amp::log_softmax_at_backward";
        let results = register::<B>(name, floats, vec![targets], dx, |floats, ints| {
            let ([x, log_sum_exp, grad], [targets]) = (exactly(floats), exactly(ints));
            vec![B::log_softmax_at_backward(x, log_sum_exp, targets, grad)]
        });
        let [dx] = exactly(results);
        dx
    }

    fn layer_norm_in_f32(
        x: FloatTensor<Self>,
        gamma: FloatTensor<Self>,
        beta: Option<FloatTensor<Self>>,
        epsilon: f64,
    ) -> LayerNorm<Self> {
        let rows = (of_rows(&x.shape(), x.rank() - 1), row::wide(x.dtype()));
        let outputs = [(x.shape(), x.dtype()), rows.clone(), rows];
        let operands = [x, gamma].into_iter().chain(beta).collect();
        let [output, mean, inverse_std] =
            custom::<B, 3>("burn_amp::layer_norm", operands, outputs, move |operands| {
                let mut operands = operands.into_iter();
                let mut next = || operands.next();
                let (Some(x), Some(gamma), beta) = (next(), next(), next()) else {
                    unreachable!("a layer norm was registered with two or three operands")
                };
                let result = B::layer_norm_in_f32(x, gamma, beta, epsilon);
                [result.output, result.mean, result.inverse_std]
            });
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
        let parameter = (
            Shape::new([gamma.shape().num_elements()]),
            row::wide(x.dtype()),
        );
        let outputs = [(x.shape(), x.dtype()), parameter.clone(), parameter];
        let operands = vec![x, gamma, mean, inverse_std, grad];
        let [x, gamma, beta] = custom::<B, 3>(
            "burn_amp::layer_norm_backward",
            operands,
            outputs,
            move |operands| {
                let [x, gamma, mean, inverse_std, grad] = exactly(operands);
                let gradients = B::layer_norm_in_f32_backward(x, gamma, mean, inverse_std, grad);
                [gradients.x, gradients.gamma, gradients.beta]
            },
        );
        LayerNormGradients { x, gamma, beta }
    }
}

/// `shape` with 1 at `dim`.
fn of_rows(shape: &Shape, dim: usize) -> Shape {
    let mut dims = shape.as_slice().to_vec();
    dims[dim] = 1;
    Shape::from(dims)
}

fn exactly<T, const N: usize>(list: Vec<T>) -> [T; N] {
    let found = list.len();
    list.try_into()
        .unwrap_or_else(|_| panic!("an op that was registered with {N} tensors has {found}"))
}

/// An operation of the stream: what it reads and writes, and how it is computed on the backend below.
struct Custom<B, F> {
    desc: CustomOpIr,
    /// How many of the operands are floats; they come first, then ints.
    floats: usize,
    compute: F,
    backend: PhantomData<fn() -> B>,
}

impl<B, F> fmt::Debug for Custom<B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Custom").field(&self.desc).finish()
    }
}

impl<B, F> Operation<B::FusionRuntime> for Custom<B, F>
where
    B: FusionBackend,
    F: Fn(Vec<FloatTensor<B>>, Vec<IntTensor<B>>) -> Vec<FloatTensor<B>> + Send + Sync,
{
    fn execute(
        &self,
        handles: &mut HandleContainer<<B::FusionRuntime as FusionRuntime>::FusionHandle>,
    ) {
        let (floats, ints) = self.desc.inputs.split_at(self.floats);
        let floats = floats
            .iter()
            .map(|operand| handles.get_float_tensor::<B>(operand))
            .collect();
        let ints = ints
            .iter()
            .map(|operand| handles.get_int_tensor::<B>(operand))
            .collect();
        let results = (self.compute)(floats, ints);
        for (place, result) in self.desc.outputs.iter().zip(results) {
            handles.register_float_tensor::<B>(&place.id, result);
        }
    }
}

/// Registers an op over floats with a fixed number of results.
fn custom<B: FusionBackend, const N: usize>(
    name: &'static str,
    operands: Vec<FusionTensor<B::FusionRuntime>>,
    results: [(Shape, DType); N],
    compute: impl Fn(Vec<FloatTensor<B>>) -> [FloatTensor<B>; N] + Send + Sync + 'static,
) -> [FusionTensor<B::FusionRuntime>; N] {
    let compute = move |floats, _| Vec::from(compute(floats));
    exactly(register::<B>(
        name,
        operands,
        Vec::new(),
        results.to_vec(),
        compute,
    ))
}

/// Registers an op.
fn register<B: FusionBackend>(
    name: &'static str,
    floats: Vec<FusionTensor<B::FusionRuntime>>,
    ints: Vec<FusionTensor<B::FusionRuntime>>,
    results: Vec<(Shape, DType)>,
    compute: impl Fn(Vec<FloatTensor<B>>, Vec<IntTensor<B>>) -> Vec<FloatTensor<B>>
    + Send
    + Sync
    + 'static,
) -> Vec<FusionTensor<B::FusionRuntime>> {
    let client = floats
        .first()
        .expect("an op of the stream has float operands")
        .client
        .clone();
    let streams = OperationStreams::with_inputs(floats.iter().chain(&ints));
    let results: Vec<_> = results
        .into_iter()
        .map(|(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), shape, dtype))
        .collect();
    let float_count = floats.len();
    let operands: Vec<_> = floats
        .into_iter()
        .chain(ints)
        .map(FusionTensor::into_ir)
        .collect();
    let desc = CustomOpIr::new(name, &operands, &results);
    client.register(
        streams,
        OperationIr::Custom(desc.clone()),
        Custom {
            desc,
            floats: float_count,
            compute,
            backend: PhantomData::<fn() -> B>,
        },
    )
}

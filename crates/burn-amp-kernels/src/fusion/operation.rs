//! Operations of Fusion's stream that compute on the backend below.
//!
//! All are one [`Custom`] operation; the functions register it for the operands and results that an op has.

use std::{fmt, marker::PhantomData};

use burn_backend::{
    DType, Shape,
    tensor::{FloatTensor, IntTensor},
};
use burn_fusion::{
    FusionBackend, FusionRuntime, FusionTensor,
    stream::{Operation, OperationStreams},
};
use burn_ir::{CustomOpIr, HandleContainer, OperationIr, TensorIr};

use crate::kernel::{Meta, Tensors, TensorsOf, exactly};

/// A float, int or bool tensor of `Fusion<B>`.
type Tensor<B> = FusionTensor<<B as FusionBackend>::FusionRuntime>;

/// Registers an op over a fixed number of floats, with a fixed number of results.
pub(super) fn custom<B: FusionBackend, const N: usize, const M: usize>(
    name: &'static str,
    operands: [Tensor<B>; N],
    results: [(Shape, DType); M],
    compute: impl Fn([FloatTensor<B>; N]) -> [FloatTensor<B>; M] + Send + Sync + 'static,
) -> [Tensor<B>; M] {
    let operands = Operands {
        floats: operands.into(),
        ints: Vec::new(),
    };
    let compute = move |floats, _| Vec::from(compute(exactly(floats)));
    exactly(register::<B>(name, operands, results.into(), compute))
}

/// The operands of an op.
pub(super) struct Operands<B: FusionBackend> {
    pub floats: Vec<Tensor<B>>,
    pub ints: Vec<Tensor<B>>,
}

/// Registers an op with float results of these shapes and dtypes.
pub(super) fn register<B: FusionBackend>(
    name: &'static str,
    operands: Operands<B>,
    results: Vec<(Shape, DType)>,
    compute: impl Fn(Vec<FloatTensor<B>>, Vec<IntTensor<B>>) -> Vec<FloatTensor<B>>
    + Send
    + Sync
    + 'static,
) -> Vec<Tensor<B>> {
    let compute = move |floats, ints| (compute(floats, ints), Vec::new());
    register_mixed::<B>(name, operands, results, Vec::new(), compute).0
}

/// Registers an op with float and int results of these shapes and dtypes.
pub(super) fn register_mixed<B: FusionBackend>(
    name: &'static str,
    operands: Operands<B>,
    float_results: Vec<(Shape, DType)>,
    int_results: Vec<(Shape, DType)>,
    compute: impl Fn(Vec<FloatTensor<B>>, Vec<IntTensor<B>>) -> Results<B> + Send + Sync + 'static,
) -> (Vec<Tensor<B>>, Vec<Tensor<B>>) {
    let Operands { floats, ints } = operands;
    let results = Tensors::from(float_results).with_ints(int_results);
    let compute = move |inputs: TensorsOf<B>| {
        let (floats, ints) = compute(inputs.floats, inputs.ints);
        Tensors::from(floats).with_ints(ints)
    };
    let results = any::<B>(
        name,
        Tensors::from(floats).with_ints(ints),
        results,
        compute,
    );
    (results.floats, results.ints)
}

/// Registers an op with one float operand and one result, an int tensor.
pub(super) fn to_int<B: FusionBackend>(
    name: &'static str,
    operand: Tensor<B>,
    result: (Shape, DType),
    compute: impl Fn(FloatTensor<B>) -> IntTensor<B> + Send + Sync + 'static,
) -> Tensor<B> {
    let compute = move |inputs: TensorsOf<B>| Tensors::from([]).with_ints([compute(inputs.one())]);
    let results = Tensors::from([]).with_ints([result]);
    let [result] = exactly(any::<B>(name, [operand].into(), results, compute).ints);
    result
}

/// The results of an op: floats, and ints.
pub(super) type Results<B> = (Vec<FloatTensor<B>>, Vec<IntTensor<B>>);

/// Registers an op with results of these shapes and dtypes.
pub(super) fn any<B: FusionBackend>(
    name: &'static str,
    operands: Tensors<Tensor<B>>,
    results: Tensors<Meta>,
    compute: impl Fn(TensorsOf<B>) -> TensorsOf<B> + Send + Sync + 'static,
) -> Tensors<Tensor<B>> {
    let client = operands.floats[0].client.clone();
    let counts = [operands.floats.len(), operands.ints.len()];
    let result_counts = [results.floats.len(), results.ints.len()];
    let operands = all(operands);
    let streams = OperationStreams::with_inputs(&operands);
    let uninit = |(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), shape, dtype);
    let results: Vec<_> = all(results).into_iter().map(uninit).collect();
    let operands: Vec<_> = operands.into_iter().map(FusionTensor::into_ir).collect();
    let desc = CustomOpIr::new(name, &operands, &results);
    let operation = Custom {
        desc: desc.clone(),
        counts,
        compute,
        backend: PhantomData::<fn() -> B>,
    };
    let mut floats = client.register(streams, OperationIr::Custom(desc), operation);
    let mut ints = floats.split_off(result_counts[0]);
    let bools = ints.split_off(result_counts[1]);
    Tensors {
        floats,
        ints,
        bools,
    }
}

/// The floats, then the ints, then the bools.
fn all<T>(tensors: Tensors<T>) -> Vec<T> {
    let Tensors {
        floats,
        ints,
        bools,
    } = tensors;
    floats.into_iter().chain(ints).chain(bools).collect()
}

/// An operation of the stream: its description, and how the backend below computes it.
struct Custom<B, F> {
    desc: CustomOpIr,
    /// The numbers of float operands and of int operands; the others are bools.
    counts: [usize; 2],
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
    F: Fn(TensorsOf<B>) -> TensorsOf<B> + Send + Sync,
{
    fn execute(
        &self,
        handles: &mut HandleContainer<<B::FusionRuntime as FusionRuntime>::FusionHandle>,
    ) {
        let (floats, others) = self.desc.inputs.split_at(self.counts[0]);
        let (ints, bools) = others.split_at(self.counts[1]);
        let results = (self.compute)(Tensors {
            floats: floats
                .iter()
                .map(|operand| handles.get_float_tensor::<B>(operand))
                .collect(),
            ints: ints
                .iter()
                .map(|operand| handles.get_int_tensor::<B>(operand))
                .collect(),
            bools: bools
                .iter()
                .map(|operand| handles.get_bool_tensor::<B>(operand))
                .collect(),
        });
        let mut places = self.desc.outputs.iter().map(|place| &place.id);
        for (result, place) in results.floats.into_iter().zip(places.by_ref()) {
            handles.register_float_tensor::<B>(place, result);
        }
        for (result, place) in results.ints.into_iter().zip(places.by_ref()) {
            handles.register_int_tensor::<B>(place, result);
        }
        for (result, place) in results.bools.into_iter().zip(places) {
            handles.register_bool_tensor::<B>(place, result);
        }
    }
}

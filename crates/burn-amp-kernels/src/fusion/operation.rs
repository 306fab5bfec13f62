//! Operations of Fusion's stream that compute on the backend below.
//!
//! All are one [`Custom`] operation; the functions register it for the operands and results that an op has.

use std::{fmt, marker::PhantomData};

use burn_backend::{
    DType, Shape,
    tensor::{BoolTensor, FloatTensor, IntTensor},
};
use burn_fusion::{
    FusionBackend, FusionRuntime, FusionTensor,
    stream::{Operation, OperationStreams},
};
use burn_ir::{CustomOpIr, HandleContainer, OperationIr, TensorIr};

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
    let float_result_count = float_results.len();
    let results = float_results.into_iter().chain(int_results).collect();
    let compute = move |inputs: Inputs<B>| compute(inputs.floats, inputs.ints);
    let mut results = any::<B>(name, [floats, ints, Vec::new()], results, compute);
    let ints = results.split_off(float_result_count);
    (results, ints)
}

/// Registers an op over floats and perhaps a mask, with one result of this shape and dtype.
pub(super) fn masked<B: FusionBackend>(
    name: &'static str,
    floats: Vec<Tensor<B>>,
    mask: Option<Tensor<B>>,
    result: (Shape, DType),
    compute: impl Fn(Vec<FloatTensor<B>>, Option<BoolTensor<B>>) -> FloatTensor<B>
    + Send
    + Sync
    + 'static,
) -> Tensor<B> {
    let operands = [floats, Vec::new(), mask.into_iter().collect()];
    let compute = move |mut inputs: Inputs<B>| {
        let result = compute(inputs.floats, inputs.bools.pop());
        (vec![result], Vec::new())
    };
    let [result] = exactly(any::<B>(name, operands, vec![result], compute));
    result
}

/// Registers an op with one float operand and one result, an int tensor.
pub(super) fn to_int<B: FusionBackend>(
    name: &'static str,
    operand: Tensor<B>,
    result: (Shape, DType),
    compute: impl Fn(FloatTensor<B>) -> IntTensor<B> + Send + Sync + 'static,
) -> Tensor<B> {
    let operands = [vec![operand], Vec::new(), Vec::new()];
    let compute = move |inputs: Inputs<B>| {
        let [operand] = exactly(inputs.floats);
        (Vec::new(), vec![compute(operand)])
    };
    let [result] = exactly(any::<B>(name, operands, vec![result], compute));
    result
}

/// The operands of an op on the backend below.
struct Inputs<B: FusionBackend> {
    floats: Vec<FloatTensor<B>>,
    ints: Vec<IntTensor<B>>,
    bools: Vec<BoolTensor<B>>,
}

/// The results of an op: floats, and ints.
pub(super) type Results<B> = (Vec<FloatTensor<B>>, Vec<IntTensor<B>>);

/// Registers an op over floats, ints and bools, with results of these shapes and dtypes: the floats precede the ints.
fn any<B: FusionBackend>(
    name: &'static str,
    operands: [Vec<Tensor<B>>; 3],
    results: Vec<(Shape, DType)>,
    compute: impl Fn(Inputs<B>) -> Results<B> + Send + Sync + 'static,
) -> Vec<Tensor<B>> {
    let [floats, ints, _] = operands.each_ref().map(Vec::len);
    let client = operands[0]
        .first()
        .expect("an op of the stream has a float operand")
        .client
        .clone();
    let streams = OperationStreams::with_inputs(operands.iter().flatten());
    let results: Vec<_> = results
        .into_iter()
        .map(|(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), shape, dtype))
        .collect();
    let operands: Vec<_> = operands
        .into_iter()
        .flatten()
        .map(FusionTensor::into_ir)
        .collect();
    let desc = CustomOpIr::new(name, &operands, &results);
    let operation = Custom {
        desc: desc.clone(),
        floats,
        ints,
        compute,
        backend: PhantomData::<fn() -> B>,
    };
    client.register(streams, OperationIr::Custom(desc), operation)
}

/// An operation of the stream: its description, and how the backend below computes it.
struct Custom<B, F> {
    desc: CustomOpIr,
    /// The number of float operands, which are the first.
    floats: usize,
    /// The number of int operands, which follow them; the others are bools.
    ints: usize,
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
    F: Fn(Inputs<B>) -> Results<B> + Send + Sync,
{
    fn execute(
        &self,
        handles: &mut HandleContainer<<B::FusionRuntime as FusionRuntime>::FusionHandle>,
    ) {
        let (floats, others) = self.desc.inputs.split_at(self.floats);
        let (ints, bools) = others.split_at(self.ints);
        let inputs = Inputs {
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
        };
        let (floats, ints) = (self.compute)(inputs);
        let (float_places, int_places) = self.desc.outputs.split_at(floats.len());
        for (place, result) in float_places.iter().zip(floats) {
            handles.register_float_tensor::<B>(&place.id, result);
        }
        for (place, result) in int_places.iter().zip(ints) {
            handles.register_int_tensor::<B>(&place.id, result);
        }
    }
}

/// Turns a list into an array of the length with which the op was registered.
pub(super) fn exactly<T, const N: usize>(list: Vec<T>) -> [T; N] {
    let found = list.len();
    list.try_into()
        .unwrap_or_else(|_| panic!("an op that was registered with {N} tensors has {found}"))
}

//! Operations of Fusion's stream that compute on the backend below.

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
    let client = floats
        .first()
        .expect("an op of the stream has a float operand")
        .client
        .clone();
    let streams = OperationStreams::with_inputs(floats.iter().chain(&mask));
    let result = TensorIr::uninit(client.create_empty_handle(), result.0, result.1);
    let float_count = floats.len();
    let operands: Vec<_> = floats
        .into_iter()
        .chain(mask)
        .map(FusionTensor::into_ir)
        .collect();
    let desc = CustomOpIr::new(name, &operands, &[result]);
    let operation = Masked {
        desc: desc.clone(),
        floats: float_count,
        compute,
        backend: PhantomData::<fn() -> B>,
    };
    let [result] = exactly(client.register(streams, OperationIr::Custom(desc), operation));
    result
}

/// Like [`Custom`], with an optional mask behind the floats, and one result.
struct Masked<B, F> {
    desc: CustomOpIr,
    /// The number of float operands.
    floats: usize,
    compute: F,
    backend: PhantomData<fn() -> B>,
}

impl<B, F> fmt::Debug for Masked<B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Masked").field(&self.desc).finish()
    }
}

impl<B, F> Operation<B::FusionRuntime> for Masked<B, F>
where
    B: FusionBackend,
    F: Fn(Vec<FloatTensor<B>>, Option<BoolTensor<B>>) -> FloatTensor<B> + Send + Sync,
{
    fn execute(
        &self,
        handles: &mut HandleContainer<<B::FusionRuntime as FusionRuntime>::FusionHandle>,
    ) {
        let (floats, mask) = self.desc.inputs.split_at(self.floats);
        let floats = floats
            .iter()
            .map(|operand| handles.get_float_tensor::<B>(operand))
            .collect();
        let mask = mask
            .first()
            .map(|operand| handles.get_bool_tensor::<B>(operand));
        let result = (self.compute)(floats, mask);
        handles.register_float_tensor::<B>(&self.desc.outputs[0].id, result);
    }
}

/// Registers an op with results of these shapes and dtypes.
pub(super) fn register<B: FusionBackend>(
    name: &'static str,
    operands: Operands<B>,
    results: Vec<(Shape, DType)>,
    compute: impl Fn(Vec<FloatTensor<B>>, Vec<IntTensor<B>>) -> Vec<FloatTensor<B>>
    + Send
    + Sync
    + 'static,
) -> Vec<Tensor<B>> {
    let Operands { floats, ints } = operands;
    let client = floats
        .first()
        .expect("an op of the stream has a float operand")
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

/// Registers an op with float and int results of these shapes and dtypes, in this order.
pub(super) fn register_mixed<B: FusionBackend>(
    name: &'static str,
    operands: Operands<B>,
    float_results: Vec<(Shape, DType)>,
    int_results: Vec<(Shape, DType)>,
    compute: impl Fn(Vec<FloatTensor<B>>, Vec<IntTensor<B>>) -> Results<B> + Send + Sync + 'static,
) -> (Vec<Tensor<B>>, Vec<Tensor<B>>) {
    let Operands { floats, ints } = operands;
    let client = floats
        .first()
        .expect("an op of the stream has a float operand")
        .client
        .clone();
    let streams = OperationStreams::with_inputs(floats.iter().chain(&ints));
    let float_result_count = float_results.len();
    let results: Vec<_> = float_results
        .into_iter()
        .chain(int_results)
        .map(|(shape, dtype)| TensorIr::uninit(client.create_empty_handle(), shape, dtype))
        .collect();
    let float_count = floats.len();
    let operands: Vec<_> = floats
        .into_iter()
        .chain(ints)
        .map(FusionTensor::into_ir)
        .collect();
    let desc = CustomOpIr::new(name, &operands, &results);
    let mut results = client.register(
        streams,
        OperationIr::Custom(desc.clone()),
        Mixed {
            desc,
            floats: float_count,
            float_results: float_result_count,
            compute,
            backend: PhantomData::<fn() -> B>,
        },
    );
    let ints = results.split_off(float_result_count);
    (results, ints)
}

/// The results of an op: floats, and ints.
pub(super) type Results<B> = (Vec<FloatTensor<B>>, Vec<IntTensor<B>>);

/// Like [`Custom`], with float and int results.
struct Mixed<B, F> {
    desc: CustomOpIr,
    /// The number of float operands; they precede the int operands.
    floats: usize,
    /// The number of float results; they precede the int results.
    float_results: usize,
    compute: F,
    backend: PhantomData<fn() -> B>,
}

impl<B, F> fmt::Debug for Mixed<B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Mixed").field(&self.desc).finish()
    }
}

impl<B, F> Operation<B::FusionRuntime> for Mixed<B, F>
where
    B: FusionBackend,
    F: Fn(Vec<FloatTensor<B>>, Vec<IntTensor<B>>) -> Results<B> + Send + Sync,
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
        let (floats, ints) = (self.compute)(floats, ints);
        let (float_places, int_places) = self.desc.outputs.split_at(self.float_results);
        for (place, result) in float_places.iter().zip(floats) {
            handles.register_float_tensor::<B>(&place.id, result);
        }
        for (place, result) in int_places.iter().zip(ints) {
            handles.register_int_tensor::<B>(&place.id, result);
        }
    }
}

/// Registers an op with one float operand and one result, an int tensor.
pub(super) fn to_int<B: FusionBackend>(
    name: &'static str,
    operand: Tensor<B>,
    result: (Shape, DType),
    compute: impl Fn(FloatTensor<B>) -> IntTensor<B> + Send + Sync + 'static,
) -> Tensor<B> {
    let client = operand.client.clone();
    let streams = OperationStreams::with_inputs([&operand]);
    let result = TensorIr::uninit(client.create_empty_handle(), result.0, result.1);
    let desc = CustomOpIr::new(name, &[operand.into_ir()], &[result]);
    let operation = ToInt {
        desc: desc.clone(),
        compute,
        backend: PhantomData::<fn() -> B>,
    };
    let [result] = exactly(client.register(streams, OperationIr::Custom(desc), operation));
    result
}

/// Like [`Custom`], from a float tensor to an int tensor.
struct ToInt<B, F> {
    desc: CustomOpIr,
    compute: F,
    backend: PhantomData<fn() -> B>,
}

impl<B, F> fmt::Debug for ToInt<B, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ToInt").field(&self.desc).finish()
    }
}

impl<B, F> Operation<B::FusionRuntime> for ToInt<B, F>
where
    B: FusionBackend,
    F: Fn(FloatTensor<B>) -> IntTensor<B> + Send + Sync,
{
    fn execute(
        &self,
        handles: &mut HandleContainer<<B::FusionRuntime as FusionRuntime>::FusionHandle>,
    ) {
        let operand = handles.get_float_tensor::<B>(&self.desc.inputs[0]);
        let result = (self.compute)(operand);
        handles.register_int_tensor::<B>(&self.desc.outputs[0].id, result);
    }
}

/// An operation of the stream: its description, and how the backend below computes it.
struct Custom<B, F> {
    desc: CustomOpIr,
    /// The number of float operands; they precede the int operands.
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

/// Turns a list into an array of the length with which the op was registered.
pub(super) fn exactly<T, const N: usize>(list: Vec<T>) -> [T; N] {
    let found = list.len();
    list.try_into()
        .unwrap_or_else(|_| panic!("an op that was registered with {N} tensors has {found}"))
}

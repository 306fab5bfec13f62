//! What an op computes on a backend.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::{
    cases::{Case, Output, Setting},
    prelude::*,
};

/// The float results of an op, and after each the gradients of all operands by it, as a program reads them: `None` for an
/// operand without a gradient.
pub type Computed = Vec<Option<TensorData>>;

/// The names of all ops that have a case: rows of the table with a class, and ops that Burn composes.
pub fn ops() -> Vec<String> {
    let with_case = |op: &&Op| Case::<Plain>::of(**op).is_some();
    let rows = Op::ALL.iter().filter(with_case).map(Op::to_string);
    let composed = Case::<Plain>::composed().into_iter();
    rows.chain(composed.map(|(name, _)| name.to_owned()))
        .collect()
}

fn case<B: Backend>(name: &str) -> Case<B> {
    let row = Op::ALL.iter().find(|op| op.to_string() == name);
    let case = match row {
        Some(op) => Case::of(*op),
        None => Case::composed()
            .into_iter()
            .find(|(of, _)| *of == name)
            .map(|(_, case)| case),
    };
    case.expect("the op has a case")
}

/// How the operands of an op are made.
#[derive(Clone, Copy, Debug)]
pub enum Operands {
    /// They are leaves in F32, cast to this dtype.
    Cast(DType),
    /// They are products with the identity, which are exact, and stored in low precision if the policy says so.
    Products,
}

/// Computes an op, and the gradients of its operands by a weighted sum of each result. `None` if the backend panics: Burn's
/// autodiff has no gradient of some ops, and Flex has no quantized half precision.
pub fn computed<B: AutodiffBackend>(name: &str, operands: Operands) -> Option<Computed> {
    let compute = || compute::<B>(&case(name), operands);
    catch_unwind(AssertUnwindSafe(compute)).ok()
}

fn compute<B: AutodiffBackend>(case: &Case<B>, operands: Operands) -> Computed {
    let device = Device::<B>::default();
    let leaf = |data| B::float_set_require_grad(B::float_from_data(data, &device), true);
    let leaves: Vec<_> = case.operands.iter().map(|x| leaf(x.data())).collect();
    let made = |x: FloatTensor<B>| match operands {
        Operands::Cast(DType::F32) => x,
        Operands::Cast(dtype) => B::float_cast(x, dtype.into()),
        Operands::Products => product::<B>(x),
    };
    let results = case.run(
        leaves.iter().cloned().map(made).collect(),
        &Setting::default(),
    );
    let floats = results.into_iter().filter_map(|result| match result {
        Output::Float(tensor) => Some(tensor),
        Output::Int(_) | Output::Bool(_) | Output::Quantized(_) => None,
    });
    let of_result = |result: FloatTensor<B>| {
        let values = data::<B>(result.clone());
        let grads = B::backward(weighted::<B>(result));
        let gradients = leaves
            .iter()
            .map(|leaf| B::grad(leaf, &grads).map(data::<B::InnerBackend>));
        std::iter::once(Some(values))
            .chain(gradients)
            .collect::<Vec<_>>()
    };
    floats.flat_map(of_result).collect()
}

/// The product of a tensor, as a row, with the identity.
fn product<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let (shape, device) = (x.shape(), x.device());
    let n = shape.num_elements();
    let identity = (0..n * n).map(|i| f32::from(u8::from(i % (n + 1) == 0)));
    let identity = TensorData::new(identity.collect::<Vec<_>>(), [n, n]);
    let row = B::float_reshape(x, [1, n].into());
    let product = B::float_matmul(row, B::float_from_data(identity, &device));
    B::float_reshape(product, shape)
}

/// The sum of a tensor's elements with weights from 1/2 to 3/2: the gradient of a plain sum of a softmax or a norm is zero.
fn weighted<B: Backend>(x: FloatTensor<B>) -> FloatTensor<B> {
    let weights = (0..x.shape().num_elements()).map(|i| (37 * i % 65) as f32 / 64.0 + 0.5);
    let weights = TensorData::new(weights.collect::<Vec<_>>(), x.shape());
    let weights = B::float_from_data(weights, &x.device());
    let weights = match x.dtype() {
        DType::F32 => weights,
        dtype => B::float_cast(weights, dtype.into()),
    };
    B::float_sum(B::float_mul(x, weights))
}

/// Reads a tensor, and copies the data at once: on WGPU, Burn 0.22.1 copies them when they are first looked at, and by then an
/// op may have written its result in the place of the tensor.
fn data<B: Backend>(tensor: FloatTensor<B>) -> TensorData {
    let data = read_sync(B::float_into_data(tensor)).expect("the backend computes");
    let (shape, dtype) = (data.shape().clone(), data.dtype());
    TensorData::from_bytes_vec(data.as_bytes().to_vec(), shape, dtype)
}

/// The values in F64.
pub fn values(data: &TensorData) -> Vec<f64> {
    data.iter::<f64>().collect()
}

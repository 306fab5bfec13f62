//! What most tests do, in few words.

use crate::prelude::*;

/// The device under test.
pub fn here<D: Default>() -> D {
    D::default()
}

/// Reads a tensor.
pub trait Values {
    /// The values, which are F32.
    fn values(&self) -> Vec<f32>;
}

impl<B: Backend, const D: usize> Values for Tensor<B, D> {
    fn values(&self) -> Vec<f32> {
        self.to_data().into_vec().expect("the values are F32")
    }
}

/// Steps a model by the gradients of a loss.
pub fn stepped<B: AutodiffBackend, M: AutodiffModule<B>>(
    optimizer: &mut impl Optimizer<M, B>,
    lr: f64,
    loss: Tensor<B, 1>,
    model: M,
) -> M {
    let grads = GradientsParams::from_grads(loss.backward(), &model);
    optimizer.step(lr, model, grads)
}

/// Asserts that a message has some words.
#[track_caller]
pub fn says(message: &str, words: &str) {
    assert!(message.contains(words), "no `{words}` in: {message}");
}

/// Saves a record.
pub fn bytes_of<B: Backend>(record: impl Record<B>) -> Vec<u8> {
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    Recorder::<B>::record(&recorder, record, ()).expect("memory takes everything")
}

/// Loads a record.
pub fn from_bytes<B: Backend, R: Record<B>>(bytes: Vec<u8>) -> R {
    let recorder = BinBytesRecorder::<FullPrecisionSettings>::default();
    Recorder::<B>::load(&recorder, bytes, &here()).expect("the record was saved")
}

/// Saves an optimizer, and loads its record into another one.
pub fn reloaded<B, M, O>(old: &O, new: O) -> O
where
    B: AutodiffBackend,
    M: AutodiffModule<B>,
    O: Optimizer<M, B>,
{
    new.load_record(from_bytes::<B, _>(bytes_of::<B>(old.to_record())))
}

/// The tensor as an activation: the product of a matrix with the identity, which is stored in low precision.
pub fn activation<B: Backend>(x: Tensor<B, 2>) -> Tensor<B, 2> {
    let identity = Tensor::eye(x.dims()[1], &x.device());
    x.matmul(identity)
}

//! What a printed program uses.

pub use burn_amp::full_precision;
pub use burn_amp_kernels::names;
pub use burn_backend::{
    Distribution, FloatDType, Scalar, Shape, Slice, TensorMetadata,
    backend::AutodiffBackend,
    ops::{AttentionModuleOptions, FloatTensorOps},
    tensor::{FloatTensor, IndexingUpdateOp, IntTensor},
};

pub use super::{
    layers::LayerSpec,
    setting::{Mask, Setting},
};
use super::{
    program::{Leaf, LeafKind, values},
    run::data,
};
use burn_backend::TensorData;

/// What a program reads, with the names of the values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Read(pub Vec<(String, TensorData)>);

impl Read {
    /// Reads a value.
    pub fn value<B: AutodiffBackend>(&mut self, name: &str, x: FloatTensor<B>) {
        self.0.push((name.to_owned(), data::<B>(x)));
    }

    /// Reads a gradient; it is empty if there is none.
    pub fn gradient<B: AutodiffBackend>(
        &mut self,
        name: &str,
        leaf: &FloatTensor<B>,
        grads: &B::Gradients,
    ) {
        let gradient = match B::grad(leaf, grads) {
            Some(gradient) => data::<B::InnerBackend>(gradient),
            None => TensorData::new(Vec::<f32>::new(), [0]),
        };
        self.0.push((format!("gradient of {name}"), gradient));
    }
}

/// Makes a leaf: noise times `scale`, plus `offset`.
pub fn leaf<B: AutodiffBackend>(
    to: &Setting<B>,
    shape: Vec<usize>,
    scale: f64,
    offset: f64,
    is_tracked: bool,
    seed: u64,
) -> FloatTensor<B> {
    let leaf = Leaf {
        shape,
        scale,
        offset,
        kind: LeafKind::Input,
    };
    B::float_set_require_grad(values(&leaf, seed, to), is_tracked)
}

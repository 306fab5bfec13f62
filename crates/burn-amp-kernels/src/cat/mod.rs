//! Concatenation in one launch.
//!
//! Burn's CubeCL backends copy each part of a concatenation by a launch of its own, and cut the gradient into its parts in
//! the same way. A net that puts tens of embeddings side by side spends more time on launches than on these copies: this op
//! saves the tabular net 14 of 72 launches of a step, and U-Net 1.4 of 29 ms by the cost model.
//!
//! [`cat`] reads up to 16 parts per launch, and
//! [`split`], its inverse, writes as many. All parts have one dtype, any, and the same
//! sizes but in the dimension in which they are put side by side. The result keeps the order in memory of the largest part,
//! such as channels last. On Burn's `Autodiff` it is one node, which saves nothing. More parts than a node can have are Burn's.

#[cfg(feature = "cubecl")]
mod kernel;

use burn_backend::{Slice, ops::FloatTensorOps};

use crate::prelude::*;

/// Puts tensors of one dtype side by side in dimension `dim`. A single part stays as it is.
pub fn cat<B: AmpBackend>(mut parts: Vec<FloatTensor<B>>, dim: usize) -> FloatTensor<B> {
    match parts.len() {
        1 => parts.remove(0),
        _ => B::run(Cat { dim }, parts.into()).one(),
    }
}

/// Cuts a tensor into parts of these sizes of dimension `dim`.
pub fn split<B: AmpBackend>(
    whole: FloatTensor<B>,
    sizes: &[usize],
    dim: usize,
) -> Vec<FloatTensor<B>> {
    let sizes = sizes.to_vec();
    B::run(Split { sizes, dim }, [whole].into()).floats
}

#[derive(Clone, Copy, Debug)]
struct Cat {
    dim: usize,
}

impl Kernel for Cat {
    const NAME: &'static str = "burn_amp::cat";
    const READS_F64: bool = true;

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let parts = &operands.floats;
        let (mut shape, dtype) = parts[0].clone();
        shape[self.dim] = parts.iter().map(|(shape, _)| shape[self.dim]).sum();
        [(shape, dtype)].into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        [B::float_cat(operands.floats, self.dim)].into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        Ok([kernel::cat(operands.floats, self.dim)].into())
    }

    fn record<B: AmpBackend, C: CheckpointStrategy>(self, operands: Graph<B, C>) -> Graph<B, C> {
        let (parts, dim) = (operands.floats, self.dim);
        if parts.len() > MOST_OPERANDS {
            return [Autodiff::<B, C>::float_cat(parts, dim)].into();
        }
        let values = parts.iter().map(|part| part.primitive.clone()).collect();
        let whole = cat::<B>(values, dim);
        let operands: Vec<_> = parts.iter().collect();
        let node = record::<B, C, _>(&operands, whole, |_| Split {
            sizes: parts.iter().map(|part| part.shape()[dim]).collect(),
            dim,
        });
        [node].into()
    }
}

#[derive(Clone, Debug)]
struct Split {
    sizes: Vec<usize>,
    dim: usize,
}

impl Kernel for Split {
    const NAME: &'static str = "burn_amp::split";
    const READS_F64: bool = true;

    fn results(&self, operands: &Tensors<Meta>) -> Tensors<Meta> {
        let part = |size: &usize| {
            let (mut shape, dtype) = operands.floats[0].clone();
            shape[self.dim] = *size;
            (shape, dtype)
        };
        self.sizes.iter().map(part).collect::<Vec<_>>().into()
    }

    fn reference<B: AmpBackend>(&self, operands: TensorsOf<B>) -> TensorsOf<B> {
        let whole = operands.one();
        let sizes = whole.shape();
        let mut slices: Vec<_> = sizes.iter().map(|size| Slice::from(0..*size)).collect();
        let mut start = 0;
        let mut part = |size| {
            slices[self.dim] = Slice::from(start..start + size);
            start += size;
            B::float_slice(whole.clone(), &slices)
        };
        let parts = self.sizes.iter().map(|size| part(*size));
        parts.collect::<Vec<_>>().into()
    }

    #[cfg(feature = "cubecl")]
    fn launch<R: CubeRuntime>(&self, operands: CubeTensors<R>) -> Launched<R> {
        Ok(kernel::split(operands.one(), &self.sizes, self.dim).into())
    }
}

/// The node of a concatenation cuts the gradient.
impl<B: AmpBackend> Node<B> for Split {
    fn backward<const N: usize>(self, mut pass: Pass<'_, B, N>) {
        let parts = split::<B>(pass.gradient(), &self.sizes, self.dim);
        for (at, part) in parts.into_iter().enumerate() {
            pass.register(at, part);
        }
    }
}

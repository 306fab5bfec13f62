//! Ops of which a graph keeps the indices of the elements that were chosen.
//!
//! A report tells what a graph keeps, and the indices of a max-pooling take more bytes than its result. Burn's `Autodiff`
//! makes them inside the op. A watched call asks for them, which makes the same node of the graph.

use burn_amp_core::Op;
use burn_amp_kernels::AmpBackend;
use burn_backend::{
    get_device_settings,
    ops::{FloatTensorOps, ModuleOps},
    tensor::{FloatTensor, IntTensor},
};

use crate::{
    backend::Amp, cast::call::Call, graph::Graph, policy::ConfigSource, tensor::AmpTensor,
};

/// Computes the `values`, or the same `with_indices` if a graph keeps these and somebody watches.
fn indexed<B: AmpBackend, G: Graph<B>>(
    op: Op,
    tensor: AmpTensor<B, G>,
    values: impl FnOnce(FloatTensor<G::Inner>) -> FloatTensor<G::Inner>,
    with_indices: impl FnOnce(FloatTensor<G::Inner>) -> (FloatTensor<G::Inner>, IntTensor<B>),
) -> AmpTensor<B, G> {
    let mut call = Call::new::<G>(op);
    call.float(&tensor);
    let call = call.decide();
    let tensor = call.cast(tensor);
    if call.is_watched() && G::is_tracked(&tensor) {
        let (values, indices) = with_indices(tensor);
        call.int_result::<G>(indices);
        call.result(values)
    } else {
        call.result(values(tensor))
    }
}

pub(super) fn float_max_dim<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    dim: usize,
) -> FloatTensor<Amp<B, P, G>> {
    indexed(
        Op::float_max_dim,
        tensor,
        |tensor| G::Inner::float_max_dim(tensor, dim),
        |tensor| {
            let dtype = get_device_settings::<B>(&G::Inner::float_device(&tensor)).int_dtype;
            G::Inner::float_max_dim_with_indices(tensor, dim, dtype)
        },
    )
}

pub(super) fn float_min_dim<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    dim: usize,
) -> FloatTensor<Amp<B, P, G>> {
    indexed(
        Op::float_min_dim,
        tensor,
        |tensor| G::Inner::float_min_dim(tensor, dim),
        |tensor| {
            let dtype = get_device_settings::<B>(&G::Inner::float_device(&tensor)).int_dtype;
            G::Inner::float_min_dim_with_indices(tensor, dim, dtype)
        },
    )
}

pub(super) fn float_sort<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    tensor: FloatTensor<Amp<B, P, G>>,
    dim: usize,
    descending: bool,
) -> FloatTensor<Amp<B, P, G>> {
    indexed(
        Op::float_sort,
        tensor,
        |tensor| G::Inner::float_sort(tensor, dim, descending),
        |tensor| {
            let dtype = get_device_settings::<B>(&G::Inner::float_device(&tensor)).int_dtype;
            G::Inner::float_sort_with_indices(tensor, dim, descending, dtype)
        },
    )
}

pub(super) fn max_pool1d<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    x: FloatTensor<Amp<B, P, G>>,
    kernel_size: usize,
    stride: usize,
    padding: usize,
    dilation: usize,
    ceil_mode: bool,
) -> FloatTensor<Amp<B, P, G>> {
    indexed(
        Op::max_pool1d,
        x,
        |x| G::Inner::max_pool1d(x, kernel_size, stride, padding, dilation, ceil_mode),
        |x| {
            let pooled = G::Inner::max_pool1d_with_indices(
                x,
                kernel_size,
                stride,
                padding,
                dilation,
                ceil_mode,
            );
            (pooled.output, pooled.indices)
        },
    )
}

pub(super) fn max_pool2d<B: AmpBackend, P: ConfigSource, G: Graph<B>>(
    x: FloatTensor<Amp<B, P, G>>,
    kernel_size: [usize; 2],
    stride: [usize; 2],
    padding: [usize; 2],
    dilation: [usize; 2],
    ceil_mode: bool,
) -> FloatTensor<Amp<B, P, G>> {
    indexed(
        Op::max_pool2d,
        x,
        |x| G::Inner::max_pool2d(x, kernel_size, stride, padding, dilation, ceil_mode),
        |x| {
            let pooled = G::Inner::max_pool2d_with_indices(
                x,
                kernel_size,
                stride,
                padding,
                dilation,
                ceil_mode,
            );
            (pooled.output, pooled.indices)
        },
    )
}

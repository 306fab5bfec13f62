use burn_backend::{Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::prelude::*;

use crate::cube::{
    layout::{in_order, order_of, out_of_order, permuted},
    lists::{geometry, most_tensors},
    names::{Buffer, OwnedBuffer},
    plan::{address_type, empty_on_device_of, storage, vector_size},
};

/// The most parts of a launch.
const PARTS: usize = 16;

/// Where the parts lie in the whole: each of its rows has the rows of the parts side by side.
#[derive(CubeType, CubeLaunch)]
struct Places {
    /// The place of each part in a row, in vectors.
    starts: Sequence<usize>,
    /// The vectors of each part's rows.
    lengths: Sequence<usize>,
    rows: usize,
    /// The vectors of a row of the whole.
    row: usize,
}

#[cube]
impl Places {
    /// The vectors of a part.
    fn vectors(&self, #[comptime] part: usize) -> usize {
        self.rows * *self.lengths.index(part)
    }

    /// The place in the whole of a part's vector.
    fn in_whole(&self, #[comptime] part: usize, vector: usize) -> usize {
        let length = *self.lengths.index(part);
        vector / length * self.row + *self.starts.index(part) + vector % length
    }
}

/// Every unit strides over all parts.
#[cube(launch, address_type = "dynamic")]
fn cat_kernel<F: Numeric, N: Size>(
    parts: &Sequence<OwnedBuffer<Vector<F, N>>>,
    whole: &mut Buffer<Vector<F, N>>,
    places: &Places,
    #[define(F)] _dtype: StorageType,
) {
    #[unroll]
    for at in 0..parts.len() {
        let part = parts.index(at);
        let mut position = ABSOLUTE_POS;
        while position < places.vectors(at) {
            whole[places.in_whole(at, position)] = part[position];
            position += CUBE_COUNT * CUBE_DIM as usize;
        }
    }
}

/// Every unit strides over all parts.
#[cube(launch, address_type = "dynamic")]
fn split_kernel<F: Numeric, N: Size>(
    whole: &Buffer<Vector<F, N>>,
    parts: &mut Sequence<OwnedBuffer<Vector<F, N>>>,
    places: &Places,
    #[define(F)] _dtype: StorageType,
) {
    #[unroll]
    for at in 0..parts.len() {
        let part = parts.index_mut(at);
        let mut position = ABSOLUTE_POS;
        while position < places.vectors(at) {
            part[position] = whole[places.in_whole(at, position)];
            position += CUBE_COUNT * CUBE_DIM as usize;
        }
    }
}

/// Puts parts of one dtype side by side.
pub(crate) fn cat<R: CubeRuntime>(parts: Vec<CubeTensor<R>>, dim: usize) -> CubeTensor<R> {
    let largest = parts.iter().max_by_key(|part| part.meta.num_elements());
    let largest = largest.expect("there is a part");
    let sizes: Vec<usize> = parts.iter().map(|part| part.meta.shape()[dim]).collect();
    let plan = CatPlan::new(largest, &sizes, dim);
    let whole = empty_on_device_of(largest, plan.shape.clone(), largest.dtype);
    // CUDA refuses to copy an empty tensor.
    let parts = parts.into_iter().filter(|part| !is_empty(part));
    let parts: Vec<_> = parts.map(|part| in_order(part, &plan.order)).collect();
    plan.launches(&parts, |parts, places, (cubes, units)| {
        cat_kernel::launch::<R>(
            &whole.client,
            cubes,
            units,
            address_type(parts.iter().chain([&whole])),
            plan.vector_size,
            arrays(parts),
            whole.clone().into_array_arg(),
            places,
            storage(whole.dtype),
        );
    });
    out_of_order(whole, &plan.order)
}

/// Cuts a tensor into parts of these sizes.
pub(crate) fn split<R: CubeRuntime>(
    mut whole: CubeTensor<R>,
    sizes: &[usize],
    dim: usize,
) -> Vec<CubeTensor<R>> {
    let plan = CatPlan::new(&whole, sizes, dim);
    if !is_empty(&whole) {
        whole = in_order(whole, &plan.order);
    }
    let part = |size: &usize| {
        let mut shape = plan.shape.clone();
        shape[plan.dim] = *size;
        empty_on_device_of(&whole, shape, whole.dtype)
    };
    let parts: Vec<_> = sizes.iter().map(part).collect();
    plan.launches(&parts, |parts, places, (cubes, units)| {
        split_kernel::launch::<R>(
            &whole.client,
            cubes,
            units,
            address_type(parts.iter().chain([&whole])),
            plan.vector_size,
            whole.clone().into_array_arg(),
            arrays(parts),
            places,
            storage(whole.dtype),
        );
    });
    let parts = parts.into_iter();
    parts.map(|part| out_of_order(part, &plan.order)).collect()
}

fn is_empty<R: CubeRuntime>(tensor: &CubeTensor<R>) -> bool {
    tensor.meta.num_elements() == 0
}

/// Passes parts to a kernel.
fn arrays<R: CubeRuntime, E: CubePrimitive>(
    parts: &[CubeTensor<R>],
) -> SequenceArg<R, OwnedBuffer<E>> {
    let parts = parts.iter().cloned();
    parts.map(CubeTensor::into_array_arg).collect()
}

/// How the parts lie in the whole, in the order of memory.
struct CatPlan {
    /// The dimensions, outermost first.
    order: Vec<usize>,
    shape: Shape,
    /// The dimension along which the parts lie side by side.
    dim: usize,
    /// The elements behind one step along this dimension.
    inner: usize,
    vector_size: usize,
}

impl CatPlan {
    /// For parts of these sizes of dimension `dim`. `like` has the other sizes, and the order.
    fn new<R: CubeRuntime>(like: &CubeTensor<R>, sizes: &[usize], dim: usize) -> Self {
        let order = order_of(like);
        let mut shape = like.shape();
        shape[dim] = sizes.iter().sum();
        let shape = permuted(&shape, &order);
        let dim = order.iter().position(|other| *other == dim);
        let dim = dim.expect("the order has all dimensions");
        let inner = shape.as_slice()[dim + 1..].iter().product();
        let lengths: Vec<usize> = sizes.iter().map(|size| size * inner).collect();
        Self {
            vector_size: vector_size(&like.client, like.dtype.size(), &lengths),
            order,
            shape,
            dim,
            inner,
        }
    }

    /// Calls `launch` with some of the parts at a time, without the empty ones.
    fn launches<R: CubeRuntime>(
        &self,
        parts: &[CubeTensor<R>],
        launch: impl Fn(&[CubeTensor<R>], PlacesLaunch<R>, (CubeCount, CubeDim)),
    ) {
        /// The whole, and the buffer in which CubeCL passes sizes.
        const OTHER_BUFFERS: usize = 2;

        let filled = parts.iter().filter(|part| !is_empty(part));
        let filled: Vec<_> = filled.cloned().collect();
        let Some(first) = filled.first() else {
            return;
        };
        let client = first.client.clone();
        let bindings = client.properties().hardware.max_bindings as usize;
        let most = most_tensors(bindings, 1, OTHER_BUFFERS).min(PARTS);
        let vectors = |shape: &Shape| shape[self.dim] * self.inner / self.vector_size;
        let rows: usize = self.shape.as_slice()[..self.dim].iter().product();
        let mut start = 0;
        for parts in filled.chunks(most) {
            let lengths: Vec<_> = parts.iter().map(|part| vectors(&part.shape())).collect();
            let longest = lengths.iter().max().expect("a chunk has parts");
            let starts = lengths.iter().map(|length| {
                start += length;
                start - length
            });
            let places = PlacesLaunch::new(
                starts.collect(),
                lengths.iter().copied().collect(),
                rows,
                vectors(&self.shape),
            );
            launch(parts, places, geometry(&client, rows * longest));
        }
    }
}

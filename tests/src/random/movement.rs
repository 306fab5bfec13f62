//! Ops that move, select and copy values, and ops that change what is known about a tensor.

use burn_backend::Shape;

use super::all::*;
use super::shape::{along, joined, merged, permuted, resized, same, split};

table! {
    /// Ops that move, select and copy values, and ops that change what is known about a tensor.
    Movement, to;
    Transpose [x] () swapped(x, x.len().checked_sub(2)?, x.len() - 1) => B::float_transpose(x);
    SwapDims [x] (a: usize, b: usize) swapped(x, a, b) => B::float_swap_dims(x, a, b);
    Permute [x] (axes: Vec<usize>) permuted(x, &axes) => B::float_permute(x, &axes);
    Flip [x] (dim: usize) along(x, dim) => B::float_flip(x, &[dim]);
    Merge [x] (dim: usize) merged(x, dim) => {
        let mut shape = x.shape().to_vec();
        let size = shape.remove(dim + 1);
        shape[dim] *= size;
        B::float_reshape(x, Shape::from(shape))
    };
    Split [x] (dim: usize, size: usize) split(x, dim, size) => {
        let mut shape = x.shape().to_vec();
        shape[dim] /= size;
        shape.insert(dim + 1, size);
        B::float_reshape(x, Shape::from(shape))
    };
    Flatten [x] () Some(vec![x.iter().product()]) => {
        let len = x.shape().num_elements();
        B::float_reshape(x, Shape::from(vec![len]))
    };
    Unsqueeze [x] (dim: usize) inserted(x, dim) => {
        let mut shape = x.shape().to_vec();
        shape.insert(dim, 1);
        B::float_reshape(x, Shape::from(shape))
    };
    Squeeze [x] (dim: usize) removed(x, dim) => {
        let mut shape = x.shape().to_vec();
        shape.remove(dim);
        B::float_reshape(x, Shape::from(shape))
    };
    Repeat [x] (dim: usize, times: usize) resized(x, dim, x.get(dim)? * times) => {
        B::float_repeat_dim(x, dim, times)
    };
    Expand [x] (dim: usize, size: usize) (*x.get(dim)? == 1).then(|| resized(x, dim, size))? => {
        let mut shape = x.shape().to_vec();
        shape[dim] = size;
        B::float_expand(x, Shape::from(shape))
    };
    Slice [x] (dim: usize, start: usize, end: usize, step: usize) sliced(x, dim, start, end, step) => {
        let mut slices = vec![Slice::full(); x.shape().num_dims()];
        slices[dim] = Slice::new(start as isize, Some(end as isize), step as isize);
        B::float_slice(x, &slices)
    };
    SliceAssign [x, y] (dim: usize, start: usize) assigned(x, y, dim, start) => {
        let mut slices = vec![Slice::full(); x.shape().num_dims()];
        slices[dim] = Slice::new(start as isize, Some((start + y.shape()[dim]) as isize), 1);
        B::float_slice_assign(x, &slices, y)
    };
    IntoZeros [x] (dim: usize, size: usize) (*x.get(dim)? <= size).then(|| resized(x, dim, size))? => {
        let mut shape = x.shape().to_vec();
        shape[dim] = size;
        let zeros = B::float_zeros(Shape::from(shape), &to.device, x.dtype().into());
        let mut slices = vec![Slice::full(); x.shape().num_dims()];
        slices[dim] = Slice::new(0, Some(x.shape()[dim] as isize), 1);
        B::float_slice_assign(zeros, &slices, x)
    };
    InTurns [x] (dim: usize, width: usize, reversed: bool) in_turns(x, dim, width) => {
        let mut y = B::float_zeros(x.shape(), &to.device, x.dtype().into());
        let last = x.shape()[dim] - width;
        for at in 0..=last {
            let start = if reversed { last - at } else { at } as isize;
            let mut slices = vec![Slice::full(); x.shape().num_dims()];
            slices[dim] = Slice::new(start, Some(start + width as isize), 1);
            let part = B::float_slice(x.clone(), &slices);
            y = B::float_slice_assign(y, &slices, part);
        }
        y
    };
    Cat [x, y] (dim: usize) joined(x, y, dim) => B::float_cat(vec![x, y], dim);
    CatThree [x, y, z] (dim: usize) joined(&joined(x, y, dim)?, z, dim) => {
        B::float_cat(vec![x, y, z], dim)
    };
    CatMany [x, y] (dim: usize, times: usize) {
        let pair = joined(x, y, dim)?;
        resized(&pair, dim, pair[dim] * times)
    } => {
        let parts = (0..times).flat_map(|_| [x.clone(), y.clone()]);
        B::float_cat(parts.collect(), dim)
    };
    CatWithOnes [x] (dim: usize) joined(x, x, dim) => {
        let ones = B::float_ones(x.shape(), &to.device, x.dtype().into());
        B::float_cat(vec![ones, x], dim)
    };
    Select [x] (dim: usize, len: usize, seed: u64) resized(&along(x, dim)?, dim, len) => {
        let indices = to.indices(vec![len], x.shape()[dim], seed);
        B::float_select(x, dim, indices)
    };
    SelectAdd [x, y] (dim: usize, seed: u64) other_dims(x, y, dim) => {
        let indices = to.indices(vec![y.shape()[dim]], x.shape()[dim], seed);
        names::select_add::<B>(x, dim, indices, y)
    };
    Gather [x] (dim: usize, len: usize, seed: u64) resized(&along(x, dim)?, dim, len) => {
        let mut shape = x.shape().to_vec();
        let end = std::mem::replace(&mut shape[dim], len);
        B::float_gather(dim, x, to.indices(shape, end, seed))
    };
    ScatterAdd [x, y] (dim: usize, seed: u64) other_dims(x, y, dim) => {
        let indices = to.indices(y.shape().to_vec(), x.shape()[dim], seed);
        names::scatter_add::<B>(dim, x, indices, y)
    };
    ScatterNd [x, y] (seed: u64) other_dims(x, y, 0) => {
        // Different places, because Burn adds to one place in any order.
        let len = x.shape()[0];
        let mut indices: Vec<i64> = (0..len as i64).collect();
        indices.rotate_left(seed as usize % len);
        indices.truncate(y.shape()[0]);
        let data = burn_backend::TensorData::new(indices, [y.shape()[0], 1]);
        let indices = B::int_from_data(data.convert_dtype(to.int_dtype().into()), &to.device);
        B::float_scatter_nd(x, indices, y, IndexingUpdateOp::Add)
    };
    Unfold [x] (dim: usize, size: usize, step: usize) unfolded(x, dim, size, step) => {
        B::float_unfold(x, dim, size, step)
    };
    Cast [x] (dtype: FloatDType) same(x) => B::float_cast(x, dtype);
    Detach [x] () same(x) => B::float_detach(x);
    Cut [x] () same(x) => B::float_set_require_grad(x, false);
    NewLeaf [x] () same(x) => B::float_set_require_grad(B::float_detach(x), true);
    ThroughInner [x] () same(x) => B::from_inner(B::inner(x));
    ThroughInnerOp [x] (value: f64) same(x) => {
        use burn_backend::ops::FloatTensorOps;
        B::from_inner(B::InnerBackend::float_mul_scalar(B::inner(x), value.into()))
    };
    ToDevice [x] () same(x) => B::float_to_device(x, &to.device);
}

fn swapped(x: &[usize], a: usize, b: usize) -> Option<Vec<usize>> {
    let mut shape = x.to_vec();
    (a < x.len() && b < x.len()).then(|| shape.swap(a, b))?;
    Some(shape)
}

fn inserted(x: &[usize], dim: usize) -> Option<Vec<usize>> {
    let mut shape = x.to_vec();
    (dim <= x.len() && x.len() < 6).then(|| shape.insert(dim, 1))?;
    Some(shape)
}

fn removed(x: &[usize], dim: usize) -> Option<Vec<usize>> {
    let mut shape = x.to_vec();
    (x.len() > 1 && *x.get(dim)? == 1).then(|| shape.remove(dim))?;
    Some(shape)
}

fn sliced(x: &Vec<usize>, dim: usize, start: usize, end: usize, step: usize) -> Option<Vec<usize>> {
    (start <= end && end <= *x.get(dim)? && step > 0).then_some(())?;
    resized(x, dim, (end - start).div_ceil(step))
}

fn assigned(x: &Vec<usize>, y: &Vec<usize>, dim: usize, start: usize) -> Option<Vec<usize>> {
    (start + y.get(dim)? <= *x.get(dim)?).then_some(())?;
    other_dims(x, y, dim)
}

/// The most turns of a loop.
const TURNS: usize = 12;

fn in_turns(x: &[usize], dim: usize, width: usize) -> Option<Vec<usize>> {
    let turns = x.get(dim)?.checked_sub(width)? + 1;
    (width > 0 && turns <= TURNS && !x.contains(&0)).then(|| x.to_vec())
}

/// The shape of `x`, if `y` differs in dimension `dim` only, where it has at most the size of `x`.
fn other_dims(x: &Vec<usize>, y: &Vec<usize>, dim: usize) -> Option<Vec<usize>> {
    let fits = y.get(dim)? <= x.get(dim)? && y[dim] > 0 && !x.contains(&0);
    (fits && resized(x, dim, 0) == resized(y, dim, 0)).then(|| x.clone())
}

fn unfolded(x: &[usize], dim: usize, size: usize, step: usize) -> Option<Vec<usize>> {
    let mut shape = x.to_vec();
    (x.len() < 6 && *x.get(dim)? >= size && size > 0 && step > 0).then_some(())?;
    shape[dim] = (x[dim] - size) / step + 1;
    shape.push(size);
    Some(shape)
}

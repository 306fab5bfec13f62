//! Rules for the shapes of results.

/// The shape of an operand.
pub type Shape = Vec<usize>;

/// The same shape.
pub fn same(x: &Shape) -> Option<Shape> {
    Some(x.clone())
}

/// Two shapes of one rank, broadcast to each other.
pub fn broadcast(x: &Shape, y: &Shape) -> Option<Shape> {
    if x.len() != y.len() {
        return None;
    }
    let size = |(x, y): (&usize, &usize)| match (*x, *y) {
        (x, y) if x == y => Some(x),
        (1, y) => Some(y),
        (x, 1) => Some(x),
        _ => None,
    };
    x.iter().zip(y).map(size).collect()
}

/// The shape with another size in dimension `dim`.
pub fn resized(x: &Shape, dim: usize, size: usize) -> Option<Shape> {
    let mut shape = x.clone();
    *shape.get_mut(dim)? = size;
    Some(shape)
}

/// The shape of a reduction along `dim`, which is not empty.
pub fn reduced(x: &Shape, dim: usize) -> Option<Shape> {
    (*x.get(dim)? > 0).then_some(())?;
    resized(x, dim, 1)
}

/// The shape of an op along `dim`, which is not empty.
pub fn along(x: &Shape, dim: usize) -> Option<Shape> {
    (*x.get(dim)? > 0).then(|| x.clone())
}

/// The shape of one number computed from at least one.
pub fn one(x: &Shape) -> Option<Shape> {
    (x.iter().product::<usize>() > 0).then(|| vec![1])
}

/// The shape of a product of matrices.
pub fn product(x: &Shape, y: &Shape) -> Option<Shape> {
    let rank = x.len();
    if rank < 2 || rank != y.len() || x[rank - 1] != y[rank - 2] || x.contains(&0) || y.contains(&0)
    {
        return None;
    }
    let mut shape = broadcast(&x[..rank - 2].to_vec(), &y[..rank - 2].to_vec())?;
    shape.extend([x[rank - 2], y[rank - 1]]);
    Some(shape)
}

/// The shape with its dimensions in another order.
pub fn permuted(x: &Shape, axes: &[usize]) -> Option<Shape> {
    let mut sorted = axes.to_vec();
    sorted.sort_unstable();
    (sorted == (0..x.len()).collect::<Vec<_>>()).then(|| axes.iter().map(|axis| x[*axis]).collect())
}

/// The shape with dimensions `dim` and `dim + 1` in one.
pub fn merged(x: &Shape, dim: usize) -> Option<Shape> {
    let mut shape = x.clone();
    (dim + 1 < x.len()).then_some(())?;
    let size = shape.remove(dim + 1);
    shape[dim] *= size;
    Some(shape)
}

/// The shape with dimension `dim` as two, the second of which has size `size`.
pub fn split(x: &Shape, dim: usize, size: usize) -> Option<Shape> {
    let mut shape = x.clone();
    let whole = *x.get(dim)?;
    (x.len() < 6 && size > 0 && whole % size == 0).then_some(())?;
    shape[dim] = whole / size;
    shape.insert(dim + 1, size);
    Some(shape)
}

/// The shapes of two tensors one after the other.
pub fn joined(x: &Shape, y: &Shape, dim: usize) -> Option<Shape> {
    let size = x.get(dim)? + y.get(dim)?;
    (resized(x, dim, 0) == resized(y, dim, 0)).then_some(())?;
    resized(x, dim, size)
}

/// The shape of windows of one dimension.
pub fn windows(size: usize, kernel: usize, stride: usize, padding: usize) -> Option<usize> {
    let padded = size + 2 * padding;
    (kernel > 0 && stride > 0 && size > 0 && padded >= kernel && 2 * padding <= kernel)
        .then(|| (padded - kernel) / stride + 1)
}

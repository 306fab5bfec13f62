use super::{Affine, Group, Rest, SumAndSquares, Sums};
use crate::prelude::*;

/// Computes with Burn's ops, between casts.
pub fn reference<B: Backend>(
    x: FloatTensor<B>,
    affine: Affine<FloatTensor<B>>,
    plus: Option<FloatTensor<B>>,
    dtype: FloatDType,
) -> FloatTensor<B> {
    let shape = x.shape();
    let mut y = rescaled::<B>(&affine, scaled::<B>(&affine, centered::<B>(x, &affine)));
    if let Some(after) = &affine.after {
        y = B::float_add(y, after.clone());
    }
    let mut y = reshaped::<B>(y, &shape);
    if let Some(plus) = plus {
        y = B::float_add(y, widen::<B>(plus));
    }
    if affine.relu {
        y = B::relu(y);
    }
    cast::<B>(y, dtype.into())
}

/// Computes the gradient with respect to `x` with Burn's ops, between casts.
pub fn reference_backward<B: Backend>(
    x: FloatTensor<B>,
    affine: Affine<FloatTensor<B>>,
    grad: FloatTensor<B>,
    rest: Rest<FloatTensor<B>>,
    dtype: FloatDType,
) -> FloatTensor<B> {
    let shape = x.shape();
    let grad = passed::<B>(x.clone(), &affine, grad);
    let mut dx = rescaled::<B>(&affine, scaled::<B>(&affine, grad));
    let Rest {
        before,
        of_squares,
        of_sum,
        plus,
    } = rest;
    if let Some(of_squares) = of_squares {
        let chain = Affine {
            before,
            ..Affine::identity(affine.grid)
        };
        let centered = centered::<B>(x, &chain);
        dx = B::float_add(dx, B::float_mul(centered, of_squares));
    }
    if let Some(of_sum) = of_sum {
        dx = B::float_add(dx, of_sum);
    }
    let mut dx = reshaped::<B>(dx, &shape);
    if let Some(plus) = plus {
        dx = B::float_add(dx, widen::<B>(plus));
    }
    cast::<B>(dx, dtype.into())
}

/// Computes the sums with Burn's ops, between casts.
pub fn reference_sums<B: Backend>(
    x: FloatTensor<B>,
    affine: Affine<FloatTensor<B>>,
    grad: FloatTensor<B>,
    group: Group,
) -> Sums<FloatTensor<B>> {
    let kept = affine.kept(group).expect("the group has a factor");
    let grad = passed::<B>(x.clone(), &affine, grad);
    let centered = centered::<B>(x, &affine);
    let (grad, centered) = match group {
        Group::First => (rescaled::<B>(&affine, grad), centered),
        Group::Second => (grad, scaled::<B>(&affine, centered)),
        Group::All => (grad, centered),
    };
    let (of_gradient, of_product) = (grad.clone(), B::float_mul(grad, centered));
    Sums {
        of_gradient: summed::<B>(of_gradient, &kept),
        of_product: summed::<B>(of_product, &kept),
    }
}

/// Computes both moments with Burn's ops, between casts.
pub fn reference_moments<B: Backend>(
    x: FloatTensor<B>,
    grid: Shape,
    before: Option<FloatTensor<B>>,
    kept: Shape,
    mean: bool,
) -> SumAndSquares<FloatTensor<B>> {
    let divisor = mean.then(|| terms(&x.shape(), &kept));
    let affine = Affine {
        before,
        ..Affine::identity(grid)
    };
    let centered = centered::<B>(x, &affine);
    let moment = |values| {
        let sum = summed::<B>(values, &kept);
        match divisor {
            Some(divisor) => B::float_div_scalar(sum, divisor.into()),
            None => sum,
        }
    };
    SumAndSquares {
        sum: moment(centered.clone()),
        squares: moment(B::float_mul(centered.clone(), centered)),
    }
}

/// The number of elements of a tensor of shape `shape` that are added to one sum.
pub(super) fn terms(shape: &Shape, kept: &Shape) -> f64 {
    shape.num_elements() as f64 / kept.num_elements() as f64
}

/// `x + before`, in the shape of the grid.
fn centered<B: Backend>(x: FloatTensor<B>, affine: &Affine<FloatTensor<B>>) -> FloatTensor<B> {
    let x = reshaped::<B>(widen::<B>(x), &affine.grid);
    match &affine.before {
        Some(before) => B::float_add(x, before.clone()),
        None => x,
    }
}

/// `tensor · scale`, or `tensor / scale`; the tensor if there is no `scale`.
pub(super) fn scaled<B: Backend>(
    affine: &Affine<FloatTensor<B>>,
    tensor: FloatTensor<B>,
) -> FloatTensor<B> {
    match &affine.scale {
        Some(scale) if affine.divides => B::float_div(tensor, scale.clone()),
        Some(scale) => B::float_mul(tensor, scale.clone()),
        None => tensor,
    }
}

/// `tensor · rescale`; the tensor if there is no `rescale`.
pub(super) fn rescaled<B: Backend>(
    affine: &Affine<FloatTensor<B>>,
    tensor: FloatTensor<B>,
) -> FloatTensor<B> {
    match &affine.rescale {
        Some(rescale) => B::float_mul(tensor, rescale.clone()),
        None => tensor,
    }
}

/// The gradient of the result where the ReLU let it pass, in the shape of the grid.
fn passed<B: Backend>(
    x: FloatTensor<B>,
    affine: &Affine<FloatTensor<B>>,
    grad: FloatTensor<B>,
) -> FloatTensor<B> {
    let grad = reshaped::<B>(widen::<B>(grad), &affine.grid);
    if !affine.relu {
        return grad;
    }
    let chain = Affine {
        relu: false,
        ..affine.clone()
    };
    let y = reference::<B>(x, chain, None, grad.dtype().into());
    let y = reshaped::<B>(y, &affine.grid);
    let bool_dtype = bool_dtype::<B>(&y);
    let stopped = B::float_lower_equal_elem(y, 0f32.into(), bool_dtype);
    B::float_mask_fill(grad, stopped, 0f32.into())
}

/// Sums over the dimensions in which `kept` is 1.
pub(super) fn summed<B: Backend>(tensor: FloatTensor<B>, kept: &Shape) -> FloatTensor<B> {
    let sizes = kept.as_slice().iter().enumerate();
    sizes.fold(tensor, |tensor, (dim, size)| {
        if *size == 1 && tensor.shape()[dim] != 1 {
            sum_dim::<B>(tensor, dim)
        } else {
            tensor
        }
    })
}

pub(super) fn reshaped<B: Backend>(tensor: FloatTensor<B>, shape: &Shape) -> FloatTensor<B> {
    if tensor.shape() == *shape {
        tensor
    } else {
        B::float_reshape(tensor, shape.clone())
    }
}

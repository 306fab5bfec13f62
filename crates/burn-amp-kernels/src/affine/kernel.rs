use burn_backend::{Backend, DType, FloatDType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, tensor::CubeTensor};
use cubecl::{calculate_cube_count_elemwise, prelude::*};

use super::{
    Affine, Rest,
    device::{
        Chain, Factors, FactorsLaunch, Point, PointLaunch, chain, factor, passed, plus, point,
        scaled, times,
    },
    layout::{DIMS, Layout},
};
use crate::cube::plan::{address_type, empty_on_device_of, storage};

/// One unit computes one vector.
#[cube(launch, address_type = "dynamic")]
fn affine_kernel<X: Float, P: Float, O: Float, N: Size>(
    x: &Array<Vector<X, N>>,
    factors: &Factors,
    summand: &ComptimeOption<Array<Vector<P, N>>>,
    output: &mut Array<Vector<O, N>>,
    sizes: Point,
    #[comptime] of: Chain,
    #[define(X, P, O)] _dtypes: [StorageType; 3],
) {
    if ABSOLUTE_POS >= output.len() {
        terminate!();
    }
    let point = point::<N>(ABSOLUTE_POS, sizes);
    let x = Vector::<f32, N>::cast_from(x[ABSOLUTE_POS]);
    let centered = plus::<N>(x, &factors.before, point, sizes, of.before);
    let y = chain::<N>(centered, factors, point, sizes, of);
    #[comptime]
    let y = match summand {
        ComptimeOption::Some(summand) => y + Vector::<f32, N>::cast_from(summand[ABSOLUTE_POS]),
        ComptimeOption::None => y,
    };
    let y = if comptime!(of.relu) {
        select_many(y.less_than(Vector::new(0.0)), Vector::new(0.0), y)
    } else {
        y
    };
    output[ABSOLUTE_POS] = Vector::cast_from(y);
}

/// One unit computes one vector.
#[cube(launch, address_type = "dynamic")]
fn affine_backward_kernel<X: Float, G: Float, P: Float, O: Float, N: Size>(
    x: &Array<Vector<X, N>>,
    factors: &Factors,
    grad: &Array<Vector<G, N>>,
    rest: &Factors,
    summand: &ComptimeOption<Array<Vector<P, N>>>,
    dx: &mut Array<Vector<O, N>>,
    sizes: Point,
    #[comptime] of: Chain,
    #[comptime] of_rest: Chain,
    #[define(X, G, P, O)] _dtypes: [StorageType; 4],
) {
    if ABSOLUTE_POS >= dx.len() {
        terminate!();
    }
    let point = point::<N>(ABSOLUTE_POS, sizes);
    let x = Vector::<f32, N>::cast_from(x[ABSOLUTE_POS]);
    let centered = plus::<N>(x, &factors.before, point, sizes, of.before);
    let grad = Vector::<f32, N>::cast_from(grad[ABSOLUTE_POS]);
    let grad = passed::<N>(grad, centered, factors, point, sizes, of);
    let grad = scaled::<N>(grad, factors, point, sizes, of);
    let grad = times::<N>(grad, &factors.rescale, point, sizes, of.rescale);
    #[comptime]
    let grad = match &rest.scale {
        ComptimeOption::Some(of_squares) => {
            let x = plus::<N>(x, &rest.before, point, sizes, of_rest.before);
            grad + x * factor::<N>(of_squares, point, sizes, of_rest.scale)
        }
        ComptimeOption::None => grad,
    };
    let grad = plus::<N>(grad, &rest.after, point, sizes, of_rest.after);
    #[comptime]
    let grad = match summand {
        ComptimeOption::Some(summand) => grad + Vector::<f32, N>::cast_from(summand[ABSOLUTE_POS]),
        ComptimeOption::None => grad,
    };
    dx[ABSOLUTE_POS] = Vector::cast_from(grad);
}

/// Returns `x`, a chain of which the kernels compute, as they read it.
pub(super) struct Launch<R: CubeRuntime> {
    pub layout: Layout,
    pub factors: Ordered<R>,
    /// Elements per vector.
    pub vector_size: usize,
    sizes: [usize; DIMS],
}

impl<R: CubeRuntime> Launch<R> {
    /// Plans a launch for tensors of the shape of `x` in the given dtypes, and for others that are broadcast to the grid.
    /// `None` if the kernels cannot compute it.
    pub(super) fn new<B>(
        x: &CubeTensor<R>,
        affine: &Affine<B>,
        others: &[&Shape],
        dtypes: &[DType],
    ) -> Option<Self>
    where
        B: Backend<FloatTensorPrimitive = CubeTensor<R>>,
    {
        let is_f64 = x.dtype == DType::F64 || dtypes.contains(&DType::F64);
        if is_f64 || x.meta.num_elements() == 0 {
            return None;
        }
        let factors = affine.factors();
        let shapes = factors.map(|factor| factor.map(TensorMetadata::shape));
        let patterns: Vec<_> = shapes
            .iter()
            .flatten()
            .chain(others.iter().copied())
            .collect();
        let layout = Layout::new(x, &affine.grid, &patterns)?;
        let sizes = layout.sizes();
        let widest = dtypes
            .iter()
            .map(DType::size)
            .fold(x.dtype.size(), usize::max);
        let vector_size = x
            .client
            .io_optimized_vector_sizes(widest)
            .find(|size| sizes[DIMS - 1].is_multiple_of(*size))
            .unwrap_or(1);
        Some(Self {
            factors: Ordered::new(&layout, factors, affine.divides, affine.relu),
            layout,
            vector_size,
            sizes,
        })
    }

    /// Passes the sizes of the kernels' dimensions to a kernel.
    pub(super) fn sizes(&self) -> PointLaunch<R> {
        let [a, b, c, d] = self.sizes;
        PointLaunch::new(a, b, c, d)
    }
}

/// Factors in the order in which a kernel reads `x`: before, scale, rescale, after.
pub(super) struct Ordered<R: CubeRuntime> {
    tensors: [Option<CubeTensor<R>>; 4],
    pub chain: Chain,
}

impl<R: CubeRuntime> Ordered<R> {
    fn new(
        layout: &Layout,
        factors: [Option<&CubeTensor<R>>; 4],
        divides: bool,
        relu: bool,
    ) -> Self {
        let [before, scale, rescale, after] =
            factors.map(|factor| factor.map_or(0, |factor| layout.varies(&factor.shape())));
        Self {
            tensors: factors.map(|factor| factor.map(|factor| layout.factor(factor.clone()))),
            chain: Chain {
                before,
                scale,
                rescale,
                after,
                divides,
                relu,
            },
        }
    }

    pub(super) fn launch(&self) -> FactorsLaunch<R> {
        let [before, scale, rescale, after] = self
            .tensors
            .clone()
            .map(|factor| factor.map(CubeTensor::into_array_arg));
        FactorsLaunch::new(before.into(), scale.into(), rescale.into(), after.into())
    }
}

/// Launches the chain; `None` if the kernel cannot compute it.
pub(crate) fn affine<R: CubeRuntime, B>(
    x: &CubeTensor<R>,
    affine: &Affine<B>,
    plus: Option<&CubeTensor<R>>,
    dtype: FloatDType,
) -> Option<CubeTensor<R>>
where
    B: Backend<FloatTensorPrimitive = CubeTensor<R>>,
{
    let plus_dtype = plus.map_or(DType::F32, |plus| plus.dtype);
    let dtype = DType::from(dtype);
    let launch = Launch::new(x, affine, &[], &[plus_dtype, dtype])?;
    let layout = &launch.layout;
    let output = empty_on_device_of(x, layout.shape(&x.shape()), dtype);
    let client = x.client.clone();
    let vectors = x.meta.num_elements() / launch.vector_size;
    let units = CubeDim::new(&client, vectors);
    affine_kernel::launch::<R>(
        &client,
        calculate_cube_count_elemwise(&client, vectors, units),
        units,
        address_type([x, &output]),
        launch.vector_size,
        layout.ordered(x.clone()).into_array_arg(),
        launch.factors.launch(),
        plus.map(|plus| layout.ordered(plus.clone()).into_array_arg())
            .into(),
        output.clone().into_array_arg(),
        launch.sizes(),
        launch.factors.chain,
        [x.dtype, plus_dtype, dtype].map(storage),
    );
    Some(layout.restored(output))
}

/// Launches the gradient with respect to `x`; `None` if the kernel cannot compute it.
pub(crate) fn affine_backward<R: CubeRuntime, B>(
    x: &CubeTensor<R>,
    affine: &Affine<B>,
    grad: &CubeTensor<R>,
    rest: &Rest<B>,
    dtype: FloatDType,
) -> Option<CubeTensor<R>>
where
    B: Backend<FloatTensorPrimitive = CubeTensor<R>>,
{
    let [before, of_squares, of_sum, plus] =
        [&rest.before, &rest.of_squares, &rest.of_sum, &rest.plus].map(Option::as_ref);
    let before = before.filter(|_| of_squares.is_some());
    let plus_dtype = plus.map_or(DType::F32, |plus| plus.dtype);
    let dtype = DType::from(dtype);
    let shapes: Vec<_> = [before, of_squares, of_sum]
        .into_iter()
        .flatten()
        .map(TensorMetadata::shape)
        .collect();
    let others: Vec<_> = shapes.iter().collect();
    let launch = Launch::new(x, affine, &others, &[grad.dtype, plus_dtype, dtype])?;
    let layout = &launch.layout;
    let rest = Ordered::new(layout, [before, of_squares, None, of_sum], false, false);
    let dx = empty_on_device_of(x, layout.shape(&x.shape()), dtype);
    let client = x.client.clone();
    let vectors = x.meta.num_elements() / launch.vector_size;
    let units = CubeDim::new(&client, vectors);
    affine_backward_kernel::launch::<R>(
        &client,
        calculate_cube_count_elemwise(&client, vectors, units),
        units,
        address_type([x, &dx]),
        launch.vector_size,
        layout.ordered(x.clone()).into_array_arg(),
        launch.factors.launch(),
        layout.ordered(grad.clone()).into_array_arg(),
        rest.launch(),
        plus.map(|plus| layout.ordered(plus.clone()).into_array_arg())
            .into(),
        dx.clone().into_array_arg(),
        launch.sizes(),
        launch.factors.chain,
        rest.chain,
        [x.dtype, grad.dtype, plus_dtype, dtype].map(storage),
    );
    Some(layout.restored(dx))
}

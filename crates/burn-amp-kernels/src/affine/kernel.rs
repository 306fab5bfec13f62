use burn_backend::{DType, Shape, TensorMetadata};
use burn_cubecl::{CubeRuntime, kernel::into_contiguous, ops::permute, tensor::CubeTensor};
use cubecl::prelude::*;

use super::{
    Affine, Rest,
    device::{
        Factor, FactorLaunch, Factors, FactorsLaunch, Ordered, OrderedLaunch, PointLaunch, plus,
    },
    layout::{DIMS, Layout},
};
use crate::{
    cube::{
        layout::{in_order, out_of_order, permuted},
        names::{Buffer, OwnedBuffer, element, shared},
        plan::{
            Rows, address_type, array_of, empty_on_device_of, given, one_each, row_length, storage,
            vector_size,
        },
    },
    sign_mask::{BITS, words},
    tensors::CubeTensors,
};

/// The chain, and perhaps the [sign mask](crate::sign_mask) of it.
#[derive(CubeType, CubeLaunch)]
struct Written<O: Float, N: Size> {
    output: OwnedBuffer<Vector<O, N>>,
    mask: ComptimeOption<OwnedBuffer<u32>>,
    /// Whether there is a mask, see [`given`].
    #[cube(comptime)]
    #[allow(dead_code, reason = "it tells kernels apart")]
    given: u32,
}

/// One unit computes one vector. Neighbouring units share a word of the mask.
#[cube(launch, address_type = "dynamic")]
fn affine_kernel<X: Float, P: Float, O: Float, N: Size>(
    x: &Ordered<X, N>,
    factors: &Factors<N>,
    summand: &ComptimeOption<Ordered<P, N>>,
    written: &mut Written<O, N>,
    #[comptime] units: usize,
    #[comptime] units_per_word: usize,
    #[define(X, P, O)] _dtypes: [StorageType; 3],
) {
    let mut bits = 0u32;
    if ABSOLUTE_POS < written.output.len() {
        let at = factors.point(ABSOLUTE_POS);
        let y = factors.chain(factors.centered(x.at(ABSOLUTE_POS), at), at);
        let y = factors.ended(plus_tensor::<P, N>(y, summand));
        written.output[ABSOLUTE_POS] = Vector::cast_from(y);
        #[unroll]
        for i in 0..N::value() {
            bits |= select(element::<f32, N>(y, i) <= 0.0, 1u32, 0u32) << (i as u32);
        }
    }
    #[comptime]
    if let ComptimeOption::Some(mask) = &mut written.mask {
        let mut parts = shared::<u32>(units);
        parts[UNIT_POS as usize] = bits;
        sync_cube();
        if ABSOLUTE_POS.is_multiple_of(units_per_word) && ABSOLUTE_POS < written.output.len() {
            let mut word = 0u32;
            #[unroll]
            for i in 0..units_per_word {
                word |= parts[UNIT_POS as usize + i] << ((i * N::value()) as u32);
            }
            mask[ABSOLUTE_POS / units_per_word] = word;
        }
    }
}

/// Adds this unit's vector of a tensor, if there is one.
#[cube]
fn plus_tensor<P: Float, N: Size>(
    x: Vector<f32, N>,
    summand: &ComptimeOption<Ordered<P, N>>,
) -> Vector<f32, N> {
    #[comptime]
    match summand {
        ComptimeOption::Some(summand) => x + summand.at(ABSOLUTE_POS),
        ComptimeOption::None => x,
    }
}

/// The gradients of other readers of `x`, as [`Rest`] says.
#[derive(CubeType, CubeLaunch)]
struct Others<P: Float, N: Size> {
    before: ComptimeOption<Factor<N>>,
    of_squares: ComptimeOption<Factor<N>>,
    of_sum: ComptimeOption<Factor<N>>,
    plus: ComptimeOption<Ordered<P, N>>,
    /// Which of the factors there are, see [`given`].
    #[cube(comptime)]
    #[allow(dead_code, reason = "it tells kernels apart")]
    given: u32,
}

/// One unit computes one vector.
#[cube(launch, address_type = "dynamic")]
fn affine_backward_kernel<X: Float, G: Float, P: Float, O: Float, N: Size>(
    x: &Ordered<X, N>,
    factors: &Factors<N>,
    grad: &Ordered<G, N>,
    others: &Others<P, N>,
    dx: &mut Buffer<Vector<O, N>>,
    #[define(X, G, P, O)] _dtypes: [StorageType; 4],
) {
    if ABSOLUTE_POS >= dx.len() {
        terminate!();
    }
    let sizes = factors.sizes;
    let at = factors.point(ABSOLUTE_POS);
    let x = x.at(ABSOLUTE_POS);
    let grad = factors.passed(grad.at(ABSOLUTE_POS), factors.centered(x, at), at);
    let grad = factors.rescaled(factors.scaled(grad, at), at);
    #[comptime]
    let grad = match &others.of_squares {
        ComptimeOption::Some(by) => {
            let x = plus::<N>(x, &others.before, at, sizes);
            grad + x * by.at(at, sizes)
        }
        ComptimeOption::None => grad,
    };
    let grad = plus::<N>(grad, &others.of_sum, at, sizes);
    dx[ABSOLUTE_POS] = Vector::cast_from(plus_tensor::<P, N>(grad, &others.plus));
}

/// A tensor `x`, a chain of which the kernels compute, as they read it.
pub(super) struct Launch<'a, R: CubeRuntime> {
    pub layout: Layout,
    /// Elements per vector.
    pub vector_size: usize,
    affine: &'a Affine<CubeTensor<R>>,
}

impl<'a, R: CubeRuntime> Launch<'a, R> {
    /// Plans a launch for tensors of the shape of `x` in the given dtypes, and for others that are broadcast to the grid.
    /// `None` if the kernels cannot compute it.
    pub(super) fn new(
        x: &CubeTensor<R>,
        affine: &'a Affine<CubeTensor<R>>,
        others: &[Shape],
        dtypes: &[DType],
    ) -> Option<Self> {
        let is_f64 = x.dtype == DType::F64 || dtypes.contains(&DType::F64);
        if is_f64 || x.meta.num_elements() == 0 {
            return None;
        }
        let factors = affine.factors().into_iter().flatten();
        let factors = factors.map(TensorMetadata::shape);
        let shapes: Vec<_> = others.iter().cloned().chain(factors).collect();
        let layout = Layout::new(x, &affine.grid, &shapes)?;
        let sizes = dtypes.iter().map(DType::size);
        let widest = sizes.fold(x.dtype.size(), usize::max);
        Some(Self {
            vector_size: vector_size(&x.client, widest, &layout.sizes()[DIMS - 1..]),
            affine,
            layout,
        })
    }

    /// Passes a tensor of the shape of `x` to a kernel.
    pub(super) fn arg<X: Float, N: Size>(&self, tensor: &CubeTensor<R>) -> OrderedLaunch<X, N, R> {
        let rows = Rows::new(permute(tensor.clone(), &self.layout.order));
        let (row, pitch) = (row_length(&rows.tensor), rows.pitch);
        if pitch == row {
            let values = array_of(&rows.tensor, tensor.meta.num_elements());
            return OrderedLaunch::new(values, 0, 0, false);
        }
        let size = self.vector_size;
        if !row.is_multiple_of(size) || !pitch.is_multiple_of(size) {
            let values = into_contiguous(rows.tensor).into_array_arg();
            return OrderedLaunch::new(values, 0, 0, false);
        }
        OrderedLaunch::new(rows.memory(), row / size, pitch / size, true)
    }

    /// Passes a factor to a kernel, if there is one.
    fn factor<N: Size>(&self, factor: Option<&CubeTensor<R>>) -> ComptimeOptionArgs<Factor<N>, R> {
        let factor = factor.map(|factor| {
            let varies = self.layout.varies(&factor.shape());
            let values = in_order(factor.clone(), &self.layout.grid_order).into_array_arg();
            let (vectors, scalars) = match varies & 1 << (DIMS - 1) {
                0 => (None, Some(values)),
                _ => (Some(values), None),
            };
            FactorLaunch::new(vectors.into(), scalars.into(), varies)
        });
        factor.into()
    }

    /// Passes the chain to a kernel.
    pub(super) fn factors<N: Size>(&self) -> FactorsLaunch<N, R> {
        let factors = self.affine.factors();
        let are_there = given(factors.map(|factor| factor.is_some()));
        let [before, scale, rescale, after] = factors.map(|factor| self.factor(factor));
        let [a, b, c, d] = self.layout.sizes();
        let sizes = PointLaunch::new(a, b, c, d);
        FactorsLaunch::new(
            before,
            scale,
            rescale,
            after,
            are_there,
            sizes,
            self.affine.divides,
            self.affine.end,
        )
    }
}

/// Launches the chain, and perhaps writes a mask; `None` if the kernel cannot compute it.
pub(crate) fn affine<R: CubeRuntime>(
    x: &CubeTensor<R>,
    affine: &Affine<CubeTensor<R>>,
    plus: Option<&CubeTensor<R>>,
    dtype: DType,
    has_mask: bool,
) -> Option<CubeTensors<R>> {
    let plus_dtype = plus.map_or(dtype, |plus| plus.dtype);
    let launch = Launch::new(x, affine, &[], &[plus_dtype, dtype])?;
    let shape = permuted(&x.shape(), &launch.layout.order);
    let output = empty_on_device_of(x, shape, dtype);
    let elements = x.meta.num_elements();
    let (cubes, units) = one_each(&x.client, elements / launch.vector_size);
    let units_per_word = BITS / launch.vector_size;
    if has_mask && !(units.x as usize).is_multiple_of(units_per_word) {
        return None;
    }
    let words = Shape::new([words(elements)]);
    let mask = has_mask.then(|| empty_on_device_of(x, words, DType::U32));
    affine_kernel::launch::<R>(
        &x.client,
        cubes,
        units,
        address_type([x, &output]),
        launch.vector_size,
        launch.arg(x),
        launch.factors(),
        plus.map(|plus| launch.arg(plus)).into(),
        WrittenLaunch::new(
            output.clone().into_array_arg(),
            mask.clone().map(|mask| mask.into_array_arg()).into(),
            given([has_mask]),
        ),
        units.num_elems() as usize,
        units_per_word,
        [x.dtype, plus_dtype, dtype].map(storage),
    );
    let output = out_of_order(output, &launch.layout.order);
    Some(CubeTensors::from([output]).with_ints(mask))
}

/// Launches the gradient with respect to `x`; `None` if the kernel cannot compute it.
pub(crate) fn affine_backward<R: CubeRuntime>(
    x: &CubeTensor<R>,
    affine: &Affine<CubeTensor<R>>,
    grad: &CubeTensor<R>,
    rest: &Rest<CubeTensor<R>>,
    dtype: DType,
) -> Option<CubeTensor<R>> {
    let before = rest.before.as_ref().filter(|_| rest.of_squares.is_some());
    let small = [before, rest.of_squares.as_ref(), rest.of_sum.as_ref()];
    let plus = rest.plus.as_ref();
    let plus_dtype = plus.map_or(dtype, |plus| plus.dtype);
    let shapes: Vec<_> = small
        .into_iter()
        .flatten()
        .map(TensorMetadata::shape)
        .collect();
    let launch = Launch::new(x, affine, &shapes, &[grad.dtype, plus_dtype, dtype])?;
    let layout = &launch.layout;
    let dx = empty_on_device_of(x, permuted(&x.shape(), &layout.order), dtype);
    let (cubes, units) = one_each(&x.client, x.meta.num_elements() / launch.vector_size);
    let are_there = given(small.map(|tensor| tensor.is_some()));
    let [before, of_squares, of_sum] = small.map(|tensor| launch.factor(tensor));
    let plus = plus.map(|plus| launch.arg(plus)).into();
    let others = OthersLaunch::new(before, of_squares, of_sum, plus, are_there);
    affine_backward_kernel::launch::<R>(
        &x.client,
        cubes,
        units,
        address_type([x, &dx]),
        launch.vector_size,
        launch.arg(x),
        launch.factors(),
        launch.arg(grad),
        others,
        dx.clone().into_array_arg(),
        [x.dtype, grad.dtype, plus_dtype, dtype].map(storage),
    );
    Some(out_of_order(dx, &layout.order))
}
